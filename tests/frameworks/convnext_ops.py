"""A ConvNeXt and a ResNet in half precision with channels last, whose convolutions cuDNN compiles: a first request, a second one, and one with another shape."""
import torch
import torchvision

from answers import answer

torch.manual_seed(1)
layout = {"memory_format": torch.channels_last}
models = [model.half().to(**layout).cuda().eval() for model in [torchvision.models.convnext_tiny(), torchvision.models.resnet18()]]


def classify(side):
    image = torch.randn(2, 3, side, side).half().to(**layout).cuda()
    with torch.no_grad():
        return [model(image) for model in models]


answer(classify, [(224,), (224,), (192,)])

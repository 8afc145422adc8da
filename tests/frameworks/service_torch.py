"""ResNet-50 and a transformer encoder in half precision, with random weights of a fixed seed, on the GPU."""
import torch

try:
    from torchvision.models import resnet50
except ImportError:
    from timm.models import resnet50

# cuDNN may otherwise choose algorithms whose results differ from run to run.
torch.backends.cudnn.deterministic = True
models, inputs = [], []


def load():
    """Moves the weights to the GPU, which makes the context but launches no kernel of the models."""
    # The weights are made on the CPU, so that they don't depend on the GPU.
    torch.manual_seed(1)
    layer = torch.nn.TransformerEncoderLayer(512, 8, batch_first=True)
    encoder = torch.nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
    models.extend([resnet50().eval().cuda(), encoder.half().eval().cuda()])
    inputs.extend([torch.randn(1, 3, 224, 224), torch.randn(1, 128, 512).half()])


@torch.inference_mode()
def infer():
    """Returns the first 64 outputs of each model."""
    outputs = [model(given.cuda()) for model, given in zip(models, inputs)]
    return [output for each in outputs for output in each.flatten()[:64].float().tolist()]

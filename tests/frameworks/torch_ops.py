"""Runs operations of PyTorch: a matrix product, softmax, layer norm, a convolution, and a captured graph."""
import torch

torch.manual_seed(1)
x = torch.randn(256, 256, device="cuda")
w = torch.randn(256, 256, device="cuda")
image = torch.randn(1, 3, 32, 32, device="cuda")
conv = torch.nn.Conv2d(3, 8, 3).cuda()


def close(name, got, expected):
    print(name, torch.allclose(got.cpu().float(), expected, rtol=1e-3, atol=1e-3))


close("matmul", x @ w, x.cpu() @ w.cpu())
close("softmax", x.softmax(1), x.cpu().softmax(1))
close("layer_norm", torch.nn.functional.layer_norm(x, (256,)), torch.nn.functional.layer_norm(x.cpu(), (256,)))
with torch.no_grad():
    got = conv(image)
    close("conv", got, conv.cpu()(image.cpu()))

graph = torch.cuda.CUDAGraph()
static = x.clone()
with torch.cuda.graph(graph):
    out = (static * 2).exp().sum(0)
graph.replay()
torch.cuda.synchronize()
close("graph", out, (x.cpu() * 2).exp().sum(0))

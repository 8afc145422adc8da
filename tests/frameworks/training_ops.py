"""Steps of training with kernels of Triton as in liger-kernel, RMSNorm and SwiGLU, and with attention: a first step, a second one, and one with another batch.
Triton's compilation isn't in these if its cache is filled."""
import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import nn

from answers import answer


@triton.jit
def norm_forward(out, x, weight, scale, width: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, width)
    value = tl.load(x + row * width + at).to(tl.float32)
    factor = tl.rsqrt(tl.sum(value * value, 0) / width + 1e-6)
    tl.store(scale + row, factor)
    tl.store(out + row * width + at, value * factor * tl.load(weight + at))


@triton.jit
def norm_backward(to_x, grad, x, weight, scale, width: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, width)
    value, factor = tl.load(x + row * width + at).to(tl.float32) * tl.load(scale + row), tl.load(scale + row)
    weighted = tl.load(grad + row * width + at).to(tl.float32) * tl.load(weight + at)
    tl.store(to_x + row * width + at, factor * (weighted - value * tl.sum(weighted * value, 0) / width))


@triton.jit
def gate_forward(out, a, b, count, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    x = tl.load(a + at, at < count).to(tl.float32)
    tl.store(out + at, x * tl.sigmoid(x) * tl.load(b + at, at < count), at < count)


@triton.jit
def gate_backward(to_a, to_b, grad, a, b, count, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    inside = at < count
    x, g = tl.load(a + at, inside).to(tl.float32), tl.load(grad + at, inside).to(tl.float32)
    s = tl.sigmoid(x)
    tl.store(to_a + at, g * tl.load(b + at, inside) * s * (1 + x * (1 - s)), inside)
    tl.store(to_b + at, g * x * s, inside)


class Norm(torch.autograd.Function):
    @staticmethod
    def forward(context, x, weight):
        x, rows = x.contiguous(), x.numel() // x.shape[-1]
        out, scale = torch.empty_like(x), torch.empty(rows, device=x.device)
        norm_forward[(rows,)](out, x, weight, scale, x.shape[-1])
        context.save_for_backward(x, weight, scale)
        return out

    @staticmethod
    def backward(context, grad):
        x, weight, scale = context.saved_tensors
        to_x, grad = torch.empty_like(x), grad.contiguous()
        norm_backward[(len(scale),)](to_x, grad, x, weight, scale, x.shape[-1])
        normed = (x.float().view(len(scale), -1) * scale[:, None]).view_as(x)
        return to_x, (grad.float() * normed).flatten(0, -2).sum(0)


class Gate(torch.autograd.Function):
    @staticmethod
    def forward(context, a, b):
        out = torch.empty_like(a)
        gate_forward[(triton.cdiv(a.numel(), 1024),)](out, a, b, a.numel(), 1024)
        context.save_for_backward(a, b)
        return out

    @staticmethod
    def backward(context, grad):
        a, b = context.saved_tensors
        to_a, to_b = torch.empty_like(a), torch.empty_like(b)
        gate_backward[(triton.cdiv(a.numel(), 1024),)](to_a, to_b, grad.contiguous(), a, b, a.numel(), 1024)
        return to_a, to_b


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norms = nn.ParameterList(torch.ones(width) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.gate, self.down = nn.Linear(width, 2 * width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        heads = [part.unflatten(-1, (-1, 64)).transpose(1, 2) for part in self.qkv(Norm.apply(x, self.norms[0])).chunk(3, -1)]
        x = x + self.out(F.scaled_dot_product_attention(*heads, is_causal=True).transpose(1, 2).flatten(2))
        normed = Norm.apply(x, self.norms[1])
        return x + self.down(Gate.apply(self.gate(normed), self.up(normed)))


torch.manual_seed(1)
words, model = nn.Embedding(1000, 256).to("cuda", torch.bfloat16), nn.Sequential(Layer(256), Layer(256)).to("cuda", torch.bfloat16)
parameters = [*words.parameters(), *model.parameters()]
optimizer = torch.optim.AdamW(parameters, 1e-3)


def step(batch):
    text = torch.randint(0, 1000, (batch, 64), device="cuda")
    loss = F.cross_entropy((model(words(text)) @ words.weight.T).flatten(0, 1).float(), text.roll(-1, 1).flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    # The gradients of the embedding are added in any order.
    return [loss, *(parameter.grad for parameter in model.parameters() if parameter.dim() > 1)]


answer(step, [(2,), (2,), (4,)])

"""cuDNN's attention in several shapes, types and masks, also in training. cuDNN compiles each by NVRTC, from texts that only it can decode."""
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from answers import answer


def attention(batch, queries, keys, width, type, mask, trains):
    new = lambda length: torch.randn(batch, 8, length, width, device="cuda", dtype=getattr(torch, type), requires_grad=trains)
    q, k, v = new(queries), new(keys), new(keys)
    given = torch.rand(batch, 1, queries, keys, device="cuda").to(q.dtype) if mask == "given" else None
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        result = F.scaled_dot_product_attention(q, k, v, attn_mask=given, is_causal=mask == "causal")
    if not trains:
        return [result]
    result.sum().backward()
    return [result, q.grad, k.grad, v.grad]


answer(
    attention,
    [
        (1, 128, 128, 64, "float16", "none", False),
        (1, 128, 128, 64, "float16", "none", False),
        (1, 256, 256, 64, "float16", "none", False),
        (1, 128, 128, 128, "bfloat16", "causal", False),
        (2, 1, 100, 64, "float16", "none", False),
        (1, 128, 128, 64, "float16", "given", False),
        (2, 128, 128, 64, "bfloat16", "causal", True),
    ],
)

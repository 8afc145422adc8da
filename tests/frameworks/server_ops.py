"""A GPT-2 of transformers with random weights and a kernel of Triton: a first request, a second one, and one with another batch. Triton's
compilation isn't in these if its cache is filled."""
import torch
import triton
import triton.language as tl
from transformers import GPT2Config, GPT2LMHeadModel

from answers import answer


@triton.jit
def scale(x, n, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(x + at, tl.load(x + at, at < n) * 0.5, at < n)


torch.manual_seed(1)
model = GPT2LMHeadModel(GPT2Config(n_embd=384, n_layer=4, n_head=6)).half().cuda().eval()
torch.cuda.synchronize()


def complete(batch):
    words, state, logits = torch.randint(0, 1000, (batch, 32), device="cuda"), None, []
    with torch.no_grad():
        for _ in range(6):
            out = model(input_ids=words, past_key_values=state, use_cache=True)
            last = out.logits[:, -1].contiguous()
            scale[(triton.cdiv(last.numel(), 1024),)](last, last.numel(), 1024)
            state, words = out.past_key_values, last.argmax(-1, keepdim=True)
            logits.append(last)
    return logits


answer(complete, [(1,), (1,), (2,)])

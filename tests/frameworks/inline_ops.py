"""An extension of PyTorch that `load_inline` compiles once, with nvcc: its first request."""
import os
import tempfile
from pathlib import Path

import torch
from torch.utils.cpp_extension import load_inline

from answers import answer

SOURCE = """
template <int N> __global__ void step(float *x, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) for (int i = 0; i < N; i++) x[at] = x[at] * 0.5f + sinf(x[at] * N);
}
void steps(torch::Tensor x) {
    int n = x.numel(), blocks = (n + 255) / 256;
    step<1><<<blocks, 256>>>(x.data_ptr<float>(), n);
    step<2><<<blocks, 256>>>(x.data_ptr<float>(), n);
    step<3><<<blocks, 256>>>(x.data_ptr<float>(), n);
}
"""
os.environ.setdefault("TORCH_CUDA_ARCH_LIST", "9.0")
folder = Path(tempfile.gettempdir()) / f"inline-ops-{os.getuid()}"
folder.mkdir(exist_ok=True)
extension = load_inline("inline_ops", "void steps(torch::Tensor x);", SOURCE, functions=["steps"], build_directory=str(folder))
values = torch.ones(10000, device="cuda")
torch.cuda.synchronize()


def request():
    extension.steps(values)
    return [values]


answer(request, [(), ()])

"""Does during start-up what libraries do once, in a first request: what can't be kept from one process to the next."""

from __future__ import annotations

import importlib
import sys
import threading
import time
from typing import Callable, NamedTuple, Optional


class Step(NamedTuple):
    """What was done for a library."""

    library: str
    what: str
    seconds: float
    error: Optional[Exception]


class Rehearsal:
    """A rehearsal in a thread of its own."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._thread = threading.Thread(target=self._run, name="kernel_audit.rehearse", daemon=True)
        self._thread.start()

    def wait(self, timeout: Optional[float] = None) -> list[Step]:
        """Waits for the end, and returns what was done so far."""
        self._thread.join(timeout)
        return list(self.steps)

    def _run(self) -> None:
        for library, what, act in _STEPS:
            if library not in sys.modules:
                continue
            begun = time.perf_counter()
            error: Optional[Exception] = None
            try:
                act()
            except Exception as raised:
                error = raised
            self.steps.append(Step(library, what, time.perf_counter() - begun, error))


def rehearse() -> Rehearsal:
    """Begins a rehearsal for the libraries that the program has imported, in a thread. Call it once, before the program is ready.

    PyTorch: a small product and a small convolution, so that cuBLASLt and cuDNN are set up. Triton: the digest of its own sources, which is
    part of each kernel's key. Works with and without `kernel-audit`.
    """
    return Rehearsal()


def _triton_key() -> None:
    for module in ("triton.runtime.cache", "triton.compiler.compiler"):
        key = getattr(importlib.import_module(module), "triton_key", None)
        if key is not None:
            key()
            return
    raise AttributeError("this version of Triton has no `triton_key`")


def _triton_gluon() -> None:
    importlib.import_module("triton.experimental.gluon.language")


def _torch() -> None:
    torch = sys.modules["torch"]
    if not torch.cuda.is_available():
        return
    with torch.no_grad():
        for dtype in (torch.float16, torch.float32):
            x = torch.zeros(16, 16, device="cuda", dtype=dtype)
            torch.nn.functional.linear(x, x, x[0])
            image = torch.zeros(1, 16, 8, 8, device="cuda", dtype=dtype).to(memory_format=torch.channels_last)
            torch.nn.functional.conv2d(image, torch.zeros(16, 16, 3, 3, device="cuda", dtype=dtype))
    torch.cuda.synchronize()


_STEPS: list[tuple[str, str, Callable[[], None]]] = [
    ("triton", "the digest of its sources", _triton_key),
    ("triton", "the import of Gluon", _triton_gluon),
    ("torch", "the set-up of cuBLASLt and cuDNN", _torch),
]

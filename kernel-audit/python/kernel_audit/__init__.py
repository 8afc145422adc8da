"""Tells the audit of CUDA calls what a program does. These functions do nothing unless `kernel-audit` runs the program.

    kernel-audit --record late.preload -- python3 serve.py
    kernel-audit --preload late.preload --after-ready refuse -- python3 serve.py
"""

from __future__ import annotations

import contextlib
import ctypes
import time
from typing import Iterator, Literal, Protocol, Union

from kernel_audit import metrics
from kernel_audit._audit import library as _library
from kernel_audit._events import Event, on_event
from kernel_audit._late import LateLoads, no_late_loads
from kernel_audit._rehearse import Rehearsal, rehearse

__all__ = ["Event", "LateLoads", "Rehearsal", "is_audited", "mark", "metrics", "no_late_loads", "on_event", "preload", "ready", "rehearse", "section"]
__version__ = "@VERSION@"

OnWait = Literal["refuse", "report", "defer"]


class _TorchStream(Protocol):
    @property
    def cuda_stream(self) -> int: ...


class _CupyStream(Protocol):
    @property
    def ptr(self) -> int: ...


Stream = Union[int, _TorchStream, _CupyStream]


def is_audited() -> bool:
    """Returns whether `kernel-audit` runs this program."""
    return _library() is not None


def ready() -> None:
    """Says that the program is ready: from now on a call that loads something is late."""
    library = _library()
    if library is not None:
        library.kernel_registry_audit_ready()


def mark(name: str = "") -> None:
    """Begins a stretch of time, and ends the one before; without a name it only ends.

    Behind `kernel-audit --first SECONDS` the report says where the time of each stretch went.
    """
    # An older `kernel-audit` has no marks.
    function = getattr(_library(), "kernel_registry_audit_mark", None)
    if function is not None:
        function(name.encode())


def preload() -> int:
    """Loads what `--preload FILE` names in the current context, for `--preload-at call`.

    Returns the number of kernels that were loaded, or -1 if there is nothing to load, or if it was loaded in this context before.
    """
    library = _library()
    return -1 if library is None else int(library.kernel_registry_audit_preload())


def _handle(stream: Stream) -> int:
    if isinstance(stream, int):
        return stream
    for name in ("cuda_stream", "ptr"):
        handle = getattr(stream, name, None)
        if isinstance(handle, int):
            return handle
    raise TypeError(f"a stream is a handle, or has one as `cuda_stream` (PyTorch) or `ptr` (CuPy); this is {stream!r}")


@contextlib.contextmanager
def section(stream: Stream, kernel: str = "", on_wait: OnWait = "refuse") -> Iterator[None]:
    """Opens a section: calls that would wait for the resident kernel in this stream are refused, reported or deferred.

    Begin the section before the kernel is launched. The end of the section waits until the stream is done, so tell the kernel to end before. After an
    exception the end of the section does not wait.
    """
    words = ("refuse", "report", "defer")
    if on_wait not in words:
        raise ValueError(f"`on_wait` is one of {', '.join(words)}; this is {on_wait!r}")
    library, handle = _library(), _handle(stream)
    if library is None:
        yield
        return
    number = library.kernel_registry_audit_section_begin(kernel.encode(), None, handle, words.index(on_wait))
    if number == 0:
        raise RuntimeError("no section can begin in this stream; standard error says why")
    try:
        yield
        not_ready = 600
        while library.cuStreamQuery(ctypes.c_void_p(handle)) == not_ready:
            time.sleep(0.0005)
    finally:
        library.kernel_registry_audit_section_end(number)

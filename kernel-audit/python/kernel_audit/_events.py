"""The events of the audit, as they happen: `on_event` and what it builds on."""

from __future__ import annotations

import ctypes
import os
import threading
import traceback
from dataclasses import dataclass
from typing import Any, Callable, Iterator

from kernel_audit import _audit

#: The kinds of events that load or compile something, or were refused because they would.
LOADS = ("load", "image", "resize", "compile", "refused")

#: How often the audit is asked for events, in seconds.
_INTERVAL = 0.1


@dataclass(frozen=True)
class Event:
    """An event of the audit. Its text is one line for a log."""

    #: `load`, `image`, `resize`, `compile`, `hang` or another kind of docs/audit-json.md.
    kind: str
    #: Whether it came after the program was ready, would have waited for a resident kernel, or is a hang.
    is_finding: bool
    #: When it began, in seconds since the process's first call of the driver.
    begun: float
    #: How long it took, in seconds.
    took: float
    #: The thread, as Linux numbers it.
    thread: int
    #: The function of the driver or of NVRTC.
    call: str
    #: The kernel's symbol, or an empty text.
    kernel: str
    #: The image, the limit that is resized or the program that is compiled, or an empty text.
    image: str
    #: The user's function, such as `serve.py:42 forward`; in other languages than Python the library and its function.
    caller: str
    #: The library that called.
    library: str

    @property
    def is_load(self) -> bool:
        """Whether this loaded or compiled something, or was refused because it would."""
        # In a section other calls can be refused, too, such as `cuMemFree`.
        return self.kind in LOADS and (self.kind != "refused" or bool(self.kernel or self.image))

    def __str__(self) -> str:
        subject = self.kernel or self.image
        of = f" of {subject}" if subject else ""
        return f"{self.kind}{of} in {self.call} took {self.took * 1000:.3f} ms, called by {self.caller or self.library or 'an unknown function'}"


def _decode(data: bytes) -> Event:
    texts = data.decode(errors="replace").split("\0")
    # A newer audit may add texts at the end.
    kind, is_finding, begun, took, thread, call, kernel, image, caller, library = texts[:10]
    return Event(kind, is_finding == "1", int(begun) / 1e9, int(took) / 1e9, int(thread), call, kernel, image, caller, library)


def _function() -> Any:
    return getattr(_audit.library(), "kernel_registry_audit_event", None)


def why_unreadable(command: str) -> str:
    """Returns why there are no events, and that `command` has to be run below `kernel-audit`; or nothing if there are events."""
    if _audit.library() is None:
        return f"this program isn't audited: run `kernel-audit {command}`"
    if _function() is None:
        return "the `kernel-audit` that runs this program is older than its Python package, and hands no events over: install the same version of both"
    return ""


def events(after: int) -> Iterator[tuple[int, Event]]:
    """Yields the events with a larger number than `after`, each with its number. The audit keeps the last 1024."""
    function, length, data = _function(), ctypes.c_size_t(), ctypes.create_string_buffer(1024)
    while function is not None:
        number = function(after, data, len(data), ctypes.byref(length))
        if number == 0:
            return
        if length.value > len(data):
            data = ctypes.create_string_buffer(length.value)
            continue
        after = number
        yield number, _decode(ctypes.string_at(data, length.value))


def _latest() -> int:
    """Returns the number of the latest event. The audit keeps events from the first call on."""
    function, length, latest = _function(), ctypes.c_size_t(), 0
    while number := function(latest, None, 0, ctypes.byref(length)):
        latest = number
    return latest


def on_event(callback: Callable[[Event], object]) -> Callable[[], None]:
    """Calls `callback` with each event from now on, within 0.1 seconds and in another thread.

    Returns a function that stops this, once the callback has had the events so far. If a callback fails, its first traceback is printed.
    Forked children have to register their own. A call that hangs without releasing the GIL delays its event until it returns. Does nothing if the
    program isn't audited, or by an older `kernel-audit`.
    """
    if _function() is None:
        return lambda: None
    stopped, latest, process = threading.Event(), _latest(), os.getpid()

    def poll() -> None:
        after, has_failed, is_last = latest, False, False
        while not is_last:
            is_last = stopped.wait(_INTERVAL)
            for after, event in events(after):
                try:
                    callback(event)
                except Exception:
                    if not has_failed:
                        traceback.print_exc()
                    has_failed = True

    thread = threading.Thread(target=poll, name="kernel-audit events", daemon=True)
    thread.start()

    def stop() -> None:
        # A forked child doesn't have the thread, which may have held a lock of `stopped`.
        if os.getpid() != process:
            return
        stopped.set()
        if threading.current_thread() is not thread:
            thread.join()

    return stop

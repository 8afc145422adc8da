"""The audit's functions, which `libcuda.so.1` exports in an audited program."""

from __future__ import annotations

import ctypes
import functools


@functools.lru_cache(maxsize=None)
def library() -> ctypes.CDLL | None:
    """Returns the audit, or None if `kernel-audit` doesn't run this program."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
        begin, end = library.kernel_registry_audit_section_begin, library.kernel_registry_audit_section_end
    except (OSError, AttributeError):
        return None
    begin.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32]
    begin.restype, end.argtypes, end.restype = ctypes.c_uint64, [ctypes.c_uint64], ctypes.c_uint64
    event = getattr(library, "kernel_registry_audit_event", None)
    if event is not None:
        event.argtypes = [ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
        event.restype = ctypes.c_uint64
    return library

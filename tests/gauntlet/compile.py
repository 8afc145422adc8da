"""Compiles the programs of a specification with NVRTC, and prints a digest of everything that it returns: `compile.py NVRTC FILE.json`."""
import ctypes
import hashlib
import json
import os
import sys
from pathlib import Path

nvrtc = ctypes.CDLL(sys.argv[1])


def texts(all):
    return (ctypes.c_char_p * max(len(all), 1))(*(text.encode() for text in all))


def part(program, kind):
    size = ctypes.c_size_t()
    answer = getattr(nvrtc, f"nvrtcGet{kind}Size")(program, ctypes.byref(size))
    if answer or not size.value:
        return [answer, size.value]
    bytes = ctypes.create_string_buffer(size.value)
    return [answer, getattr(nvrtc, f"nvrtcGet{kind}")(program, bytes), hashlib.sha256(bytes.raw).hexdigest()[:12]]


def compiled(it):
    program, headers = ctypes.c_void_p(), it.get("headers", {})
    name = it["name"].encode() if it.get("name") else None
    made = nvrtc.nvrtcCreateProgram(ctypes.byref(program), it["text"].encode(), name, len(headers), texts(headers.values()), texts(headers))
    found = [made, *(nvrtc.nvrtcAddNameExpression(program, name.encode()) for name in it.get("names", []))]
    for options in it["options"]:
        found.append(nvrtc.nvrtcCompileProgram(program, len(options), texts(options)))
        found += [part(program, kind) for kind in ["PTX", "CUBIN", "LTOIR", "ProgramLog"]]
    for name in it.get("names", []):
        lowered = ctypes.c_char_p()
        found.append([nvrtc.nvrtcGetLoweredName(program, name.encode(), ctypes.byref(lowered)), str(lowered.value)])
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return found


# The direction in which this thread rounds, and so NVRTC's constants.
ctypes.CDLL("libm.so.6").fesetround(int(os.environ.get("ROUNDING", "0")))
for it in json.loads(Path(sys.argv[2]).read_text()):
    print(it["label"], json.dumps(compiled(it)))

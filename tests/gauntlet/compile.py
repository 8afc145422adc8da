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


def flipped(text):
    return bytes(byte ^ 0xA9 for byte in text)


# What was decoded, which must stay where it is.
DECODED = []


@ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
def decode(text, _):
    DECODED.append(ctypes.create_string_buffer(flipped(text)))
    return ctypes.addressof(DECODED[-1])


def encoded(all):
    return (ctypes.c_char_p * max(len(all), 1))(*(flipped(text.encode()) for text in all))


def create(program, it, text, name, headers):
    """Creates a program, by the function that cuDNN calls if it's encoded."""
    if not it.get("encoded"):
        return nvrtc.nvrtcCreateProgram(program, text, name, len(headers), texts(headers.values()), texts(headers))
    kinds, values = (ctypes.c_int * 2)(1, 2), (ctypes.c_void_p * 2)(ctypes.cast(decode, ctypes.c_void_p), None)
    return nvrtc["__nvrtcCPEx"](program, flipped(text), name, len(headers), encoded(headers.values()), texts(headers), 2, kinds, values)


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
    made = create(ctypes.byref(program), it, it["text"].encode(), name, headers)
    found = [made, *(nvrtc.nvrtcAddNameExpression(program, name.encode()) for name in it.get("names", []))]
    for options in it["options"]:
        words = (encoded if it.get("encoded") else texts)(options)
        found.append(nvrtc.nvrtcCompileProgram(program, len(options), words))
        found += [part(program, kind) for kind in ["PTX", "CUBIN", "LTOIR", "ProgramLog"]]
    for name in it.get("names", []):
        lowered = ctypes.c_char_p()
        found.append([nvrtc.nvrtcGetLoweredName(program, name.encode(), ctypes.byref(lowered)), str(lowered.value)])
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return [*found, len(DECODED)]


# The direction in which this thread rounds, and so NVRTC's constants.
ctypes.CDLL("libm.so.6").fesetround(int(os.environ.get("ROUNDING", "0")))
for it in json.loads(Path(sys.argv[2]).read_text()):
    print(it["label"], json.dumps(compiled(it)))

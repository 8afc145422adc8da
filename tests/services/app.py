"""A small service on the driver's C API, for WSGI and ASGI.

    /health    answers without the driver
    /          launches the kernel `first`
    /work      launches the kernel `second`

A process makes its context and launches `first` when its server calls `start`. The variable SERVICE changes that:

    call     `start` asks the audit to preload, for `--preload-at call`
    ready    `start` tells the audit that this process is ready
    lazy     `start` does nothing: the context is made in the first request
"""
import ctypes
import os
import sys
import threading
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "kernel-audit/python"))
import kernel_audit

KERNEL = ".visible .entry {}() {{ ret; }}\n"
IMAGE = ".version 7.0\n.target sm_70\n.address_size 64\n" + KERNEL.format("first") + KERNEL.format("second")
WAY = os.environ.get("SERVICE", "")

cuda = ctypes.CDLL("libcuda.so.1")
context, library = ctypes.c_void_p(), ctypes.c_void_p()
starting = threading.Lock()


def check(result):
    assert result == 0, f"the driver answers {result}"


def make_context():
    with starting:
        if library:
            return
        check(cuda.cuInit(0))
        check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
        check(cuda.cuCtxSetCurrent(context))
        if WAY == "call":
            kernel_audit.preload()
        check(cuda.cuLibraryLoadData(ctypes.byref(library), IMAGE.encode(), None, None, 0, None, None, 0))
        launch("first")


def launch(name):
    kernel = ctypes.c_void_p()
    check(cuda.cuCtxSetCurrent(context))
    check(cuda.cuLibraryGetKernel(ctypes.byref(kernel), library, name.encode()))
    check(cuda.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, None, None, None))
    check(cuda.cuCtxSynchronize())


def start():
    """Does what a process does before it serves requests."""
    if WAY != "lazy":
        make_context()
    if WAY == "ready":
        kernel_audit.ready()


def answer(path):
    """Returns the status and the text that answer a request: the process, and what it did."""
    done = "nothing"
    try:
        if path != "/health":
            make_context()
            done = "second" if path == "/work" else "first"
            launch(done)
    except AssertionError as error:
        return "500 Internal Server Error", f"{os.getpid()} {error}".encode()
    return "200 OK", f"{os.getpid()} {done}".encode()


def wsgi(environ, respond):
    status, text = answer(environ["PATH_INFO"])
    respond(status, [("Content-Type", "text/plain"), ("Content-Length", str(len(text)))])
    return [text]


async def asgi(scope, receive, send):
    if scope["type"] == "lifespan":
        while (await receive())["type"] == "lifespan.startup":
            start()
            await send({"type": "lifespan.startup.complete"})
        await send({"type": "lifespan.shutdown.complete"})
        return
    status, text = answer(scope["path"])
    length = str(len(text)).encode()
    await send({"type": "http.response.start", "status": int(status[:3]), "headers": [(b"content-length", length)]})
    await send({"type": "http.response.body", "body": text})

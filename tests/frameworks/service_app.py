"""A FastAPI service that runs the model in the module named by the variable SERVICE_MODEL. Each answer has the number of the worker's process.

    /health    answers without the model
    /work      runs the model, and answers with a digest of its outputs
"""
import contextlib
import hashlib
import importlib
import math
import os

from anyio import to_thread
from fastapi import FastAPI

model = importlib.import_module(os.environ["SERVICE_MODEL"])


@contextlib.asynccontextmanager
async def lifespan(_):
    # PyTorch keeps cuDNN's plans for each thread, so each thread of the pool would load them again, the last of them late.
    to_thread.current_default_thread_limiter().total_tokens = 2
    model.load()
    yield


app = FastAPI(lifespan=lifespan)


@app.get("/health")
def health():
    return {"process": os.getpid()}


# FastAPI calls functions without `async` in a pool of threads, so requests use the GPU from several threads.
@app.get("/work")
def work():
    outputs = model.infer()
    # NaN equals NaN in a digest, which would then prove nothing.
    assert outputs and all(map(math.isfinite, outputs)), "the model has outputs that aren't finite"
    rounded = " ".join(f"{output:.4g}" for output in outputs)
    return {"process": os.getpid(), "digest": hashlib.sha256(rounded.encode()).hexdigest()[:16]}

"""A training loop like that of PyTorch's DataLoader: processes prepare batches, a thread pins their memory, and the loop launches kernels."""
import ctypes
import multiprocessing
import os
import queue
import signal
import threading

import cuda

BATCHES, WORKERS = 6, 2


def prepare(method, number, tasks, results):
    """Runs in a worker. A forked worker cannot use the driver, because its parent uses it already. A new process can use the driver."""
    state = cuda.driver().cuCtxGetCurrent(ctypes.byref(ctypes.c_void_p()))
    if method != "fork":
        cuda.run_new_kernel(cuda.start(), f"{method}_{number}")
    while (task := tasks.get()) is not None:
        results.put((task, number, state, bytes([task]) * 4096))


def pin(driver, results, pinned, count):
    """Runs in a thread, and pins memory in the context that all threads share."""
    cuda.check(driver.cuCtxSetCurrent(cuda.new(driver.cuDevicePrimaryCtxRetain, 0)))
    for _ in range(count):
        task, number, state, batch = results.get()
        memory = cuda.new(driver.cuMemHostAlloc, ctypes.c_size_t(len(batch)), 0)
        ctypes.memmove(memory, batch, len(batch))
        pinned.put((task, number, state, memory))


def load(method, driver):
    here = multiprocessing.get_context(method)
    tasks, results, pinned = [here.Queue() for _ in range(WORKERS)], here.Queue(), queue.Queue()
    workers = [here.Process(target=prepare, args=(method, number, tasks[number], results)) for number in range(WORKERS)]
    for worker in workers:
        worker.start()
    for task in range(BATCHES):
        tasks[task % WORKERS].put(task)
    thread = threading.Thread(target=pin, args=(driver, results, pinned, BATCHES))
    thread.start()
    seen = []
    for _ in range(BATCHES):
        task, number, state, memory = pinned.get(timeout=30)
        cuda.run_new_kernel(driver, f"{method}_step_{task}")
        seen.append((task, number, state, ctypes.string_at(memory, 1)[0]))
        cuda.check(driver.cuMemFreeHost(memory))
    thread.join()
    # One worker is killed, as the out-of-memory killer does, and the other is told to end.
    os.kill(workers[0].pid, signal.SIGKILL)
    tasks[1].put(None)
    for worker in workers:
        worker.join()
    print(method, sorted(seen), [worker.exitcode for worker in workers])


if __name__ == "__main__":
    ended = []
    signal.signal(signal.SIGCHLD, lambda *_: ended.append(True))
    driver = cuda.start()
    for method in ["fork", "spawn", "forkserver"]:
        load(method, driver)
    print("told of the ends of children:", bool(ended))

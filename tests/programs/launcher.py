"""A launcher of ranks like torchrun: each rank has a session and variables of its own, and the launcher passes SIGTERM on to the ranks.

    launcher.py restart    one rank fails, the launcher ends all others, and starts all ranks again
    launcher.py wait       all ranks run until a signal comes
"""
import os
import signal
import subprocess
import sys

import cuda

RANKS = 3


def rank():
    """Launches a kernel, says so, and waits for the order to fail or to go on, or for SIGTERM."""
    driver = cuda.start()
    number = os.environ["RANK"]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(f"rank {number} was told to end"))
    cuda.run_new_kernel(driver, "first")
    print("ready", flush=True)
    told = sys.stdin.readline().strip()
    if told == "fail":
        sys.exit(7)
    if told == "go on":
        cuda.run_new_kernel(driver, "second")
        sys.exit(0)
    sys.exit(f"rank {number} has lost its launcher")


def start(restarts):
    """Starts all ranks, and returns them once each has launched a kernel."""
    shared = {**os.environ, "WORLD_SIZE": str(RANKS), "RESTARTS": str(restarts)}
    ranks = [
        subprocess.Popen(
            [sys.executable, __file__],
            env={**shared, "RANK": str(number), "LOCAL_RANK": str(number)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        for number in range(RANKS)
    ]
    for number, process in enumerate(ranks):
        print(f"rank {number}: {process.stdout.readline().strip()}", flush=True)
    return ranks


def tell(process, word):
    process.stdin.write(word + "\n")
    process.stdin.flush()


def end(ranks):
    for process in ranks:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)


def codes(ranks):
    said = [[line for line in process.communicate()[1].splitlines() if line.startswith("rank ")] for process in ranks]
    return [process.returncode for process in ranks], said


def launcher():
    if "restart" in sys.argv:
        ranks = start(0)
        tell(ranks[1], "fail")
        ranks[1].wait()
        end(ranks)
        print(*codes(ranks))
        ranks = start(1)
        for process in ranks:
            tell(process, "go on")
        print(*codes(ranks))
        return
    ranks = []

    def pass_on(number, _):
        end(ranks)
        print("signal", number, *codes(ranks), flush=True)
        sys.exit(128 + number)

    signal.signal(signal.SIGTERM, pass_on)
    signal.signal(signal.SIGINT, pass_on)
    ranks = start(0)
    print("ready", flush=True)
    signal.pause()


if "RANK" in os.environ:
    rank()
else:
    launcher()

"""Starts a daemon: it forks twice, has a session of its own, closes all descriptors, leaves its folder, and then forks workers.

    daemon.py FOLDER          ends when the daemon has ended, and prints what the daemon wrote
    daemon.py FOLDER leave    ends before the daemon, which goes on when FOLDER/go exists, and also starts a new process
"""
import os
import subprocess
import sys
import time
from pathlib import Path

import cuda

HERE = Path(__file__).resolve().parent
folder, leaves = Path(sys.argv[1]), "leave" in sys.argv
WORKERS, KERNELS, LONGEST = 2, 3, 20


def wait_for(is_so):
    end = time.monotonic() + LONGEST
    while not is_so():
        if time.monotonic() > end:
            sys.exit(f"did not happen in {LONGEST} s")
        time.sleep(0.01)


def write(line):
    with open(folder / "written", "a") as file:
        file.write(line + "\n")


def become_daemon():
    """Turns this process into a daemon. Returns in the daemon only."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return False
    os.setsid()
    parent = os.getpid()
    if os.fork():
        os._exit(0)
    os.closerange(0, 1024)
    for _ in range(3):
        os.open("/dev/null", os.O_RDWR)
    os.chdir("/")
    os.umask(0)
    wait_for(lambda: os.getppid() != parent)
    # A daemon recognizes by the id of its parent that it is one.
    write(f"adopted by {os.getppid()}")
    return True


def work(number):
    driver = cuda.start()
    for kernel in range(KERNELS):
        cuda.run_new_kernel(driver, f"worker_{number}_{kernel}")
    write(f"worker {number} is done")


def prefork():
    children = []
    for number in range(WORKERS):
        child = os.fork()
        if child == 0:
            work(number)
            os._exit(0)
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    write(f"workers ended with {codes}")


if become_daemon():
    if leaves:
        # The parent ends once this process uses the driver.
        cuda.run_new_kernel(cuda.start(), "daemon")
        (folder / "runs").touch()
        wait_for((folder / "go").exists)
        done = subprocess.run([sys.executable, str(HERE / "once.py")], capture_output=True, text=True)
        write(f"a new process says {done.stdout!r} and ends with {done.returncode}")
    else:
        prefork()
    (folder / "done").touch()
    os._exit(0)
if leaves:
    wait_for((folder / "runs").exists)
else:
    wait_for((folder / "done").exists)
    print("".join(sorted((folder / "written").read_text().splitlines(keepends=True))), end="")

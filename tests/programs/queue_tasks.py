"""Starts a Celery worker as a daemon with forked processes, sends it tasks, and ends it."""
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from celery import Celery

import cuda

TASKS, LONGEST = 6, 50
# The folder of the messages, of the results, and of the worker's files.
folder = Path(os.environ["TASKS_FOLDER"])
for name in ["messages", "results"]:
    (folder / name).mkdir(exist_ok=True)
app = Celery("queue_tasks", broker="filesystem://", backend=f"file://{folder / 'results'}")
app.conf.broker_transport_options = {
    "data_folder_in": str(folder / "messages"),
    "data_folder_out": str(folder / "messages"),
    "control_folder": str(folder / "messages"),
}
driver = None


@app.task(name="launch")
def launch(number):
    global driver
    driver = driver or cuda.start()
    cuda.run_new_kernel(driver, f"task_{number}")
    return number * number


def worker_process():
    return int((folder / "worker.pid").read_text())


def is_running(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    # A daemon that has ended, and whose parent has not waited for it, is not running either.
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


def wait_for(is_so, what):
    end = time.monotonic() + LONGEST
    while not is_so():
        if time.monotonic() > end:
            log = folder / "worker.log"
            sys.exit(f"{what}: not in {LONGEST} s\n{log.read_text() if log.exists() else 'no log'}")
        time.sleep(0.02)


if __name__ == "__main__":
    options = ["--pool", "prefork", "--concurrency", "2", "--without-gossip", "--without-mingle", "--without-heartbeat"]
    files = ["--detach", "--pidfile", str(folder / "worker.pid"), "--logfile", str(folder / "worker.log")]
    command = [sys.executable, "-m", "celery", "-A", "queue_tasks", "worker", *options, *files]
    print("the worker is started:", subprocess.run(command, cwd=Path(__file__).parent).returncode)
    results = [launch.delay(number) for number in range(TASKS)]
    wait_for(lambda: all(result.ready() for result in results), "the tasks are done")
    print("results", [result.get() for result in results])
    process = worker_process()
    os.kill(process, signal.SIGTERM)
    wait_for(lambda: not is_running(process), "the worker ends")
    print("the worker has ended")

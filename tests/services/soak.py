#!/usr/bin/env python3
"""Runs a preloaded service of gunicorn under a steady stream of requests, while 50 workers are replaced, two are killed, and the tool's folder is
replaced as by an upgrade. Each request has to be answered, nothing may be left behind, and disk and memory have to stay bounded.

    tests/services/soak.py FOLDER

FOLDER is the folder that `kernel-audit pack FOLDER --sim` has written. This Python needs the package gunicorn. The last line has the figures.
"""
import http.client
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

from service import HERE, SEES_FILE, Service, ask, faults, gunicorn

WORKERS, REPLACED, KILLED = 4, 50, 2
MIB = 1 << 20
# By how much the peaks of the command's memory may differ. Six records more or less at the same time are chance, and a leak would have thirty.
GROWTH = 80 * MIB
# A killed worker has at most one request.
RETRIES = KILLED
COMMAND = gunicorn("--workers", str(WORKERS), "--max-requests", "40", "--max-requests-jitter", "20")


class Requests:
    """Clients that send one request after the other until they're stopped."""

    def __init__(self, port):
        self.port, self.stopped, self.lock = port, threading.Event(), threading.Lock()
        self.answered, self.retried, self.wrong, self.processes = 0, 0, [], {}
        self.clients = [threading.Thread(target=self._send) for _ in range(WORKERS)]
        for client in self.clients:
            client.start()

    def _send(self):
        while not self.stopped.is_set():
            try:
                try:
                    process, status, done = ask(self.port, "/work")
                except (OSError, http.client.HTTPException):
                    with self.lock:
                        self.retried += 1
                    process, status, done = ask(self.port, "/work")
            except (OSError, http.client.HTTPException, ValueError) as error:
                with self.lock:
                    self.wrong.append(repr(error))
                continue
            with self.lock:
                self.answered += 1
                self.processes[process] = time.monotonic()
                if (status, done) != (200, "second"):
                    self.wrong.append(f"{status} {done}")
            time.sleep(0.01)

    def stop(self):
        self.stopped.set()
        for client in self.clients:
            client.join()


def files(*folders):
    """Returns all files and folders in these folders."""
    return {str(path) for folder in folders for path in folder.rglob("*")}


def resident(process):
    """Returns the bytes of memory that a process has."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) << 10
    return 0


def upgrade(tool):
    """Replaces the tool's folder by a new one with the same content."""
    new, old = tool.with_name("new"), tool.with_name("old")
    shutil.copytree(tool, new)
    tool.rename(old)
    new.rename(tool)
    shutil.rmtree(old)


def records(temporary):
    """Returns the bytes on the disk of each record."""
    found = []
    for path in temporary.rglob("*.rec"):
        try:
            found.append(path.stat().st_blocks * 512)
        except FileNotFoundError:
            pass
    return found


def serve_for_a_moment(tool, folder, audit, variables):
    """Runs the service for some requests, and returns its exit code."""
    folder.mkdir()
    service = Service(tool, folder, COMMAND, audit, variables)
    try:
        service.wait_until_healthy(WORKERS)
        (folder / "ready").touch()
        time.sleep(SEES_FILE)
        service.ask_all(["/work"], WORKERS, WORKERS)
        return service.stop(signal.SIGTERM)
    finally:
        service.close()


def soak(tool, scratch, temporary, variables, audit):
    """Runs the service to the end of the soak. Yields what is wrong, and prints the figures."""
    folder = scratch / "soak"
    folder.mkdir()
    began = time.monotonic()
    service = Service(tool, folder, COMMAND, audit, variables)
    most, largest, memory, killed, upgraded = 0, 0, [], 0, False
    try:
        service.wait_until_healthy(WORKERS)
        (folder / "ready").touch()
        requests = Requests(service.ports[0])
        try:
            seen = 0
            while seen < REPLACED + WORKERS:

                def comes():
                    memory.append((seen - WORKERS, resident(service.process.pid)))
                    return len(requests.processes) > seen or requests.wrong

                service.wait_until(comes, f"worker {seen + 1}")
                if requests.wrong:
                    break
                seen = len(requests.processes)
                sizes = records(temporary)
                most, largest = max(most, sum(sizes)), max([largest, *sizes])
                if not upgraded and seen >= REPLACED // 2:
                    upgrade(tool)
                    upgraded = True
                if killed < KILLED and seen >= (killed + 1) * 15:
                    with requests.lock:
                        newest = max(requests.processes, key=requests.processes.get)
                    killed += 1
                    try:
                        os.kill(newest, signal.SIGKILL)
                    except ProcessLookupError:
                        killed -= 1
        finally:
            requests.stop()
        code = service.stop(signal.SIGTERM)
    except AssertionError as error:
        yield f"{error}\n{service.log.read_text()[-2000:]}"
        return
    finally:
        left = service.close()
    # Only peaks can be compared: the command reads the records of all workers again and again, at 13 MB each.
    peaks = [max((its for at, its in memory if at in part), default=0) for part in [range(10, 25), range(35, REPLACED)]]
    growth = peaks[1] - peaks[0]
    yield from requests.wrong
    if requests.retried > RETRIES:
        yield f"{requests.retried} requests had to be sent again, for {KILLED} killed workers"
    if left:
        yield f"{len(left)} processes are left"
    if not upgraded or killed < KILLED:
        yield f"{killed} workers were killed, and the folder was {'' if upgraded else 'not '}replaced"
    if not 0 < largest < 2 * MIB:
        yield f"a record took {largest} bytes on the disk"
    if growth > GROWTH:
        yield f"the peaks of the command's memory grew by {growth} bytes"
    yield code
    print(
        f"{seen} workers, {requests.answered} requests, {requests.retried} sent again for {killed} killed workers, records of at most "
        f"{largest / MIB:.2f} MiB and {most / MIB:.1f} MiB in all, the command at most {peaks[0] / MIB:.0f} MiB early and {peaks[1] / MIB:.0f} MiB late, "
        f"{time.monotonic() - began:.0f} s"
    )


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory(prefix="soak-") as scratch:
        scratch = Path(scratch)
        tool, temporary, cache = scratch / "tool", scratch / "tmp", scratch / "cache"
        shutil.copytree(Path(sys.argv[1]).resolve(), tool)
        for folder in [temporary, cache]:
            folder.mkdir()
        variables = {"TMPDIR": str(temporary), "XDG_CACHE_HOME": str(cache), "HOME": str(scratch)}
        audit, preload, report = [str(tool / "kernel-audit"), "--sim", "--quiet"], scratch / "late.preload", scratch / "report.json"
        shared = Path("/dev/shm")
        before = files(temporary, cache, shared)
        alone = serve_for_a_moment(tool, scratch / "alone", [], variables)
        ready = ["--ready-file", str(scratch / "recorded/ready")]
        recorded = serve_for_a_moment(tool, scratch / "recorded", [*audit, *ready, "--record", str(preload), "--"], variables)
        ready = ["--ready-file", str(scratch / "soak/ready")]
        preloads = ["--preload", str(preload), "--after-ready", "refuse", "--json", str(report), "--"]
        wrong = [f"recorded: it ended with {recorded} in place of {alone}"] if recorded != alone else []
        for found in soak(tool, scratch, temporary, variables, [*audit, *ready, *preloads]):
            if isinstance(found, str):
                wrong.append(found)
            elif found != alone:
                wrong.append(f"it ended with {found} in place of {alone}")
        if report.exists():
            wrong.extend(faults(report))
        else:
            wrong.append("there is no report")
        front = cache / "kernel-registry-front"
        # The part in the loader remains, because processes that outlive the command name it.
        remain = {str(front)} | {path for path in files(front) if path.startswith(f"{front}/loader-")}
        wrong += [f"left behind: {path}" for path in sorted(files(temporary, cache, shared) - before - remain)]
    for line in wrong:
        print(line)
    sys.exit(bool(wrong))


main()

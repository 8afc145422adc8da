#!/usr/bin/env python3
"""Runs services of several processes in three ways: on the simulated driver alone, recorded by `kernel-audit --record`, and with `--preload` and
`--after-ready refuse`. The answers, the exit code and the processes that are left must be the same, and nothing may be late or refused
in the preloaded service.

    tests/services/run.py FOLDER [--only WORD]

FOLDER is the folder that `kernel-audit pack FOLDER --sim` has written. This Python needs the packages gunicorn and uvicorn.
"""
import argparse
import json
import os
import signal
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from service import HERE, SEES_FILE, Service, faults, gunicorn


@dataclass
class Case:
    name: str
    command: list
    # The processes that serve at the same time.
    processes: int = 2
    # The processes that must have answered in the end.
    in_all: int = 2
    # Whether a process is killed in the middle. Its server starts others.
    kills: bool = False
    stop: object = signal.SIGTERM
    # How the service differs: see app.py.
    way: str = ""
    ports: int = 1
    preload_at: str = "context"


def uvicorn(*options):
    return [sys.executable, "-m", "uvicorn", "--port", "{port}", "--workers", "2", *options, "app:asgi"]


def cases():
    two = ["--workers", "2"]
    yield Case("gunicorn", gunicorn(*two))
    yield Case("gunicorn, SIGINT", gunicorn(*two), stop=signal.SIGINT)
    yield Case("gunicorn, SIGQUIT", gunicorn(*two), stop=signal.SIGQUIT)
    yield Case("gunicorn, Ctrl-C", gunicorn(*two), stop="Ctrl-C")
    yield Case("gunicorn that imports the service before the fork", gunicorn(*two, "--preload"))
    yield Case("gunicorn with threads", gunicorn(*two, "--threads", "4"))
    yield Case("gunicorn whose workers are replaced", gunicorn(*two, "--max-requests", "20"), in_all=6)
    yield Case("gunicorn whose worker is killed", gunicorn(*two), in_all=3, kills=True)
    yield Case("gunicorn, contexts in the first requests", gunicorn(*two), way="lazy")
    yield Case("gunicorn, preloaded when asked", gunicorn(*two), way="call", preload_at="call")
    yield Case("gunicorn that says itself that it is ready", gunicorn(*two, "--max-requests", "20"), in_all=6, way="ready")
    yield Case("uvicorn", uvicorn())
    yield Case("uvicorn, SIGINT", uvicorn(), stop=signal.SIGINT)
    yield Case("uvicorn, Ctrl-C", uvicorn(), stop="Ctrl-C")
    yield Case("uvicorn of one process, SIGINT", uvicorn("--workers", "1"), processes=1, in_all=1, stop=signal.SIGINT)
    yield Case("uvicorn of one process, SIGTERM", uvicorn("--workers", "1"), processes=1, in_all=1)
    yield Case("uvicorn whose worker is killed", uvicorn(), in_all=3, kills=True)
    yield Case("uvicorn, contexts in the first requests", uvicorn(), way="lazy")
    yield Case("uvicorn, preloaded when asked", uvicorn(), way="call", preload_at="call")
    ranks = [sys.executable, str(HERE / "ranks.py"), "{port}", "{last port}"]
    yield Case("launcher of ranks", ranks, ports=2)
    yield Case("launcher of ranks that say that they are ready", ranks, ports=2, way="ready", stop=signal.SIGINT)
    yield Case("launcher of ranks that restart", ranks, ports=2, in_all=4, kills=True)


@dataclass
class Run:
    """What came of one run of a case."""

    answers: set = field(default_factory=set)
    # The processes that had served when the last requests came.
    last: set = field(default_factory=set)
    code: int = None
    left: int = None
    # What the run did not get through, and the end of its output.
    wrong: str = None


def execute(case, tool, folder, audit):
    """Runs a case once. `audit` is the command in front of the service, with `{ready}` for the file that says ready."""
    folder.mkdir()
    ready, run, answers = folder / "ready", Run(), {}
    began = time.monotonic()
    service = Service(
        tool,
        folder,
        case.command,
        [word.replace("{ready}", str(ready)) for word in audit],
        {"SERVICE": case.way},
        case.ports,
    )

    def ask(processes):
        for process, given in service.ask_all(["/", "/work"], 5, processes).items():
            answers.setdefault(process, set()).update(given)

    try:
        service.wait_until_healthy(case.processes)
        ready.touch()
        starts = time.monotonic() - began + SEES_FILE
        time.sleep(SEES_FILE)
        ask(case.processes)
        if case.kills:
            os.kill(next(iter(answers)), signal.SIGKILL)
            time.sleep(1)
            service.wait_until_healthy()
        while len(answers) < case.in_all:
            ask(1)
        if case.in_all > case.processes:
            # Processes that started later are ready by then.
            time.sleep(starts)
        run.last = set(service.ask_all(["/work"], 2, case.processes))
        run.code = service.stop(case.stop)
    except AssertionError as error:
        run.wrong = str(error)
    finally:
        run.left = len(service.close())
    run.answers = set().union(*answers.values())
    if run.wrong:
        run.wrong += "\n" + service.log.read_text()[-2000:]
    return run


def differences(case, tool, scratch):
    """Yields a line for each difference between the runs of a case, and for what is wrong in one of them."""
    preload, report = scratch / "late.preload", scratch / "report.json"
    audit = [str(tool / "kernel-audit"), "--sim", "--quiet"]
    if case.way != "ready":
        audit += ["--ready-file", "{ready}"]
    with ThreadPoolExecutor() as both:
        alone = both.submit(execute, case, tool, scratch / "alone", [])
        recorded = execute(case, tool, scratch / "recorded", [*audit, "--record", str(preload), "--"])
        alone = alone.result()
    if alone.wrong:
        yield f"alone: {alone.wrong}"
        return
    refusing = ["--preload", str(preload), "--preload-at", case.preload_at, "--after-ready", "refuse", "--json", str(report), "--"]
    preloaded = execute(case, tool, scratch / "preloaded", [*audit, *refusing])
    for name, run in [("recorded", recorded), ("preloaded", preloaded)]:
        if run.wrong:
            yield f"{name}: {run.wrong}"
        for what in ["answers", "code", "left"]:
            if getattr(run, what) != getattr(alone, what):
                yield f"{name}: {what} {getattr(run, what)} in place of {getattr(alone, what)}"
    # Without a late load in the recorded run, the preloaded one would prove nothing.
    if not preload.exists() or "    second\n" not in preload.read_text():
        yield "recorded: `second` was not late"
    if not report.exists():
        yield "preloaded: there is no report"
        return
    yield from (f"preloaded: {fault}" for fault in faults(report))
    processes = {process["process"]: process for process in json.loads(report.read_text())["processes"]}
    for number in preloaded.last:
        if number not in processes:
            yield f"preloaded: process {number} has no record"
        elif processes[number]["ready_ms"] is None:
            yield f"preloaded: process {number} was never ready"
        elif not processes[number]["preloaded"]:
            yield f"preloaded: nothing in process {number}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", metavar="WORD", default="", help="only cases with this word in their names")
    options = parser.parse_args()
    tool = options.folder.resolve()
    failed = 0
    with tempfile.TemporaryDirectory(prefix="services-") as scratch:
        for number, case in enumerate(cases()):
            if options.only not in case.name:
                continue
            begun = time.monotonic()
            folder = Path(scratch) / str(number)
            folder.mkdir()
            found = list(differences(case, tool, folder))
            failed += bool(found)
            print(f"{'FAILED' if found else 'ok    '} {case.name} ({time.monotonic() - begun:.1f} s)", flush=True)
            for line in "\n".join(found).splitlines():
                print(f"    {line}", flush=True)
    sys.exit(failed > 0)


main()

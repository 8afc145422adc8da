#!/usr/bin/env python3
"""Measures what `kernel-audit` costs a FastAPI service with PyTorch on a GPU, and what a preload saves it.

    tests/frameworks/service.py PATH/TO/kernel-audit [--pairs 4] [--json FILE] [--sim]

Serves service_app.py with `uvicorn --workers 2` on one GPU: alone, recorded, and then in pairs alone and preloaded. Fails if the preloaded
service answers fewer than 0.99 times as many requests per second, if it loads something late, or if answers, exit codes or the processes that
are left differ. The first run isn't counted: it reads the libraries from the disk.

Both services of a pair run at the same time, and requests are sent to one and to the other in turn, a second each: from minute to minute a machine's
speed changes by more than what is measured. The ratio is the median of all these pairs of seconds.

The driver's own cache of compiled PTX is off in all runs (CUDA_CACHE_DISABLE=1). Needs fastapi, uvicorn, PyTorch, and torchvision or timm.
With `--sim` it tests itself on the simulated driver, with service_sim.py in place of PyTorch, and requests per second can't fail.
"""
import argparse
import contextlib
import http.client
import importlib.util
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
WORKERS = 2
# Each worker has as many clients, because a worker with fewer would make the service slower by chance.
CLIENTS = 2
# The seconds that a start, a request, and an end may take.
LONGEST_START, LONGEST_REQUEST, LONGEST_END = 90, 30, 30
# The seconds that pass until the audit has certainly seen the file that says ready: it looks each 50 ms.
SEES_FILE = 0.5
# The seconds of requests before those that are counted.
WARM_UP = 1
# A preloaded service has to answer so many times as many requests as without the audit.
LEAST = 0.99
LATE = {"load", "image", "resize", "compile"}


class Failed(Exception):
    pass


@dataclass
class Run:
    """The measurements of one run."""

    way: str
    # The seconds until each worker has answered `/health`.
    start_s: float = 0
    # The milliseconds of each worker's first `/work`.
    first_ms: list = field(default_factory=list)
    # One number for each second in which requests were sent.
    per_second: list = field(default_factory=list)
    digests: list = field(default_factory=list)
    code: int | None = None
    # The processes that were left after the end of the first one.
    left: int = 0
    # From the report: events that are findings, and how the preload went.
    late: list = field(default_factory=list)
    preloaded: int = 0
    preload_ms: float = 0
    not_preloaded: list = field(default_factory=list)
    # Processes without a record, whose record had no room, that were never ready, or that preloaded nothing.
    incomplete: list = field(default_factory=list)


class Connection(http.client.HTTPConnection):
    """A connection to a service's socket in the file system. Through TCP, a socket that uvicorn shares among workers delays each answer by 40 ms,
    because asyncio doesn't set TCP_NODELAY there, and in that time the cost of the audit would not show."""

    def __init__(self, path):
        super().__init__("localhost", timeout=LONGEST_REQUEST)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self.path))


def ask(connection, path):
    """Sends a request on a connection that stays open, and returns the answer."""
    connection.request("GET", path)
    response = connection.getresponse()
    text = response.read()
    if response.status != 200:
        raise Failed(f"{path} is answered with {response.status}: {text[:200]}")
    return json.loads(text)


class Service:
    """A service that runs in its own folder. The words of `audit` come before its command."""

    def __init__(self, folder, audit, variables):
        self.socket, self.log, self.mark, self.connections = folder / "socket", folder / "log", uuid.uuid4().hex, {}
        # A connection may be idle while another worker answers its first request.
        serving = ["--workers", str(WORKERS), "--uds", str(self.socket), "--timeout-keep-alive", str(LONGEST_REQUEST), "--no-access-log"]
        command = [sys.executable, "-m", "uvicorn", "--app-dir", str(HERE), "--loop", "asyncio", "--http", "h11", *serving, "service_app:app"]
        self.began = time.monotonic()
        with open(self.log, "w") as log:
            environment = {**os.environ, "CUDA_CACHE_DISABLE": "1", "SERVICE_MARK": self.mark, **variables}
            self.process = subprocess.Popen(
                [*audit, *command], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder, env=environment, start_new_session=True
            )

    def connect(self, each):
        """Opens connections until each worker has so many. The kernel decides which worker accepts, so those too many are closed."""
        end = time.monotonic() + LONGEST_START
        while len(self.connections) < WORKERS or min(map(len, self.connections.values())) < each:
            if self.process.poll() is not None:
                raise Failed(f"it ended with {self.process.returncode} while it started")
            if time.monotonic() > end:
                raise Failed(f"{WORKERS} workers had not answered /health after {LONGEST_START} s")
            connection = Connection(self.socket)
            with contextlib.suppress(OSError):
                own = self.connections.setdefault(ask(connection, "/health")["process"], [])
                if len(own) < each:
                    own.append(connection)
                    continue
            connection.close()
            time.sleep(0.02)

    def work(self, connection, process):
        """Runs the model once. Returns the digest of its outputs."""
        try:
            answer = ask(connection, "/work")
        except TimeoutError:
            raise Failed(f"/work was not answered in {LONGEST_REQUEST} s") from None
        if answer["process"] != process:
            raise Failed(f"process {answer['process']} answers on a connection of process {process}")
        return answer["digest"]

    def first(self):
        """Yields the milliseconds of each worker's first request, and the digest in its answer."""
        for process, (connection, *_) in self.connections.items():
            began = time.monotonic()
            digest = self.work(connection, process)
            yield 1000 * (time.monotonic() - began), digest

    def steady(self, seconds):
        """Sends requests on all connections for so long. Returns the requests answered per second, and all digests."""

        def client(process, connection):
            answered, digests = 0, set()
            while time.monotonic() < end:
                digests.add(self.work(connection, process))
                answered += time.monotonic() <= end
            return answered, digests

        clients = [(process, connection) for process, own in self.connections.items() for connection in own]
        with ThreadPoolExecutor(len(clients)) as pool:
            end = time.monotonic() + seconds
            done = list(pool.map(lambda one: client(*one), clients))
        return sum(answered for answered, _ in done) / seconds, set().union(*(digests for _, digests in done))

    def stop(self):
        """Closes all connections and sends SIGTERM. Returns the exit code, as a shell has it."""
        for own in self.connections.values():
            for connection in own:
                connection.close()
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(LONGEST_END)
        except subprocess.TimeoutExpired:
            raise Failed(f"it had not ended {LONGEST_END} s after SIGTERM") from None
        return code if code >= 0 else 128 - code

    def left(self):
        """Returns the processes of this service that still run, found by a variable, because they may have left the session."""
        found = []
        for number in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if self.mark.encode() in Path(f"/proc/{number}/environ").read_bytes():
                    found.append(int(number))
        return found

    def close(self):
        """Kills the processes that are left two seconds after the end, and returns how many these were."""
        end = time.monotonic() + 2
        while self.process.poll() is not None and self.left() and time.monotonic() < end:
            time.sleep(0.05)
        left = self.left()
        end = time.monotonic() + LONGEST_END
        # A process may start another one before it's killed.
        while (numbers := self.left()) and time.monotonic() < end:
            for number in numbers:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(number, signal.SIGKILL)
            time.sleep(0.05)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(1)
        return len(left)


def read_report(file, run, workers):
    """Adds to a run what the audit's report says."""
    processes = json.loads(file.read_text())["processes"]
    run.incomplete += [f"worker {number} has no record" for number in set(workers).difference(process["process"] for process in processes)]
    for process in processes:
        run.late += [event for event in process["events"] if event["finding"]]
        for event in process["preloaded"]:
            run.preload_ms += event["took_ms"]
            if event["result"]:
                run.not_preloaded.append(event)
            else:
                run.preloaded += 1
        if process["launches"] and process["ready_ms"] is None:
            run.incomplete.append(f"{process['name']} was never ready")
        if process["launches"] and run.way == "preloaded" and not process["preloaded"]:
            run.incomplete.append(f"{process['name']} preloaded nothing")
        if process["events_dropped"] or process["unwatched_threads"] or process["lacks_thread"]:
            run.incomplete.append(f"the record of {process['name']} had no room")


@contextlib.contextmanager
def running(way, scratch, options):
    """Runs the service in one of the three ways, until the block ends. Gives the run, and the service after each worker's first requests."""
    folder = Path(tempfile.mkdtemp(prefix=f"{way}-", dir=scratch))
    ready, report, preload = folder / "ready", folder / "report.json", str(scratch / "late.preload")
    tool = options.tool.resolve()
    simulated, variables = [], {"SERVICE_MODEL": "service_torch"}
    if options.sim:
        simulated, variables = ["--sim"], {"SERVICE_MODEL": "service_sim", "LD_LIBRARY_PATH": str(tool.parent / "sim")}
    audit = []
    if way != "alone":
        option = "--record" if way == "recorded" else "--preload"
        audit = [str(tool), *simulated, option, preload, "--ready-file", str(ready), "--json", str(report), "--"]
    run, service = Run(way), Service(folder, audit, variables)
    try:
        service.connect(1)
        run.start_s = time.monotonic() - service.began
        service.connect(CLIENTS)
        ready.touch()
        time.sleep(SEES_FILE)
        run.first_ms, digests = map(list, zip(*service.first()))
        run.digests = sorted({*digests, *service.steady(WARM_UP)[1]})
        yield run, service
        run.code = service.stop()
    except (Failed, OSError, http.client.HTTPException) as error:
        # The service answers before it logs why it failed.
        time.sleep(1)
        raise Failed(f"{way}: {error or type(error).__name__}\n{service.log.read_text()[-3000:]}") from error
    finally:
        run.left = service.close()
    if way != "alone":
        if not report.exists():
            raise Failed(f"{way}: there is no report\n{service.log.read_text()[-3000:]}")
        read_report(report, run, service.connections)


def differences(runs):
    """Yields a line for everything by which a run differs from the first one alone, and for what a report must not have."""
    alone = next(run for run in runs if run.way == "alone")
    for run in runs:
        if len(run.digests) != 1 or run.digests != alone.digests:
            yield f"{run.way}: outputs {run.digests} in place of {alone.digests}"
        if run.code != alone.code:
            yield f"{run.way}: exit code {run.code} in place of {alone.code}"
        if run.left:
            yield f"{run.way}: {run.left} processes were left"
        yield from (f"{run.way}: {words}" for words in run.incomplete)
        if run.way == "recorded" and not any(event["kind"] in LATE for event in run.late):
            yield "recorded: nothing was late, so a preload proves nothing"
        for event in run.late[:12] + run.not_preloaded[:12] if run.way == "preloaded" else []:
            yield f"preloaded: {event['kind']} {event['call']} {str(event['subject'])[:120]} {event['caller']} {event['reason'][:200]}"


def table(runs):
    """Prints the medians of each way, and the ratios of the pairs. Returns the median of the requests that were answered in a second."""
    ways = {way: [run for run in runs if run.way == way] for way in ["alone", "recorded", "preloaded"]}
    rows = {
        "start, s": lambda run: run.start_s,
        "first request, ms": lambda run: statistics.median(run.first_ms),
        "requests per second": lambda run: statistics.median(run.per_second),
    }
    print("\n" + f"{'median':22}" + "".join(f"{way:>12}" for way in ways) + f"{'preloaded/alone':>18}")
    for name, of in rows.items():
        ratios = [of(preloaded) / of(alone) for alone, preloaded in zip(ways["alone"], ways["preloaded"])]
        medians = "".join(f"{statistics.median(map(of, each)):12.2f}" for each in ways.values())
        print(f"{name:22}{medians}{statistics.median(ratios):18.3f}")
    late = "".join(f"{statistics.median(len(run.late) for run in each):12.0f}" for way, each in ways.items() if way != "alone")
    print(f"{'late':22}{'':12}{late}")
    pairs = [[second / first for first, second in zip(*map(lambda run: run.per_second, pair))] for pair in zip(ways["alone"], ways["preloaded"])]
    print("requests per second, preloaded/alone, the median of each pair:", ", ".join(f"{statistics.median(each):.3f}" for each in pairs))
    ratios = sorted(sum(pairs, []))
    quarter = len(ratios) // 4
    print(f"of {len(ratios)} pairs of seconds: median {statistics.median(ratios):.3f}, quartiles {ratios[quarter]:.3f} and {ratios[-1 - quarter]:.3f}")
    return statistics.median(ratios)


def missing(simulated, gpu):
    """Yields what the service lacks."""
    alternatives = [["fastapi"], ["uvicorn"], *([] if simulated else [["torch"], ["torchvision", "timm"]])]
    yield from (" or ".join(names) for names in alternatives if not any(map(importlib.util.find_spec, names)))
    if not gpu:
        yield "GPU (nvidia-smi fails)"


def device(simulated):
    """Returns the name of the first GPU and its driver, or nothing without a GPU."""
    if simulated:
        return "simulated driver"
    try:
        query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
        return subprocess.run(query, capture_output=True, text=True, timeout=LONGEST_END, check=True).stdout.partition("\n")[0]
    except (OSError, subprocess.SubprocessError):
        return ""


def measure(scratch, options):
    """Yields the runs, without the one that isn't counted."""
    with running("alone", scratch, options):
        pass
    groups = [["recorded"]]
    for pair in range(options.pairs):
        groups.append(["alone", "preloaded"] if pair % 2 else ["preloaded", "alone"])
    for group in groups:
        with contextlib.ExitStack() as ends:
            both = [ends.enter_context(running(way, scratch, options)) for way in group]
            for turn in range(options.seconds):
                for run, service in both if turn % 2 else reversed(both):
                    per_second, digests = service.steady(1)
                    run.per_second.append(per_second)
                    run.digests = sorted(digests.union(run.digests))
        for run, _ in both:
            first = ", ".join(f"{ms:.1f}" for ms in run.first_ms)
            more = "" if run.way == "alone" else f"; {len(run.late)} late, {run.preloaded} preloaded in {run.preload_ms:.0f} ms by all workers"
            median = statistics.median(run.per_second)
            print(f"{run.way:10} start {run.start_s:.2f} s, first requests {first} ms, {median:.1f} requests per second{more}", flush=True)
            yield run


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tool", type=Path)
    parser.add_argument("--pairs", type=int, default=4)
    parser.add_argument("--seconds", type=int, default=12, help="in how many seconds requests are sent to each service")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--sim", action="store_true")
    options = parser.parse_args()
    if options.pairs < 1 or options.seconds < 1 or not options.tool.is_file():
        parser.error("the tool has to be a file, and --pairs and --seconds at least 1")
    gpu = device(options.sim)
    if lacking := list(missing(options.sim, gpu)):
        print(f"cannot run: there is no {', no '.join(lacking)}")
        sys.exit(2)
    print(f"{gpu}; CUDA_CACHE_DISABLE=1 in all runs", flush=True)
    # Ends the service, too, if this script is ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    runs, failures, ratio = [], [], None
    try:
        with tempfile.TemporaryDirectory(prefix="service-") as scratch:
            for run in measure(Path(scratch), options):
                runs.append(run)
        ratio = table(runs)
        failures += differences(runs)
    except Failed as error:
        failures.append(str(error))
    if ratio is not None and ratio < LEAST and not options.sim:
        failures.append(f"the preloaded service answers {ratio:.3f} times as many requests per second, and {LEAST} is the least")
    if options.json:
        options.json.write_text(json.dumps({"good": not failures, "failures": failures, "gpu": gpu, "runs": [*map(asdict, runs)]}, indent=1))
    print("\n".join(f"FAILED {failure}" for failure in failures) or "ok")
    sys.exit(bool(failures))


main()

"""Runs a service behind `kernel-audit`, or on the simulated driver alone, and sends it requests."""
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
# The seconds that anything may take on a busy machine.
LONGEST = 60
# The audit's threads look for the file that says ready each 50 ms. On a busy machine they get a processor later.
SEES_FILE = 1


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def gunicorn(*options):
    return [sys.executable, "-m", "gunicorn", "-c", str(HERE / "hooks.py"), "--bind", "127.0.0.1:{port}", *options, "app:wsgi"]


def ask(port, path):
    """Sends one request. Returns the number of the process that answered, the status, and the rest of the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LONGEST)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        process, _, done = response.read().decode().partition(" ")
    finally:
        connection.close()
    return int(process), response.status, done


class Service:
    """A service that runs. `tool` is the folder with the simulated driver; the words of `audit` come before the command."""

    def __init__(self, tool, folder, command, audit=(), variables=None, ports=1):
        self.ports, self.log, self.mark = free_ports(ports), folder / "log", f"SERVICE_FOLDER={folder}"
        words = [word.replace("{port}", str(self.ports[0])).replace("{last port}", str(self.ports[-1])) for word in command]
        inherited = {name: value for name, value in os.environ.items() if name not in ["TMPDIR", "PYTHONPATH"]}
        ours = {"LD_LIBRARY_PATH": str(tool / "sim"), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(HERE), "SERVICE_FOLDER": str(folder)}
        self.terminal, program_side = os.openpty()
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                # `--ctty` makes the terminal that of the session, as a shell's window is.
                ["setsid", "--ctty", *audit, *words],
                stdin=program_side,
                stdout=log,
                stderr=log,
                cwd=folder,
                env={**inherited, **ours, **(variables or {})},
            )
        os.close(program_side)

    def wait_until(self, is_so, what):
        end = time.monotonic() + LONGEST
        while not is_so():
            if self.process.poll() is not None:
                raise AssertionError(f"ended with {self.process.returncode} before {what}")
            if time.monotonic() > end:
                raise AssertionError(f"{what}: not in {LONGEST} s")
            time.sleep(0.02)

    def _answers(self, port):
        try:
            return ask(port, "/health")[1] == 200
        except (OSError, http.client.HTTPException):
            return False

    def wait_until_healthy(self, processes=1):
        """Waits until each port answers, and so many processes have. A process that still starts when the file that says ready appears would have
        its own loads refused."""
        for port in self.ports:
            self.wait_until(lambda: self._answers(port), f"an answer on port {port}")
        self.ask_all(["/health"], 1, processes)

    def ask_all(self, paths, times, processes):
        """Sends each request at least so often, and until so many processes have answered the last one. Returns the answers by process."""
        answers = {}
        sent = [(port, path) for port in self.ports for path in paths for _ in range(times)]
        with ThreadPoolExecutor(4) as clients:

            def enough():
                for (_, path), (process, status, done) in zip(sent, clients.map(lambda words: ask(*words), sent)):
                    answers.setdefault(process, set()).add((path, status, done))
                return sum(any(path == paths[-1] for path, _, _ in one) for one in answers.values()) >= processes

            self.wait_until(enough, f"answers of {processes} processes")
        return answers

    def stop(self, number):
        """Sends a signal to the first process, or Ctrl-C in the terminal, and returns how it ended, as a shell has it."""
        if number == "Ctrl-C":
            os.write(self.terminal, b"\x03")
        else:
            self.process.send_signal(number)
        code = self.process.wait(LONGEST)
        return code if code >= 0 else 128 - code

    def _is_ours(self, process):
        """Returns whether a process is of this service, in whatever session it is: by its variables, which a process that has ended has lost."""
        try:
            return self.mark.encode() in Path(f"/proc/{process}/environ").read_bytes()
        except OSError:
            return False

    def close(self):
        """Ends what is left of the service, and returns the processes that were left."""
        left = [process for process in map(int, filter(str.isdigit, os.listdir("/proc"))) if self._is_ours(process)]
        for process in left:
            os.kill(process, signal.SIGKILL)
        self.process.wait(LONGEST)
        os.close(self.terminal)
        return left


def faults(report):
    """Yields a line for each event of a report that a preloaded service must not have, and for what its records have no room for."""
    for process in json.loads(report.read_text())["processes"]:
        name = process["name"]
        for event in process["events"]:
            if event["finding"] or event["kind"] == "refused":
                yield f"{name}: {event['kind']} at {event['at_ms']:.0f} ms, ready at {process['ready_ms']}: {event['call']} {event['subject']}"
        for event in process["preloaded"]:
            if event["result"] or event["reason"]:
                yield f"{name}: not preloaded: {event['reason']}"
        if process["events_dropped"] or process["unwatched_threads"] or process["lacks_thread"]:
            yield f"{name}: its record had no room"

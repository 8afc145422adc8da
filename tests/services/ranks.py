"""A launcher like torchrun of ranks that serve requests, each on a port of its own. If a rank ends, the launcher ends all others, and starts all
ranks again.

    ranks.py PORT ..
"""
import os
import signal
import subprocess
import sys
import time
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

TOLD = [signal.SIGTERM, signal.SIGINT]


class Quiet(WSGIRequestHandler):
    def log_message(self, *_):
        pass


def rank():
    import app

    app.start()
    with WSGIServer(("127.0.0.1", int(sys.argv[1])), Quiet) as server:
        server.set_app(app.wsgi)
        server.serve_forever()


def start():
    """Starts all ranks, each in a session of its own."""
    ports = sys.argv[1:]
    shared = {**os.environ, "WORLD_SIZE": str(len(ports))}
    return [
        subprocess.Popen(
            [sys.executable, __file__, port],
            env={**shared, "RANK": str(number), "LOCAL_RANK": str(number)},
            start_new_session=True,
        )
        for number, port in enumerate(ports)
    ]


def end(ranks):
    """Ends all ranks, and returns their exit codes."""
    for process in ranks:
        process.terminate()
    return [process.wait() for process in ranks]


def launcher():
    ranks = []

    def pass_on(number, _):
        # What comes later would interrupt the end.
        for other in TOLD:
            signal.signal(other, signal.SIG_IGN)
        print("signal", number, "ended the ranks with", end(ranks), flush=True)
        sys.exit(128 + number)

    for number in TOLD:
        signal.signal(number, pass_on)
    while True:
        ranks[:] = start()
        while all(process.poll() is None for process in ranks):
            time.sleep(0.05)
        print("a rank has ended:", end(ranks), flush=True)


if "RANK" in os.environ:
    rank()
else:
    launcher()

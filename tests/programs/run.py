#!/usr/bin/env python3
"""Runs programs that know nothing of the audit twice: under `kernel-audit --sim`, and on the simulated driver alone. Compares what the
programs print, their exit codes, and the launches in the audit's records with the launches that each program makes.

    tests/programs/run.py FOLDER [--only WORD]

FOLDER is the folder that `kernel-audit pack FOLDER --sim` has written. This Python needs the packages gevent, tox and celery: a case
without its package fails. The script names the cases that cannot run on this machine, which do not fail.

Small programs do what DataLoader, torchrun and systemd do, because these are large or need a machine of their own.
"""
import argparse
import difflib
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# The seconds that a program may take on a busy machine.
LONGEST = 60


@dataclass
class Case:
    name: str
    command: list
    # The launches of each process that launches kernels, or the sum of all processes' launches.
    launches: list | int
    # A command that runs the audit, or the program alone.
    around: list = field(default_factory=list)
    package: str = None
    # The signal that is sent when the program has printed `ready`: to all processes of its group, or only to the first.
    sends: int = 0
    to_all: bool = False
    # Whether the program leaves a daemon behind, which goes on when the file `go` exists.
    leaves: bool = False
    env: dict = field(default_factory=dict)
    # The expected exit codes.
    codes: tuple = (0,)


def python(name, *arguments):
    return [sys.executable, str(HERE / name), *arguments]


# Makes all mounts read-only, except those that systemd leaves alone, a private `/tmp`, and the service's own folder.
SERVICE = r"""
set -e
own=$1 private=$2; shift 2
mount --make-rprivate /
mount --bind "$own" "$own"
if [ "$private" = yes ]; then mount -t tmpfs tmpfs /tmp; fi
cut -d ' ' -f 5 /proc/self/mountinfo | sort -u | while read -r place; do
    case $place in
    /proc | /proc/* | /sys | /sys/* | /dev | /dev/* | "$own") ;;
    /tmp) if [ "$private" = no ]; then mount -o remount,bind,ro /tmp; fi ;;
    *) mount -o remount,bind,ro "$place" || echo "$place stays writable" >&2 ;;
    esac
done
cd /
if touch /written /var/tmp/written 2>/dev/null; then echo "the root can be written" >&2; exit 9; fi
exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin LANG=C.UTF-8 INVOCATION_ID=0123456789abcdef0123456789abcdef \
    LD_LIBRARY_PATH="$LD_LIBRARY_PATH" ${TMPDIR:+TMPDIR="$TMPDIR"} "$@"
"""


def unshared():
    """Returns the command that gives a process mounts of its own, or None where that is not allowed."""
    for command in [["unshare", "--mount"], ["unshare", "--mount", "--map-root-user"]]:
        try:
            if subprocess.run([*command, "mount", "--make-rprivate", "/"], capture_output=True).returncode == 0:
                return command
        except FileNotFoundError:
            break
    return None


def cases():
    yield Case("gevent", python("greenlets.py"), [100], package="gevent")
    yield Case(
        "tox",
        [sys.executable, "-m", "tox", "-q", "-c", str(HERE / "tox.ini"), "--workdir", "{folder}/tox"],
        [1],
        package="tox",
    )
    # `env -i` removes all variables except those that every program needs to run.
    clear = 'env -i PATH="$PATH" LD_LIBRARY_PATH="$LD_LIBRARY_PATH" "$@"'
    yield Case("env -i", ["sh", "-c", clear, "sh", *python("once.py")], [1])
    hangs_up = dict(sends=signal.SIGHUP, to_all=True)
    yield Case("nohup of the program", ["nohup", *python("hangup.py")], [2], **hangs_up)
    yield Case("nohup of the audit", python("hangup.py"), [2], around=["nohup"], **hangs_up)
    yield Case("daemon", python("daemon.py", "{folder}"), [3, 3])
    # The report ends with the parent, so it does not have what the daemon does later.
    yield Case("daemon that is left", python("daemon.py", "{folder}", "leave"), [1], leaves=True)
    celery = python("queue_tasks.py")
    yield Case("celery", celery, 6, package="celery", env={"TASKS_FOLDER": "{folder}"})
    yield Case("workers of a data loader", python("workers.py"), [1, 1, 1, 1, 18])
    yield Case("launcher of ranks that restart", python("launcher.py", "restart"), [1, 1, 1, 2, 2, 2])
    for number in [signal.SIGTERM, signal.SIGINT]:
        yield Case(f"launcher of ranks, {number.name}", python("launcher.py", "wait"), [1, 1, 1], sends=number, codes=(128 + number,))
    for name, private, env in [
        ("service of systemd, private /tmp", "yes", {}),
        ("service of systemd, read-only /tmp", "no", {"TMPDIR": "{folder}"}),
    ]:
        around = [*(unshared() or [None]), "sh", "-c", SERVICE, "sh", "{folder}", private]
        yield Case(name, [str(ROOT / "target/debug/quickstart")], [4], around=around, env=env)


def execute(case, scratch, tool, audited):
    """Runs a case. Returns the exit code as a shell has it, the standard output, the standard error, and the processes in the audit's report."""
    folder = Path(tempfile.mkdtemp(dir=scratch))
    report, errors = folder / "report.json", folder / "errors"
    audit = [str(tool / "kernel-audit"), "--sim", "--hang-after", str(LONGEST), "--json", str(report), "--"]
    variables = {name: value for name, value in os.environ.items() if name not in ["TMPDIR", "PYTHONPATH"]}
    variables |= {"LD_LIBRARY_PATH": str(tool / "sim"), "PYTHONDONTWRITEBYTECODE": "1"}
    with open(errors, "w") as stderr:
        process = subprocess.Popen(
            [word.replace("{folder}", str(folder)) for word in [*case.around, *(audit if audited else []), *case.command]],
            stdin=subprocess.PIPE if case.sends else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            env=variables | {name: value.replace("{folder}", str(folder)) for name, value in case.env.items()},
            start_new_session=True,
        )
    ended = threading.Timer(LONGEST, os.killpg, [process.pid, signal.SIGKILL])
    ended.start()
    printed = ""
    if case.sends:
        for line in iter(process.stdout.readline, ""):
            printed += line
            if line == "ready\n":
                (os.killpg if case.to_all else os.kill)(process.pid, case.sends)
                break
    printed += process.communicate()[0]
    ended.cancel()
    if case.leaves:
        (folder / "go").touch()
        end = time.monotonic() + LONGEST
        while not (folder / "done").exists() and time.monotonic() < end:
            time.sleep(0.01)
        written = folder / "written"
        printed += written.read_text() if written.exists() else "the daemon wrote nothing\n"
    code = process.returncode if process.returncode >= 0 else 128 - process.returncode
    processes = json.loads(report.read_text())["processes"] if report.exists() else []
    return code, printed, errors.read_text(), processes


def without_times(text):
    return re.sub(r"\d+\.\d+", "#", text)


def differences(case, scratch, tool):
    """Yields a line for each difference between the audited program and the program alone."""
    code, printed, errors, _ = execute(case, scratch, tool, audited=False)
    if code not in case.codes:
        yield f"alone it ends with {code}: {printed}{errors}"
        return
    audited_code, audited_printed, audited_errors, processes = execute(case, scratch, tool, audited=True)
    if audited_code != code:
        yield f"the exit code is {audited_code} in place of {code}"
    if without_times(audited_printed) != without_times(printed):
        lines = difflib.unified_diff(printed.splitlines(), audited_printed.splitlines(), "alone", "audited", lineterm="", n=1)
        yield "it prints other lines\n" + "\n".join(lines)
    launches = sorted(process["launches"] for process in processes if process["launches"])
    if (launches if isinstance(case.launches, list) else sum(launches)) != case.launches:
        yield f"the launches in the records are {launches} in place of {case.launches}"
    if dropped := [process["command"] for process in processes if process["events_dropped"] or process["unwatched_threads"]]:
        yield f"records without room: {dropped}"
    if hangs := [event["words"] for process in processes for event in process["events"] if event["kind"] == "hang"]:
        yield f"hangs: {hangs}"
    if audited_code != code:
        yield f"on standard error: {audited_errors[-2000:]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", metavar="WORD", default="", help="only cases with this word in their names")
    options = parser.parse_args()
    tool = options.folder.resolve()
    failed = 0
    # The folder is not in `/tmp`, because a service may see another folder there.
    with tempfile.TemporaryDirectory(prefix="run-", dir=tool) as scratch:
        for case in cases():
            if options.only not in case.name:
                continue
            if None in case.around:
                print(f"left out: {case.name}: this machine lets nobody unshare mounts", flush=True)
                continue
            begun = time.monotonic()
            if case.package and importlib.util.find_spec(case.package) is None:
                found = [f"the package {case.package} is not there: pip install {case.package}"]
            else:
                found = list(differences(case, scratch, tool))
            failed += bool(found)
            print(f"{'FAILED' if found else 'ok    '} {case.name} ({time.monotonic() - begun:.1f} s)", flush=True)
            for line in "\n".join(found).splitlines():
                print(f"    {line}", flush=True)
    print("left out: PyTorch's own DataLoader and torchrun, and systemd itself: programs here do what they do")
    sys.exit(failed > 0)


main()

#!/usr/bin/env python3
"""Runs the cases of docs/case-*.md on a GPU, with `kernel-audit`, and writes what each run prints to a folder.

    tests/frameworks/cases.py PATH/TO/kernel-audit FOLDER [--only NAME] [--sim]

Needs PyTorch; the case of NCCL needs two GPUs. With `--sim` only the cases run that use the driver alone, on the simulated driver. Each run is
ended after 60 seconds, with all processes that it started. Exits with 1 if a run did not end as the pages say.
"""
import argparse
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path

HERE = Path(__file__).resolve().parent
# The seconds that a run may take.
LONGEST = 60
# Ends a process that hangs, after its report.
ABORT = ["--hang-after", "1", "--on-hang", "abort"]
EAGER = {"CUDA_MODULE_LOADING": "EAGER"}


class Run:
    """One run of a program: its name, options of the audit, the program, and what must be in its output."""

    def __init__(self, name, options, program, *expected, **variables):
        self.name, self.options, self.program = name, options, program
        self.expected, self.variables = expected, variables


def python(name, *arguments):
    return ["python3", f"{name}.py", *arguments]


def recorded(file, program, *ended, **variables):
    """The two runs by which a preload ends a hang of a program that gives up by itself."""
    yield Run("record", ["--hang-after", "0.5", "--record", file], program, "HANG", "  cure    ", **variables)
    yield Run("preload", ["--hang-after", "0.5", "--preload", file], program, *ended, **variables)


def nccl(file):
    program = ["torchrun", "--nproc-per-node", "2", "nccl_late.py"]
    options = ["--hang-after", "1"]
    yield Run("record", [*options, "--record", file], program, "HANG", "rank 1", "  cure    ")
    # The first run ended in the first load that hung, so a second one may get further and hang again.
    yield Run("further", [*options, "--preload", file, "--record", file], program)
    yield Run("preload", [*options, "--preload", file], program, "rank 0 done 4.0", "rank 1 done 4.0")
    yield Run("eager", options, program, "rank 0 done 4.0", "rank 1 done 4.0", **EAGER)


def persistent(file):
    yield from recorded(file, python("torch_beside", "cumsum"), "cumsum ran")


def free(file):
    program = python("torch_beside", "free")
    yield Run("cold", ABORT, program, "HANG", "cuMemFree", "  cure    ")
    yield Run("eager", ABORT, program, "HANG", "cuMemFree", "  cure    ", **EAGER)
    yield Run("defer", ["--hang-after", "1"], [*program, "--defer"], "free ran", "deferred")


def capture(file):
    yield from recorded(file, python("capture"), "captured")


def torch_capture(file):
    # Whether these fail or wait is not known before: the folder says it.
    for operation in "cumsum", "erfinv":
        for beside in [], ["--beside"]:
            name = "-".join([operation, *(word.strip("-") for word in beside)])
            own = file.replace(".preload", f"-{name}.preload")
            program = python("torch_capture", operation, *beside)
            yield Run(f"{name}-cold", ["--hang-after", "0.5", "--record", own], program, "AUDIT of process")
            yield Run(f"{name}-preload", ["--hang-after", "0.5", "--preload", own], program, f"{operation} captured True")


def eager(file):
    yield from recorded(file, python("frame"), "large ran", **EAGER)


CASES = {"nccl": nccl, "persistent": persistent, "free": free, "capture": capture, "torch_capture": torch_capture, "eager": eager}
WITHOUT_TORCH = {"capture", "eager"}


def end(mark):
    """Ends all processes that have this mark in their environment."""
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and mark.encode() in (folder / "environ").read_bytes():
                os.kill(int(folder.name), signal.SIGKILL)
        except OSError:
            pass


def execute(command, variables, folder, tools):
    """Runs a command in a folder. Returns its exit code, or `None` if it had to be ended, and its output."""
    mark = uuid.uuid4().hex
    path = os.pathsep.join([str(tools), str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "CUDA_CACHE_DISABLE": "1", "CASES_MARK": mark, **variables}
    with tempfile.TemporaryFile() as output:
        started = subprocess.Popen(command, env=environment, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        try:
            code = started.wait(LONGEST)
        except subprocess.TimeoutExpired:
            code = None
        end(mark)
        started.wait()
        output.seek(0)
        return code, output.read().decode(errors="replace")


def gpus():
    try:
        return len(subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True).stdout.splitlines())
    except OSError:
        return 0


def left_out(name, simulated):
    if name in WITHOUT_TORCH:
        return None
    if simulated:
        return "it needs a GPU"
    if not importlib.util.find_spec("torch"):
        return "it needs PyTorch"
    return "it needs two GPUs" if name == "nccl" and gpus() < 2 else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tool", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", action="append")
    parser.add_argument("--sim", action="store_true")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    failed = 0
    for name, runs in CASES.items():
        if options.only and name not in options.only:
            continue
        why = left_out(name, options.sim)
        if why:
            print(f"left out: {name}: {why}")
            continue
        # Only the user may write there, so that what is kept is used.
        kept = Path(tempfile.mkdtemp(prefix="cases-"))
        for program in HERE.glob("*.py"):
            shutil.copy(program, kept)
        for run in runs(f"{name}.preload"):
            command = [options.tool.name, *(["--sim"] if options.sim else []), *run.options, *run.program]
            code, said = execute(command, run.variables, kept, options.tool.resolve().parent)
            missing = [words for words in run.expected if words not in said]
            good = code is not None and not missing
            failed += not good
            words = "".join(f"{name}={value} " for name, value in run.variables.items()) + " ".join(command)
            (options.folder / f"{name}-{run.name}.txt").write_text(f"$ {words}\n{said}\nexit code {code}\n")
            why = "" if good else f": did not end in {LONGEST} s" if code is None else f": it does not say {missing}"
            print(f"{'ok    ' if good else 'FAILED'} {name}-{run.name}, exit code {code}{why}", flush=True)
    sys.exit(failed > 0)


main()

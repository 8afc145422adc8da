#!/usr/bin/env python3
"""Runs kernels that spin or fault on a GPU, and checks what `kernel-audit dump` says of them. Every process that was looked at must end with the
results of an undisturbed run.

    tests/dumps/run.py PATH/TO/kernel-audit [--only NAME] [--times 10]

Needs nvcc, cuda-gdb, and for Triton's kernels PyTorch and Triton. Exits with 1 if something is wrong, and with 2 without a GPU or nvcc.
"""
import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
# The seconds after which a process is killed. No kernel spins that long.
LONGEST = 90
WAIT = r"\d+ threads? at spins.cu:26 in wait_for, inlined at :35 in wait_until_set, called at :41 in waits_for_flag"
DIRECT = r"\d+ threads? at spins.cu:26 in wait_for, inlined at :43 in waits_for_flag"
ALL = "all 4 blocks are resident"
NO_ROOM = r"\d+ of \d+ blocks are resident on \d+ multiprocessors, none has ended, and 8 wait for room"

# The case, how the program is compiled, and what must be said.
SPINS = [
    ("flag", "lines", ["waits_for_flag: 4 blocks of 64 threads", ALL, WAIT, DIRECT]),
    ("flag", "plain", ["waits_for_flag: 4 blocks of 64 threads", ALL, r"threads at wait_until_set\+0x[0-9a-f]+, called at waits_for_flag\+0x"]),
    ("replay", "lines", ["waits_for_flag: 4 blocks of 64 threads", ALL, WAIT, DIRECT]),
    ("barrier", "lines", ["barrier_of_blocks: ", NO_ROOM, r"threads at spins.cu:\d+ in barrier_of_blocks"]),
    ("two", "lines", [r"waits_for_barrier: (\d+) blocks .*\n +all \1 blocks are resident", "barrier_of_blocks: ", r"\d+ wait for room"]),
    ("computes", "lines", ["computes: 8 blocks of 64 threads", r"threads at spins.cu:\d+ in computes"]),
]
# The case, and what the core dump of the driver must say.
FAULTS = [
    ("misaligned", r"FAULT: an access to a misaligned address by thread \(7,0,0\) of block \(\d,0,0\), at spins.cu:\d+ in writes_misaligned"),
    ("address", r"FAULT: an access to an illegal address.*, at spins.cu:\d+ in writes_beyond"),
    ("assert", r"FAULT: an assert that failed by thread \(7,0,0\) of block \(\d,0,0\), at spins.cu:\d+ in asserts"),
    ("trap", r"FAULT: a trap by thread \(7,0,0\) of block \(\d,0,0\), at spins.cu:\d+ in traps"),
]
# What Triton's kernels must say.
TRITON_FAULTS = [
    ("address", r"FAULT: an access to an illegal address.*, at spins.py:36 in writes_beyond"),
    ("assert", r"FAULT: an assert that failed .*, at spins.py:41 in asserts"),
]
# What the audit says of the thread that loads.
LOADS = r"thread \d+: in `cuModuleLoadData`"


class Program:
    """A program that is started, and has launched its kernel."""

    def __init__(self, command, **variables):
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, **variables})
        self.said = ""
        while "running" not in self.said:
            line = self.process.stdout.readline()
            if not line:
                raise AssertionError(f"{command} ends early: {self.said}")
            self.said += line

    def end(self):
        try:
            self.said += self.process.communicate(timeout=LONGEST)[0]
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.said += f"killed after {LONGEST} s"
        return self.process.returncode


def look(tool, *words):
    begun = time.monotonic()
    done = subprocess.run([tool, "dump", *map(str, words)], capture_output=True, text=True, timeout=LONGEST)
    return done.stdout + done.stderr, time.monotonic() - begun


def missing(text, expected):
    return [words for words in expected if not re.search(words, text)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tool")
    parser.add_argument("--only")
    parser.add_argument("--times", type=int, default=10)
    options = parser.parse_args()
    tool, folder, failed = os.path.abspath(options.tool), Path(tempfile.mkdtemp(prefix="dumps-")), 0
    for needed in ("nvcc", "cuda-gdb", "nvidia-smi"):
        if not shutil.which(needed):
            sys.exit(print(f"NOT RUN: there is no {needed}", file=sys.stderr) or 2)
    builds = {"lines": ["-lineinfo"], "plain": []}
    running = [subprocess.Popen(["nvcc", "-arch=native", *more, "-o", folder / name, HERE / "spins.cu"]) for name, more in builds.items()]
    assert all(build.wait() == 0 for build in running)

    def report(name, wrong, note=""):
        nonlocal failed
        failed += bool(wrong)
        print(f"{'FAILED' if wrong else 'ok    '} {name} {note}", flush=True)
        for line in "\n".join(map(str, wrong)).splitlines():
            print(f"    {line}", flush=True)

    def wanted(name):
        return not options.only or options.only in name

    def joined(name, command, expected, ended, through=()):
        """Looks at a program, and checks what is said and how the program ends."""
        if not wanted(name):
            return
        program = Program([*through, *command])
        time.sleep(0.5)
        number = program.process.pid
        if through:
            children = Path(f"/proc/{number}/task/{number}/children").read_text().split()
            number = children[0]
        text, took = look(tool, number)
        code = program.end()
        wrong = missing(text, expected)
        if code != 0 or ended not in program.said:
            wrong.append(f"the program ends with {code}: {program.said}")
        report(name, [*wrong, text] if wrong else [], f"in {took:.1f} s")

    for case, build, expected in SPINS:
        joined(f"{case}, {build}", [folder / build, case, "6"], expected, "ended: cudaSuccess")
    audited = [r"thread \d+: in `cuStreamSynchronize`", "waits_for_flag: 4 blocks of 64 threads, loaded by", *SPINS[0][2][1:]]
    joined("flag, behind the audit", [folder / "lines", "flag", "6"], audited, "ended: cudaSuccess", [tool, "--hang-after", "1", "--quiet", "--"])

    for case, build, expected in SPINS:
        if case != "two":
            os.environ["LATE"] = "1"
            watched = [tool, "--hang-after", "1", "--quiet", "--"]
            joined(f"{case}, {build}, next to a late load", [folder / build, case, "6"], [*expected, LOADS], "ended: cudaSuccess", watched)
            del os.environ["LATE"]

    def faults(name, command, expected, alone_ends):
        """Lets the driver write a core dump, as the report of a fault says, and checks what is said of it."""
        if not wanted(name):
            return
        core = folder / f"{name}.core"
        variables = {"CUDA_ENABLE_LIGHTWEIGHT_COREDUMP": "1", "CUDA_ENABLE_COREDUMP_ON_EXCEPTION": "1", "CUDA_COREDUMP_FILE": str(core)}
        alone, armed = (subprocess.run(command, capture_output=True, text=True, timeout=LONGEST, env={**os.environ, **its}) for its in ({}, variables))
        text, took = look(tool, "--core", core)
        wrong = missing(text, [expected]) + missing(alone.stdout + alone.stderr, [alone_ends])
        report(f"{name}, the driver's dump", [*wrong, text, armed.stdout, armed.stderr[-2000:]] if wrong else [], f"in {took:.1f} s")

    for case, expected in FAULTS:
        faults(case, [folder / "lines", case, "1"], expected, "ended: cudaError")
    for case, expected in TRITON_FAULTS:
        faults(f"triton's {case}", [sys.executable, HERE / "spins.py", case], expected, "Error")

    if wanted("abort"):
        command = [tool, "--hang-after", "1", "--on-hang", "abort", "--", folder / "lines", "flag", "30"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST)
        text = done.stdout + done.stderr
        wrong = missing(text, SPINS[0][2]) + ([f"it ends with {done.returncode}"] if done.returncode != -signal.SIGABRT else [])
        report("abort", [*wrong, text] if wrong else [])

    if wanted("nccl"):
        if subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True).stdout.count("GPU ") < 2:
            print("LEFT OUT: NCCL, which takes two GPUs", flush=True)
        else:
            program = Program([sys.executable, HERE / "spins.py", "nccl"])
            number = re.search(r"the missing rank is (\d+)", program.said)[1]
            waits, _ = look(tool, program.process.pid)
            sleeps, _ = look(tool, number)
            code = program.end()
            wrong = missing(waits, ["ncclDevKernel_AllReduce"]) + missing(sleeps, ["no kernel runs", "spins.py:61|nanosleep"])
            wrong += [] if code == 0 and "ended 4194304.0" in program.said else [program.said]
            report("nccl", [*wrong, waits, sleeps] if wrong else [])

    if wanted("triton"):
        command = [sys.executable, HERE / "spins.py", "flag", "30000000"]
        alone = Program(command)
        alone.end()
        results = [line for line in alone.said.splitlines() if line.startswith("ended")]
        for time_of in range(options.times):
            joined(f"triton, {time_of + 1} of {options.times}", command, ["wait_for: 4 blocks of 128 threads", ALL, r"threads at spins.py:23 in"], results[0])

    other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    if os.getuid() == 0 and shutil.which(other[0]):
        folder.chmod(0o755)
        joined("flag, of another user", [*other, folder / "lines", "flag", "6"], SPINS[0][2], "ended: cudaSuccess")
    else:
        print("LEFT OUT: a process of another user, which takes root and setpriv", flush=True)

    text, _ = look(tool, os.getpid())
    report("a process without CUDA", missing(text, ["it has not loaded the driver"]))
    program = Program([folder / "lines", "flag", "3"])
    text, _ = look(tool, "--json", program.process.pid)
    program.end()
    report("json", [] if '"resident": 4' in text and json.loads(text)["kernels"][0]["name"] == "waits_for_flag" else [text])
    shutil.rmtree(folder)
    sys.exit(failed > 0)


main()

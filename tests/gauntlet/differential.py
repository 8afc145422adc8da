#!/usr/bin/env python3
"""Compiles random programs with NVRTC, changes something, and compiles them again: alone, and with what a recorded run has kept. Both must return
the same to the byte.

    tests/gauntlet/differential.py FOLDER_OF_KERNEL_AUDIT NVRTC.. [--rounds 20] [--seed N] [--programs 12]

A round is an environment: variables, a working directory, folders of headers, and programs that ask for some of them. The changes are those of
which a result might depend without naming them: a header, a link to a folder of headers, a variable, the working directory, the folder in a
program's name, an option, the history of a program. A third of the programs is encoded, as cuDNN's are, and tells how often its function was called.
Programs that tell the time must never be given back. The last line has the numbers of programs, of results that were given back, of encoded ones
among these, and of differences.
"""
import argparse
import copy
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from run import Gauntlet

HERE = Path(__file__).resolve().parent
KERNEL = 'extern "C" __global__ void k(double *out) {{ {} }}\n'
PASTE = "#define Q(a, b) a##b\n#define P(a, b) Q(a, b)\n"
SOURCES = [
    ("plain", KERNEL.format("out[0] = 1;")),
    ("mathematics", KERNEL.format("out[0] = sin(0.7) * exp(1.25) + pow(1.1, 2.3); out[1] = 1.0 / 3;")),
    ("the length of its name", KERNEL.format("out[0] = sizeof(__FILE__);")),
    ("a pasted name", PASTE + KERNEL.format("out[0] = sizeof(P(__FI, LE__));")),
    ("a character of its name", KERNEL.format("out[0] = __FILE__[5];")),
    ("a builtin for its name", KERNEL.format("const char *name = __builtin_FILE(); out[0] = name[5];")),
    ("a static variable", "static __device__ int count;\n" + KERNEL.format("out[0] = count++;")),
    ("an anonymous namespace", "namespace { __device__ double held; }\n" + KERNEL.format("out[0] = held++;")),
    ("an option", "#ifndef X\n#define X 0\n#endif\n" + KERNEL.format("out[0] = X;")),
    ("a header", '#include "h.h"\n' + KERNEL.format("out[0] = H;")),
    ("a header's name", '#include "h.h"\n' + KERNEL.format("out[0] = file_of_header()[0] + sizeof(FILE_OF_HEADER);")),
    ("whether there is a header", '#if __has_include("other.h")\n#define O 1\n#else\n#define O 2\n#endif\n' + KERNEL.format("out[0] = O;")),
    ("an error", KERNEL.format("out[0] = nothing;")),
    ("a warning", KERNEL.format("int unused = 0; out[0] = 1;")),
    ("lines", "#line 7\n" + KERNEL.format("out[0] = __LINE__;")),
]
TIMES = [
    ("time, pasted", PASTE + KERNEL.format("out[0] = P(__TI, ME__)[7];")),
    ("time, in a text", "__device__ const char *when = __TIME__;\n" + KERNEL.format("out[0] = when[0];")),
]
TEMPLATE = "template <int N> __global__ void t(int *out) { *out = N; }\n"
HEADER = "#define H %d\n#define FILE_OF_HEADER __FILE__\n__device__ const char *file_of_header() { return __FILE__; }\n"
OPTIONS = ["-lineinfo", "-G", "--std=c++17", "-use_fast_math", "-fmad=false", "-DX=1", "-dlto", "-default-device"]
VARIABLES = {
    "NV_NVVM_VERSION": ["bogus", "nvvm70"],
    "LLVM_OVERRIDE_PRODUCER": ["zzzz", "yyyy"],
    "NVRTC_APPEND_FLAGS": ["-DX=5", "-lineinfo"],
    "HOME": ["/", "/tmp"],
    "KERNEL_UNRELATED": ["1", "2"],
}


class Round:
    """An environment and programs."""

    def __init__(self, choose, folder, count):
        self.folder, self.variables = folder, {"PWD": str(folder / "one")}
        for name, values in VARIABLES.items():
            if choose.random() < 0.15:
                self.variables[name] = choose.choice(values)
        self.directory = "one"
        self.headers = {"v1/h.h": 1001, "v2/h.h": 1002}
        self.link, self.programs = "v1", []
        for number in range(count):
            is_time = choose.random() < 0.1
            label, text = choose.choice(TIMES if is_time else SOURCES)
            it = {"label": f"{number}: {label}", "text": text, "names": [], "name": None, "encoded": choose.random() < 0.3}
            if is_time:
                it["name"] = f"{folder}/time{number}.cu"
            elif choose.random() < 0.6:
                it["name"] = choose.choice(["a.cu", str(folder / "one/a.cu"), "/tmp/b.cu", "/somewhere/else/c.cu"])
            if choose.random() < 0.3:
                it["text"], it["names"] = text + TEMPLATE, ["t<3>"]
            includes = choose.choice([["-I", str(folder / "current")], ["-I../current"], ["-I", str(folder / "early"), f"-I{folder}/current"]])
            options = [choose.choice(["-arch=sm_80", "-arch=compute_80", "-arch=sm_90"]), *includes]
            it["options"] = [options + choose.sample(OPTIONS, choose.choice([0, 0, 1, 2]))]
            if choose.random() < 0.1:
                it["options"].append(["-arch=compute_90", *includes])
            self.programs.append(it)

    def write(self):
        for name in ["one", "other", "v1", "v2", "early"]:
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        for name in ["v1/h.h", "v2/h.h", "early/h.h", "v1/other.h", "one/h.h"]:
            path, value = self.folder / name, self.headers.get(name)
            if value is None:
                path.unlink(missing_ok=True)
            elif not path.exists() or path.read_text() != HEADER % value:
                path.write_text(HEADER % value)
        link = self.folder / "current"
        link.unlink(missing_ok=True)
        link.symlink_to(self.link)
        (self.folder / "programs.json").write_text(json.dumps(self.programs))
        # A file that is as new as a compilation might change in the same tick.
        time.sleep(0.05)

    def changed(self, choose):
        """Returns the round with something changed, and what."""
        it = copy.deepcopy(self)
        change = choose.choice(["nothing", "header", "early header", "own header", "rounding", "other header", "link", "directory", "pwd", "variable", "names", "option", "text", "history"])
        if change == "header":
            it.headers["v1/h.h"] += choose.choice([1, 1000])
        elif change == "early header":
            it.headers["early/h.h"] = 77
        elif change == "own header":
            it.headers["one/h.h"] = 88
        elif change == "rounding":
            it.variables["ROUNDING"] = str(choose.choice([0x400, 0x800, 0xC00]))
        elif change == "other header":
            it.headers["v1/other.h"] = 1
        elif change == "link":
            it.link = "v2"
        elif change == "directory":
            it.directory, it.variables["PWD"] = "other", str(self.folder / "other")
        elif change == "pwd":
            it.variables["PWD"] = str(self.folder / "v1/../one")
        elif change == "variable":
            name = choose.choice(list(VARIABLES))
            old = it.variables.pop(name, None)
            it.variables[name] = choose.choice([value for value in VARIABLES[name] if value != old])
        for program in it.programs:
            if change == "names" and program["name"]:
                program["name"] = choose.choice(["/tmp/elsewhere/", "/t/", "x/"]) + program["name"].rsplit("/", 1)[-1]
            elif change == "option":
                program["options"][0].append(choose.choice(OPTIONS))
            elif change == "text":
                program["text"] += "// \n"
            elif change == "history":
                program["options"].insert(0, ["-arch=compute_80"])
        return it, change


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tool")
    parser.add_argument("nvrtc", nargs="+")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--programs", type=int, default=12)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    choose = random.Random(options.seed)
    programs = given = encoded = differences = 0
    for number in range(options.rounds):
        with tempfile.TemporaryDirectory() as scratch:
            scratch = Path(scratch)
            g = Gauntlet(Path(options.tool).resolve(), options.nvrtc, scratch)
            nvrtc, preload, report = choose.choice(g.nvrtcs), scratch / "late.preload", scratch / "report.json"

            def run(of, arguments):
                command = [sys.executable, "-c", "import os, sys; os.chdir(sys.argv[1]); os.execv(sys.executable, [sys.executable, *sys.argv[2:]])"]
                command += [str(of.folder / of.directory), str(HERE / "compile.py"), str(nvrtc), str(of.folder / "programs.json")]
                audit = [str(g.tool / "kernel-audit"), *arguments, "--"] if arguments else []
                env = {**{name: value for name, value in os.environ.items() if name not in VARIABLES}, "LD_LIBRARY_PATH": g.libraries, **of.variables}
                return subprocess.run([*audit, *command], env=env, capture_output=True, text=True, timeout=600)

            first = Round(choose, scratch / "round", options.programs)
            first.write()
            run(first, ["--record", str(preload)])
            second, change = first.changed(choose)
            second.write()
            alone = run(second, [])
            audited = run(second, ["--preload", str(preload), "--json", str(report)])
            events = [event for process in json.loads(report.read_text())["processes"] for event in process["events"]] if report.exists() else []
            kept = [event for event in events if event["kind"] == "kept"]
            programs, given = programs + len(second.programs), given + len(kept)
            calls = [it for it in second.programs for _ in it["options"]]
            events = [event for event in events if event["kind"] in ["kept", "compile"]]
            encoded += sum(it["encoded"] and event["kind"] == "kept" for it, event in zip(calls, events))
            lines = [done.stdout.splitlines() for done in [alone, audited]]
            wrong = [pair for pair in zip(*lines) if pair[0] != pair[1] and ": time" not in pair[0]]
            # The time differs between both runs, so such programs must be compiled.
            wrong += [("a time was given back", event["subject"]["name"]) for event in kept if "/time" in event["subject"]["name"]]
            is_wrong = wrong or len(lines[0]) != len(lines[1]) or len(lines[0]) != len(second.programs)
            differences += bool(is_wrong)
            print(f"{number}: {change} with {nvrtc.name}, {len(kept)} of {len(second.programs)} given back{', DIFFERENT' if is_wrong else ''}", flush=True)
            if is_wrong:
                print(first.variables, second.variables, *(line for pair in wrong for line in pair), alone.stderr[-500:], audited.stderr[-2000:], sep="\n")
                print(json.dumps([it for it in second.programs if any(pair[0].startswith(it["label"]) for pair in wrong)]))
    print(f"{programs} programs, {given} results given back, {encoded} of them encoded, {differences} differences")
    return 1 if differences or not given or not encoded else 0


if __name__ == "__main__":
    sys.exit(main())

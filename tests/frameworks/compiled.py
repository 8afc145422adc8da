#!/usr/bin/env python3
"""Runs programs as they are, with everything loaded at once (EAGER), and with a preload that one run recorded, in turns. Compares what they print, what is
compiled in them, and for how long; numbers are medians.

    tests/frameworks/compiled.py PATH/TO/kernel-audit [--sim] [--runs 3] [--keep-caches] [--only-preloaded] [PROGRAM ..]

A program is a file beside this one, without `.py`, with its arguments: `"ptx_ops FOLDER"`. Caches of the driver and of frameworks are empty
in each run; with `--keep-caches` those of frameworks are filled, as an image ships them.

Without a GPU, `--sim` runs `nvrtc_ops.py`, which needs NVRTC only: `pip install nvidia-cuda-nvrtc`.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROGRAMS = ["nvrtc_ops", "torch_ops", "convnext_ops", "attention_ops", "whisper_ops", "unet_ops", "server_ops", "training_ops", "inline_ops", "fatbin_ops", "compile_ops", "triton_add", "cupy_ops", "jax_ops"]


def execute(command, folder, environment):
    caches = {name: str(folder / name) for name in ["TRITON_CACHE_DIR", "CUPY_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR"]}
    begun = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env={**os.environ, "CUDA_CACHE_DISABLE": "1", "XLA_PYTHON_CLIENT_PREALLOCATE": "false", **caches, **environment})
    return done, 1000 * (time.perf_counter() - begun)


def number(name, done):
    """Returns a number that a program wrote to standard error as JSON, or None."""
    lines = [line for line in done.stderr.splitlines() if line.startswith(f'{{"{name}"')]
    return json.loads(lines[-1])[name] if lines else None


def compiled(report):
    """How often, and how long, NVRTC and the driver compiled; and how long results that were kept took."""
    events = [event for process in json.loads(report.read_text())["processes"] for event in process["events"]]
    of = lambda which: [event["took_ms"] for event in events if which(event)]
    return (
        of(lambda event: event["kind"] == "compile"),
        of(lambda event: event["kind"] == "image" and event["subject"]["format"] in ["PTX", "fatbin of PTX"]),
        of(lambda event: event["kind"] == "kept" or event["subject"].get("format") == "machine code for PTX"),
    )


def measure(tool, options, name):
    program, *arguments = name.split()
    command = [sys.executable, str(HERE / "memory.py"), str(HERE / f"{program}.py"), *arguments]
    audit = [tool, "--slow", "10000", *(["--sim"] if options.sim else [])]
    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch)
        file, report = scratch / "late.preload", scratch / "report.json"
        outputs, ways = [], {"as it is": {}, "EAGER": {"CUDA_MODULE_LOADING": "EAGER"}, "preloaded": {}}
        if options.only_preloaded:
            ways = {"preloaded": {}}
        runs, compilations = {way: [] for way in ways}, []

        def run(way, front, **environment):
            folder = scratch / ("caches" if options.keep_caches else f"{way}{len(outputs)}")
            done, took = execute([*front, *command], folder, environment)
            outputs.append((done.returncode, done.stdout))
            return done, took

        if options.keep_caches:
            run("caches", [])
        for turn in range(options.runs):
            for way, environment in ways.items():
                if way == "preloaded" and turn == 0:
                    done, _ = run("recorded", [*audit, "--record", str(file), "--json", str(report), "--"])
                    nvrtc, driver, _ = compiled(report)
                front = [*audit, "--preload", str(file), "--json", str(report), "--"] if way == "preloaded" else []
                runs[way].append(run(way, front, **environment))
            again, driver_again, kept = compiled(report)
            # Nothing was kept: then NVRTC is not watched, and has compiled what it compiled in the recorded run.
            if nvrtc and not again and not kept:
                again = nvrtc
            compilations.append((len(again) + len(driver_again), sum(again) + sum(driver_again) + sum(kept)))
    same, left = len(set(outputs)) == 1, max(count for count, _ in compilations)
    if not same:
        print(*(output for output in outputs if output != outputs[0]), runs["preloaded"][-1][0].stderr[-2000:], sep="\n")
    for_all = statistics.median(took for _, took in compilations)
    print(f"{name}: recorded {len(nvrtc)} x NVRTC {sum(nvrtc):.0f} ms, {len(driver)} x PTX {sum(driver):.0f} ms; preloaded {left} compiled, {for_all:.1f} ms for all; same output: {same}")
    for way, each in runs.items():
        shown = [f"whole program {statistics.median(took for _, took in each):.0f} ms"]
        for what, unit in [("requests", "ms"), ("loads", "ms"), ("used", "MiB")]:
            values = [number(f"{what}_{unit.lower()}", done) for done, _ in each]
            if all(value is not None for value in values):
                shown.append(f"{what} {medians(values)} {unit}")
        print(f"  {way:9} {', '.join(shown)}", flush=True)
    return same and left == 0


def medians(values):
    """The median of numbers, or of each place in lists of numbers."""
    if isinstance(values[0], list):
        return [medians(column) for column in zip(*values)]
    return float(f"{statistics.median(values):.3g}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tool")
    parser.add_argument("--sim", action="store_true")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--keep-caches", action="store_true")
    parser.add_argument("--only-preloaded", action="store_true", help="for programs that compile for minutes as they are")
    parser.add_argument("programs", nargs="*")
    options = parser.parse_intermixed_args()
    programs = options.programs or (["nvrtc_ops"] if options.sim else PROGRAMS)
    results = [measure(os.path.abspath(options.tool), options, name) for name in programs]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())

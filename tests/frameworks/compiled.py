#!/usr/bin/env python3
"""Runs programs as they are, with `kernel-audit --record`, and with `--preload`, and compares what they print, what is compiled in them, and for how long.

    tests/frameworks/compiled.py PATH/TO/kernel-audit [--sim] [--runs 5] [--keep-caches] [PROGRAM ..]

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
PROGRAMS = ["nvrtc_ops", "torch_ops", "convnext_ops", "attention_ops", "whisper_ops", "unet_ops", "server_ops", "fatbin_ops", "compile_ops", "triton_add", "cupy_ops", "jax_ops"]


def execute(command, folder):
    caches = {name: str(folder / name) for name in ["TRITON_CACHE_DIR", "CUPY_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR"]}
    begun = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env={**os.environ, "CUDA_CACHE_DISABLE": "1", "XLA_PYTHON_CLIENT_PREALLOCATE": "false", **caches})
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
    audit, runs = [tool, "--slow", "10000", *(["--sim"] if options.sim else [])], options.runs
    rows, outputs = [], []
    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch)
        file, report = scratch / "late.preload", scratch / "report.json"
        folder = lambda name: scratch / ("caches" if options.keep_caches else name)
        if options.keep_caches:
            execute(command, folder(""))
        for run in range(runs):
            done, plain = execute(command, folder(f"plain{run}"))
            outputs.append((done.returncode, done.stdout))
            before = done
            if run == 0:
                done, _ = execute([*audit, "--record", str(file), "--json", str(report), "--", *command], folder("recorded"))
                outputs.append((done.returncode, done.stdout))
                nvrtc, driver, _ = compiled(report)
            done, preloaded = execute([*audit, "--preload", str(file), "--json", str(report), "--", *command], folder(f"preloaded{run}"))
            outputs.append((done.returncode, done.stdout))
            again, driver_again, kept = compiled(report)
            # Nothing was kept: then NVRTC is not watched, and has compiled what it compiled in the recorded run.
            if nvrtc and not again and not kept:
                again = nvrtc
            rows.append((plain, preloaded, sum(again) + sum(driver_again) + sum(kept), len(again) + len(driver_again)))
            memory = [number("used_mib", each) for each in [before, done]]
            loads = [number("loads_ms", each) for each in [before, done]]
            requests = [number("requests_ms", each) for each in [before, done]]
    same = len({output for output in outputs}) == 1
    if not same:
        print(*(output for output in outputs if output != outputs[0]), done.stderr[-2000:], sep="\n")
    median = lambda index: statistics.median(row[index] for row in rows)
    left = max(row[3] for row in rows)
    print(
        f"{program}: recorded {len(nvrtc)} x NVRTC {sum(nvrtc):.0f} ms, {len(driver)} x PTX {sum(driver):.0f} ms; "
        f"preloaded {left} compiled, {median(2):.1f} ms for all; whole program {median(0):.0f} ms as it is, {median(1):.0f} ms preloaded "
        f"({median(1) / median(0):.2f}); device memory {memory} MiB"
        + (f"; its loads {loads} ms" if loads[0] else "")
        + (f"; its requests {requests[0]} ms, preloaded {requests[1]}" if requests[0] else "")
        + f"; same output: {same}",
        flush=True,
    )
    return same and left == 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tool")
    parser.add_argument("--sim", action="store_true")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--keep-caches", action="store_true")
    parser.add_argument("programs", nargs="*")
    options = parser.parse_intermixed_args()
    programs = options.programs or (["nvrtc_ops"] if options.sim else PROGRAMS)
    results = [measure(os.path.abspath(options.tool), options, name) for name in programs]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())

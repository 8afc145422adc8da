#!/usr/bin/env python3
"""Runs programs as they are, with `kernel-audit --record`, and with `--preload`, and compares what they print, what is compiled in them, and for how long.

    tests/frameworks/compiled.py PATH/TO/kernel-audit [--sim] [PROGRAM ..]

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
PROGRAMS = ["nvrtc_ops", "torch_ops", "compile_ops", "triton_add", "cupy_ops", "jax_ops"]
RUNS = 5


def execute(command, folder):
    caches = {name: str(folder / name) for name in ["TRITON_CACHE_DIR", "CUPY_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR"]}
    begun = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env={**os.environ, "CUDA_CACHE_DISABLE": "1", **caches})
    return done, 1000 * (time.perf_counter() - begun)


def compiled(report):
    """How often, and how long, NVRTC and the driver compiled; and how long results that were kept took."""
    events = [event for process in json.loads(report.read_text())["processes"] for event in process["events"]]
    of = lambda which: [event["took_ms"] for event in events if which(event)]
    return (
        of(lambda event: event["kind"] == "compile"),
        of(lambda event: event["kind"] == "image" and event["subject"] == "PTX"),
        of(lambda event: event["kind"] == "kept" or event["subject"] == "machine code for PTX"),
    )


def measure(tool, options, name):
    command = [sys.executable, str(HERE / f"{name}.py")]
    rows, outputs = [], []
    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch)
        file, report = scratch / "late.preload", scratch / "report.json"
        for run in range(RUNS):
            # Caches of frameworks are empty in each run.
            folder = scratch / f"plain{run}"
            done, plain = execute(command, folder)
            outputs.append((done.returncode, done.stdout))
            if run == 0:
                done, _ = execute([tool, *options, "--record", str(file), "--json", str(report), "--", *command], scratch / "recorded")
                outputs.append((done.returncode, done.stdout))
                nvrtc, driver, _ = compiled(report)
            done, preloaded = execute([tool, *options, "--preload", str(file), "--json", str(report), "--", *command], scratch / f"preloaded{run}")
            outputs.append((done.returncode, done.stdout))
            again, driver_again, kept = compiled(report)
            rows.append((plain, preloaded, sum(again) + sum(driver_again) + sum(kept), len(again) + len(driver_again)))
    same = all(output == outputs[0] for output in outputs)
    median = lambda index: statistics.median(row[index] for row in rows)
    left = max(row[3] for row in rows)
    print(
        f"{name}: recorded {len(nvrtc)} x NVRTC {sum(nvrtc):.0f} ms, {len(driver)} x PTX {sum(driver):.0f} ms; "
        f"preloaded {left} compiled, {median(2):.1f} ms for all; whole program {median(0):.0f} ms as it is, {median(1):.0f} ms preloaded "
        f"({median(1) / median(0):.2f}); same output: {same}"
    )
    return same and left == 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tool")
    parser.add_argument("--sim", action="store_true")
    parser.add_argument("programs", nargs="*")
    options = parser.parse_args()
    programs = options.programs or (["nvrtc_ops"] if options.sim else PROGRAMS)
    results = [measure(os.path.abspath(options.tool), ["--sim"] if options.sim else [], name) for name in programs]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Runs the examples in each mode on a GPU, compares what they answer, and prints how long each took to its first token.

    cargo build --release --examples
    cargo kernels bake target/release/examples/llama --arch sm_90a
    python3 measure.py target/release/examples

A file of baked code beside a program, `llama.baked`, adds rows for it. Medians of the runs are printed; --json writes all of them.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

MODES = ["alone", "by-hand", "registry", "registry-types", "registry-forward"]


def run(program, mode, environment):
    """Runs a program once. Returns its tokens and its line of figures."""
    result = subprocess.run([program, mode], env=environment, capture_output=True, text=True)
    lines = [line for line in result.stderr.splitlines() if line.startswith("{")]
    if result.returncode != 0 or not lines:
        sys.exit(f"{program} {mode}: exit code {result.returncode}\n{result.stdout}{result.stderr}")
    for line in result.stderr.splitlines():
        if not line.startswith("{"):
            print(f"{os.path.basename(program)} {mode}: {line}", file=sys.stderr)
    return result.stdout, json.loads(lines[-1])


def rows(program, folder, modes, runs):
    """Yields a name, its tokens and figures, for each way to run a program."""
    baked = program + ".baked"
    for cache in ["off", "filled"]:
        for mode in modes:
            for file in ["0"] + [baked] * (os.path.exists(baked) and mode.startswith("registry")):
                environment = dict(os.environ, KERNEL_REGISTRY_BAKED=file)
                if cache == "off":
                    environment["CUDA_CACHE_DISABLE"] = "1"
                else:
                    environment.pop("CUDA_CACHE_DISABLE", None)
                    environment["CUDA_CACHE_PATH"] = folder
                    environment["CUDA_CACHE_MAXSIZE"] = str(4 << 30)
                    run(program, mode, environment)
                code = "" if file == "0" else ", baked"
                yield (cache, mode + code), [run(program, mode, environment) for _ in range(runs)]


def cell(figures, key):
    values = [figure[key] for figure in figures]
    return f"{statistics.median(values):.0f} ({min(values):.0f} to {max(values):.0f})"


def table(name, all_rows):
    print(f"\n{name}\n")
    print("| cache | mode | start to first token, ms | than alone | warm-up, ms | first token of requests 1, 2, 3, ms | MiB |")
    print("|---|---|---|---|---|---|---|")
    alone = {}
    for (cache, mode), results in all_rows:
        figures = [figure for _, figure in results]
        start = statistics.median(figure["start_to_first_token_ms"] for figure in figures)
        alone.setdefault(cache, start)
        firsts = zip(*(figure["first_token_ms"] for figure in figures))
        firsts = ", ".join(f"{statistics.median(values):.1f}" for values in firsts)
        memory = statistics.median(figure["device_memory_mib"] for figure in figures)
        print(
            f"| {cache} | {mode} | {cell(figures, 'start_to_first_token_ms')} | {start / alone[cache]:.3f} x "
            f"| {cell(figures, 'warm_up_ms')} | {firsts} | {memory:.0f} |"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="the folder of the programs")
    parser.add_argument("--examples", default="llama,quantized")
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", help="a file for all figures")
    options = parser.parse_args()
    everything, differ = {}, []
    for name in options.examples.split(","):
        with tempfile.TemporaryDirectory() as folder:
            all_rows = list(rows(os.path.join(options.folder, name), folder, options.modes.split(","), options.runs))
        tokens = {text for _, results in all_rows for text, _ in results}
        if len(tokens) != 1:
            differ.append(name)
            for (cache, mode), results in all_rows:
                print(name, cache, mode, [text.splitlines() for text, _ in results], file=sys.stderr)
        table(name, all_rows)
        everything[name] = [
            {"cache": cache, "way": mode, **figure} for (cache, mode), results in all_rows for _, figure in results
        ]
    if options.json:
        with open(options.json, "w") as file:
            json.dump(everything, file, indent=1)
    if differ:
        sys.exit(f"tokens differ: {', '.join(differ)}")
    print("\nall tokens are the same")


if __name__ == "__main__":
    main()

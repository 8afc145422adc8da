#!/usr/bin/env python3
"""Compares the kernels that `cargo kernels list` finds in binaries with those that NVIDIA's cuobjdump finds.

compare.py CARGO_KERNELS FILE..: for each file, the symbols for each architecture and their registers have to be the same. The script runs
the cuobjdump on the path. It exits with 1 if the kernels differ, and names the files that cuobjdump cannot read.
"""

import json
import re
import subprocess
import sys
import time


def ours(command, file):
    run = subprocess.run([command, "kernels", "list", "--json", file], capture_output=True, text=True)
    if run.returncode not in (0, 15):
        return None, run.stderr.strip()
    found = {}
    for kernel in json.loads(run.stdout)["linked"]:
        for variant in kernel["variants"]:
            if variant["kind"] == "cubin":
                key = (kernel["symbol"], variant["target"])
                found.setdefault(key, set()).add(variant["resources"]["registers"])
    return found, ""


def theirs(file, limit):
    try:
        run = subprocess.run(["cuobjdump", "-res-usage", file], capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return None
    found, target, symbol = {}, "", ""
    for line in run.stdout.splitlines():
        if match := re.match(r"arch = (sm_\w+)", line.strip()):
            target = match[1]
        elif match := re.match(r"Function (\S+):", line.strip()):
            symbol = match[1]
        elif match := re.match(r"REG:(\d+)", line.strip()):
            found.setdefault((symbol, target), set()).add(int(match[1]))
    return found


def main(command, files, limit=150):
    differ = 0
    for file in files:
        begun = time.monotonic()
        here, error = ours(command, file)
        took = time.monotonic() - begun
        if here is None:
            print(f"{file}: {error}")
            continue
        there = theirs(file, limit)
        if there is None:
            print(f"{file}: {len(here)} in {took:.1f} s; cuobjdump was not done after {limit} s")
            continue
        # cuobjdump also lists device functions, which are no kernels.
        missing = [key for key in there if key not in here]
        more = [key for key in here if key not in there]
        registers = [key for key in here if key in there and here[key] != there[key]]
        differ += bool(more or registers)
        print(
            f"{file}: {len(here)} kernels and architectures in {took:.1f} s; only cuobjdump has {len(missing)}, only we have {len(more)}; "
            f"{len(registers)} differ in registers"
        )
        for name, keys in (("only cuobjdump", missing), ("only we", more), ("registers", registers)):
            for key in keys[:3]:
                print(f"    {name}: {key} {sorted(here.get(key, ()))} {sorted(there.get(key, ()))}")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))

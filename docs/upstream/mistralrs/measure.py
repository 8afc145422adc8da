#!/usr/bin/env python3
"""Runs mistral.rs with and without the patch on a GPU, compares the texts, and prints how long each took to its first token.

    python3 measure.py FOLDER [--runs 5] [--json FILE]

FOLDER has the programs: first.rs, built in mistral.rs as an example, is `before` without the patch and `after` with it. `cargo
kernels bake after` makes after.baked. Rows: the driver's cache of compiled PTX (off, filled), and the program. `switched off` is
`after` with MISTRALRS_BEFORE=1, for a program that then calls preload_candle_ptx, as it did before, and neither warms nor seals;
`after, 0` leaves out linked kernels. Medians, and the least and the most in parentheses. Of each cell one run comes first that is
not counted.
"""
import argparse
import glob
import json
import os
import site
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROWS = [
    ("before", "before", {}),
    ("switched off", "after", {"MISTRALRS_BEFORE": "1"}),
    ("after", "after", {}),
    ("after, 0", "after", {"MISTRALRS_WARM_LINKED_KERNELS": "0"}),
    ("after, baked", "after", {"KERNEL_REGISTRY_BAKED": "after.baked"}),
]


def libraries():
    """Returns the folders of NVIDIA's wheels and of toolkits."""
    roots = site.getsitepackages() + [site.getusersitepackages()] + sys.path
    found = [folder for root in roots for folder in glob.glob(f"{root}/nvidia/*/lib")]
    return list(dict.fromkeys(found + glob.glob("/usr/local/cuda*/lib64")))


def run(program, model, environment, limit):
    environment = dict(environment, START=repr(time.time()))
    result = subprocess.run([program, model, "16"], env=environment, capture_output=True, text=True, timeout=limit)
    lines = [line for line in result.stderr.splitlines() if line.startswith("{")]
    if result.returncode != 0 or not lines:
        sys.exit(f"{program}: exit code {result.returncode}\n{result.stdout}{result.stderr}")
    return result.stdout, json.loads(lines[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the folder of the programs")
    parser.add_argument("--only", action="append", help="a row; can be repeated")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--paged", default="1", help="0: without paged attention")
    parser.add_argument("--limit", type=int, default=120, help="the seconds that a run may take")
    parser.add_argument("--json", type=Path, help="a file for all figures")
    options = parser.parse_args()
    programs = options.folder.resolve()
    rows = [row for row in ROWS if row[0] in (options.only or [row[0]])]
    rows = [row for row in rows if (programs / row[1]).exists() and (programs / row[2].get("KERNEL_REGISTRY_BAKED", "")).exists()]
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        model = os.path.join(folder, "model")
        subprocess.run([sys.executable, HERE / "model.py", model], check=True)
        path = ":".join(libraries() + [os.environ.get("LD_LIBRARY_PATH", "")])
        common = dict(os.environ, LD_LIBRARY_PATH=path, PAGED=options.paged, HF_HUB_OFFLINE="1", KERNEL_REGISTRY_BAKED="0")
        for cache in ["off", "filled"]:
            environments = {}
            for name, program, more in rows:
                environments[name] = dict(common, **more)
                if "KERNEL_REGISTRY_BAKED" in more:
                    environments[name]["KERNEL_REGISTRY_BAKED"] = str(programs / more["KERNEL_REGISTRY_BAKED"])
                if cache == "off":
                    environments[name]["CUDA_CACHE_DISABLE"] = "1"
                else:
                    environments[name].pop("CUDA_CACHE_DISABLE", None)
                    environments[name]["CUDA_CACHE_PATH"] = os.path.join(folder, "cache-" + name.replace(", ", "-"))
                    environments[name]["CUDA_CACHE_MAXSIZE"] = str(4 << 30)
                run(programs / program, model, environments[name], options.limit)
            # The programs take turns, so that what changes on the machine meets all of them.
            for _ in range(options.runs):
                for name, program, _ in rows:
                    result = run(programs / program, model, environments[name], options.limit)
                    results.setdefault((cache, name), []).append(result)

    print("| cache | program | start to ready, ms | start to first token, ms | first token of requests 1, 2, 3, ms |")
    print("|---|---|---|---|---|")
    for (cache, name), cell in results.items():
        def spread(key):
            values = [figures[key] for _, figures in cell]
            return f"{statistics.median(values):.0f} ({min(values):.0f} to {max(values):.0f})"

        requests = zip(*(figures["first_token_ms"] for _, figures in cell))
        medians = ", ".join(f"{statistics.median(values):.1f}" for values in requests)
        print(f"| {cache} | {name} | {spread('ready_ms')} | {spread('start_to_first_token_ms')} | {medians} |")
    if options.json:
        rows = [{"cache": cache, "program": name, "text": text, **figures}
                for (cache, name), cell in results.items() for text, figures in cell]
        options.json.write_text(json.dumps(rows, indent=1))
    texts = {text for cell in results.values() for text, _ in cell}
    if len(texts) != 1:
        sys.exit("the texts differ:\n" + "\n".join(texts))
    print(f"\nall texts are the same:\n{texts.pop()}")


if __name__ == "__main__":
    main()

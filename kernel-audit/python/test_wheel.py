"""Installs a wheel in a virtual environment without Rust, and uses it on the simulated driver. `cargo xtask wheel --test` calls this script.

    python3 test_wheel.py WHEEL
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROGRAM = '''
import ctypes
import kernel_audit

cuda = ctypes.CDLL("libcuda.so.1")
PTX = b""".version 8.0
.target sm_75
.address_size 64
.visible .entry late() { ret; }
"""
context, library, kernel, stream = (ctypes.c_void_p() for _ in range(4))
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuStreamCreate(ctypes.byref(stream), 1) == 0
address = ctypes.c_uint64()
assert cuda.cuMemAlloc_v2(ctypes.byref(address), 64) == 0
assert kernel_audit.is_audited()
events = []
stop = kernel_audit.on_event(events.append)
kernel_audit.ready()
kernel_audit.mark("a stretch")
assert cuda.cuLibraryLoadData(ctypes.byref(library), PTX, None, None, 0, None, None, 0) == 0
assert cuda.cuLibraryGetKernel(ctypes.byref(kernel), library, b"late") == 0
assert cuda.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, None, None, None) == 0
assert cuda.cuCtxSynchronize() == 0
with kernel_audit.section(stream.value, "late"):
    assert cuda.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, None, None) == 0
    assert cuda.cuMemFree_v2(address) == 800
assert cuda.cuMemFree_v2(address) == 0
for wrong in (lambda: kernel_audit.section("a stream"), lambda: kernel_audit.section(0, on_wait="wait")):
    try:
        with wrong():
            raise SystemExit("it began")
    except (TypeError, ValueError):
        pass
stop()
with open("findings", "a") as findings:
    print(*(event.kind for event in events if event.is_finding), file=findings)
print("done")
'''
WITHOUT = '''
import kernel_audit
assert not kernel_audit.is_audited() and kernel_audit.preload() == -1
kernel_audit.mark("a stretch")
kernel_audit.ready()
with kernel_audit.section(1), kernel_audit.no_late_loads():
    print("done")
'''
# The fixture loads the image, and the first test the kernel.
TESTS = '''
import ctypes
import pytest

PTX = b""".version 8.0
.target sm_75
.address_size 64
.visible .entry late() { ret; }
"""

@pytest.fixture(scope="module")
def kernel():
    cuda = ctypes.CDLL("libcuda.so.1")
    context, library, kernel = (ctypes.c_void_p() for _ in range(3))
    assert cuda.cuInit(0) == 0
    assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert cuda.cuCtxSetCurrent(context) == 0
    assert cuda.cuLibraryLoadData(ctypes.byref(library), PTX, None, None, 0, None, None, 0) == 0
    assert cuda.cuLibraryGetKernel(ctypes.byref(kernel), library, b"late") == 0
    return cuda, kernel

def launch(cuda, kernel):
    assert cuda.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, None, None, None) == 0

def test_first_launch(kernel):
    launch(*kernel)

def test_second_launch(kernel):
    launch(*kernel)
'''
# What pip reads of the installed package.
ABOUT = '''
import importlib.metadata as metadata
about = metadata.metadata("kernel-audit")
assert about.get_payload().startswith("# kernel-audit\\n"), about.get_payload()
licences = {file.name: file.read_text() for file in metadata.files("kernel-audit") if "licenses" in file.parts}
assert sorted(licences) == sorted(about.get_all("License-File")), licences.keys()
assert "\\n==== clap 4" in licences["LICENSES-OF-DEPENDENCIES"], licences.keys()
print(about["Version"])
'''
MODES = ["run", "merge", "watch", "bake", "pack", "demo"]
# What the package works with, and doesn't need.
OPTIONAL = ["pytest==8.4.2", "prometheus_client==0.26.0", "opentelemetry-api==1.41.1"]
# The seconds that the demonstration may take. Where programs are slow, as under an emulator, the variable has the factor.
MOMENT = 10 * int(os.environ.get("TESTS_PATIENCE", "1"))


def check_pytest(run, audit, pytest):
    alone = run(*pytest, expect=4).stderr
    assert alone.startswith("ERROR: --no-late-loads: ") and "kernel-audit python3 -m pytest --no-late-loads" in alone, alone
    first = run(*audit, "--record", "tests.preload", "--", *pytest, expect=1).stdout
    line = 1 + TESTS.splitlines().index("    assert cuda.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, None, None, None) == 0")
    # The audit knows the frames of Python from 3.11 on.
    caller = f"test_program.py:{line} launch" if sys.version_info >= (3, 11) else ".*"
    assert re.search(rf"^load of late in cuLaunchKernel took .* ms, called by {caller}$", first, re.MULTILINE), first
    assert "FAILED test_program.py::test_first_launch" in first and "1 failed, 1 passed" in first, first
    second = run(*audit, "--preload", "tests.preload", "--", *pytest).stdout
    assert "2 passed" in second, second


def check_action(run, venv, wheel):
    """Runs the commands of the GitHub Action, in the shell that GitHub runs them in."""
    text = (HERE.parents[1] / "examples/production/action.yml").read_text()
    install, test = re.findall(r"^    - run: (.*)$", text, re.MULTILINE)
    variables = {"PATH": f"{venv}/bin:/usr/bin:/bin", "PIP_NO_INDEX": "1", "PACKAGE": wheel}
    shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c"]
    assert set(re.findall(r"\$(\w+)", f"{install} {test}")) == {"PACKAGE", "TESTS"}, text
    run(*shell, install, **variables)
    late = run(*shell, test, TESTS="-p no:cacheprovider test_program.py", expect=1, **variables)
    assert "FAILED test_program.py::test_first_launch" in late.stdout, late.stdout
    page = venv.parent / "late-loads.html"
    assert "cuLaunchKernel" in page.read_text()
    (venv.parent / "test_nothing.py").write_text("def test_nothing(): pass")
    run(*shell, test, TESTS="-p no:cacheprovider test_nothing.py", **variables)


def main(wheel):
    folder = Path(tempfile.mkdtemp(prefix="wheel-"))
    # The environment has no Rust, no home of the user and no settings of this machine.
    clean = {"PATH": "/usr/bin:/bin", "HOME": str(folder / "home")}
    (folder / "home").mkdir()

    def run(*command, expect=0, **variables):
        done = subprocess.run(command, capture_output=True, text=True, env={**clean, **variables}, cwd=folder)
        assert done.returncode == expect, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done

    run(sys.executable, "-m", "venv", str(folder / "venv"))
    python, command = str(folder / "venv/bin/python3"), str(folder / "venv/bin/kernel-audit")
    run(python, "-m", "pip", "install", "--no-index", "--no-deps", wheel)
    run(python, "-m", "pip", "check")
    (folder / "program.py").write_text(PROGRAM)
    (folder / "without.py").write_text(WITHOUT)
    assert run(python, "without.py").stdout == "done\n"

    version = run(python, "-c", ABOUT).stdout
    for words in [command], [python, "-m", "kernel_audit"]:
        assert run(*words, "--version").stdout == f"kernel-audit {version}"
    for mode in [], *([mode] for mode in MODES):
        assert "cargo" not in run(command, *mode, "--help").stdout.lower(), mode

    begun = time.monotonic()
    shown = run(command, "demo").stdout
    took = time.monotonic() - begun
    assert "$ kernel-audit --sim " in shown and "nothing was loaded late" in shown, shown
    assert took < MOMENT, took

    first = run(command, "--sim", "--fail-on-findings", "--record", "late.preload", "--html", "page.html", "--json", "first.json", "--", python, "program.py", expect=12)
    assert first.stdout == "done\n", first.stderr
    assert "late" in (folder / "late.preload").read_text()
    assert "<html" in (folder / "page.html").read_text()
    second = run(python, "-m", "kernel_audit", "--sim", "--fail-on-findings", "--preload", "late.preload", "--json", "second.json", "--", python, "program.py", expect=12)
    reports = [json.loads((folder / name).read_text()) for name in ("first.json", "second.json")]
    late = [[event["kind"] for event in report["processes"][0]["events"] if event["finding"]] for report in reports]
    assert late == [["image", "load", "refused"], ["refused"]], late
    assert second.stdout == "done\n"
    assert (folder / "findings").read_text() == "image load refused\nrefused\n"

    # Unlike the tests, pip has the settings of this machine, such as those of a proxy.
    subprocess.run([python, "-m", "pip", "install", "--quiet", *OPTIONAL], check=True)
    pytest = [python, "-B", "-m", "pytest", "-p", "no:cacheprovider"]
    run(*pytest, str(HERE / "tests"))
    (folder / "test_program.py").write_text(TESTS)
    check_pytest(run, [command, "--sim"], [*pytest, "--no-late-loads", "test_program.py"])
    check_action(run, folder / "venv", wheel)
    print(f"{Path(wheel).name}: installed, demonstrated in {took:.1f} s, audited, recorded, preloaded and tested by Python {sys.version.split()[0]}")


if __name__ == "__main__":
    main(os.path.abspath(sys.argv[1]))

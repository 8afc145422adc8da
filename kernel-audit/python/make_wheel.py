"""Makes a wheel from the Python package and a folder that `kernel-audit pack` wrote. `cargo xtask wheel` calls this script.

    python3 make_wheel.py VERSION FOLDER ARCHITECTURE OUT LICENSES-OF-DEPENDENCIES

The same files give the same bytes. The wheel's tag names the newest glibc that a packed file needs, and at least 2.17: Rust's standard library
supports no older one.
"""

import base64
import hashlib
import re
import sys
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
NAME = "kernel_audit"
URL = "https://github.com/kernel-registry/kernel-registry"
PAGES = {
    "Homepage": "",
    "Documentation": "/blob/main/docs/audit.md",
    "Changelog": "/blob/main/CHANGELOG.md",
    "Issues": "/issues",
}
CLASSIFIERS = [
    "Development Status :: 4 - Beta",
    "Environment :: Console",
    "Environment :: GPU :: NVIDIA CUDA",
    "Framework :: Pytest",
    "Intended Audience :: Developers",
    "Operating System :: POSIX :: Linux",
    "Programming Language :: Python :: 3",
    "Programming Language :: Rust",
    "Topic :: Software Development :: Debuggers",
    "Typing :: Typed",
]
ENTRY_POINTS = """\
[console_scripts]
kernel-audit = kernel_audit.__main__:main

[pytest11]
kernel_audit = kernel_audit.pytest_plugin
"""


def glibc(files):
    """Returns the minor version of the newest glibc that these files need."""
    found = [re.findall(rb"\0GLIBC_2\.(\d+)(?=\0)", path.read_bytes()) for path in files]
    return max(17, *(int(minor) for minors in found for minor in minors))


def contents(version, folder):
    """Yields each file of the wheel: its name, its bytes, and whether it is a program."""
    for path in sorted((HERE / NAME).glob("*")):
        if path.is_file():
            yield f"{NAME}/{path.name}", path.read_bytes().replace(b"@VERSION@", version.encode()), False
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield f"{NAME}/bin/{path.relative_to(folder)}", path.read_bytes(), path.suffix == ""


def metadata(version, tag, dependencies):
    """Yields the files that describe the wheel. README.md is the page on PyPI."""
    about = f"{NAME}-{version}.dist-info"
    licences = [HERE.parent / "LICENSE-APACHE", HERE.parent / "LICENSE-MIT", dependencies]
    fields = [
        ("Metadata-Version", "2.4"),
        ("Name", "kernel-audit"),
        ("Version", version),
        ("Summary", "Why a CUDA program hangs, and what its first request loads late: watched in any program, and loaded at its start"),
        *(("Project-URL", f"{name}, {URL}{path}") for name, path in PAGES.items()),
        ("Keywords", "cuda,gpu,profiling,pytorch,deadlock,lazy-loading"),
        ("License-Expression", "MIT OR Apache-2.0"),
        *(("License-File", path.name) for path in licences),
        *(("Classifier", classifier) for classifier in CLASSIFIERS),
        ("Requires-Python", ">=3.9"),
        ("Description-Content-Type", "text/markdown"),
    ]
    text = "".join(f"{name}: {value}\n" for name, value in fields) + "\n" + (HERE / "README.md").read_text(encoding="utf-8")
    yield f"{about}/METADATA", text.encode()
    yield f"{about}/WHEEL", f"Wheel-Version: 1.0\nGenerator: kernel-registry\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    yield f"{about}/entry_points.txt", ENTRY_POINTS.encode()
    for path in licences:
        yield f"{about}/licenses/{path.name}", path.read_bytes()


def main(version, folder, architecture, out, dependencies):
    folder, out = Path(folder), Path(out)
    minor = glibc([path for path in folder.rglob("*") if path.is_file()])
    tag = f"py3-none-manylinux_2_{minor}_{architecture}"
    files = [*contents(version, folder), *((name, data, False) for name, data in metadata(version, tag, Path(dependencies)))]
    record = f"{NAME}-{version}.dist-info/RECORD"
    digest = lambda data: base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    lines = [f"{name},sha256={digest(data)},{len(data)}" for name, data, _ in files] + [f"{record},,", ""]
    files.append((record, "\n".join(lines).encode(), False))
    out.mkdir(parents=True, exist_ok=True)
    wheel = out / f"{NAME}-{version}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data, is_program in files:
            entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if is_program else 0o100644) << 16
            archive.writestr(entry, data)
    print(wheel)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Makes a wheel from the Python package and a folder that `kernel-audit pack` wrote. `cargo xtask wheel` calls this script.

    python3 make_wheel.py VERSION FOLDER ARCHITECTURE OUT

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


def metadata(version, tag):
    about = f"{NAME}-{version}.dist-info"
    text = f"""Metadata-Version: 2.1
Name: kernel-audit
Version: {version}
Summary: Audits the CUDA calls of any program: what loads late, what waits for what, what never returns; and preloads it
Home-page: https://github.com/kernel-registry/kernel-registry
License: MIT OR Apache-2.0
Requires-Python: >=3.9
Description-Content-Type: text/markdown

`kernel-audit -- python3 serve.py` runs a program with a library in front of the CUDA driver, and reports which kernels were
loaded late. `--record FILE` writes them down, and `--preload FILE` loads them at the start of the next run. It needs no
compiler, no CUDA toolkit and, with `--sim`, no GPU.
"""
    yield f"{about}/METADATA", text.encode()
    yield f"{about}/WHEEL", f"Wheel-Version: 1.0\nGenerator: kernel-registry\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    yield f"{about}/entry_points.txt", b"[console_scripts]\nkernel-audit = kernel_audit.__main__:main\n"


def main(version, folder, architecture, out):
    folder, out = Path(folder), Path(out)
    minor = glibc([path for path in folder.rglob("*") if path.is_file()])
    tag = f"py3-none-manylinux_2_{minor}_{architecture}"
    files = [*contents(version, folder), *((name, data, False) for name, data in metadata(version, tag))]
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

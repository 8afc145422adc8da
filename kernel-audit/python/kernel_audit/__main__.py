"""Runs the command that is packed with this package: `kernel-audit`, or `python3 -m kernel_audit`."""

from __future__ import annotations

import os
import sys


def main() -> None:
    command = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "kernel-audit")
    # The command names itself as its users do.
    os.execv(command, ["kernel-audit", *sys.argv[1:]])


if __name__ == "__main__":
    main()

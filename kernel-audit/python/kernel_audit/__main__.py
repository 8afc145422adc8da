"""Runs the command that is packed with this package: `kernel-audit`, or `python3 -m kernel_audit`."""

from __future__ import annotations

import os
import sys

_PACKAGE = os.path.dirname(os.path.abspath(__file__))


def _environment(arguments: list[str]) -> dict[str, str]:
    """Returns the environment of the command.

    `bake` compiles with nvJitLink, which is in the environment that this package is in, also if that isn't activated. Programs get the
    variables as they are.
    """
    environment = dict(os.environ)
    # PREFIX/lib/python3.12/site-packages/kernel_audit
    prefix = os.path.abspath(os.path.join(_PACKAGE, *[os.pardir] * 4))
    if arguments[:1] == ["bake"]:
        environment.setdefault("VIRTUAL_ENV", prefix)
    return environment


def main() -> None:
    # The command names itself as its users do.
    os.execve(os.path.join(_PACKAGE, "bin", "kernel-audit"), ["kernel-audit", *sys.argv[1:]], _environment(sys.argv[1:]))


if __name__ == "__main__":
    main()

"""Tests which variables the packed command gets."""

import os

from kernel_audit import __main__ as main


def test_only_bake_is_told_where_the_wheel_is(monkeypatch):
    monkeypatch.setattr(main, "_PACKAGE", "/opt/venv/lib/python3.12/site-packages/kernel_audit")
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    assert main._environment(["bake", "late.preload"])["VIRTUAL_ENV"] == "/opt/venv"
    assert main._environment(["--preload", "bake", "python3"]) == dict(os.environ)
    monkeypatch.setenv("VIRTUAL_ENV", "/other")
    assert main._environment(["bake"])["VIRTUAL_ENV"] == "/other"

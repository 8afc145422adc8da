"""Tests `rehearse` with modules in the places of the libraries."""

import sys
import types

import pytest

import kernel_audit


@pytest.fixture
def triton(monkeypatch):
    """A Triton whose key is computed once."""
    computed = []
    names = ["triton", "triton.runtime", "triton.runtime.cache", "triton.compiler", "triton.compiler.compiler"]
    names += ["triton.experimental", "triton.experimental.gluon", "triton.experimental.gluon.language"]
    for name in names:
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    sys.modules["triton.runtime.cache"].triton_key = lambda: computed.append("key")
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    return computed


def test_only_imported_libraries_are_rehearsed(monkeypatch):
    for name in ["triton", "torch"]:
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert kernel_audit.rehearse().wait() == []


def test_the_key_of_triton_is_computed(triton):
    steps = kernel_audit.rehearse().wait()
    assert triton == ["key"]
    assert [(step.library, step.error) for step in steps] == [("triton", None), ("triton", None)]
    assert all(step.seconds >= 0 for step in steps)


def test_an_older_triton_has_its_key_elsewhere(triton):
    del sys.modules["triton.runtime.cache"].triton_key
    sys.modules["triton.compiler.compiler"].triton_key = lambda: triton.append("older key")
    kernel_audit.rehearse().wait()
    assert triton == ["older key"]


def test_what_fails_is_returned_and_the_rest_is_done(triton):
    del sys.modules["triton.runtime.cache"].triton_key
    first, second = kernel_audit.rehearse().wait()
    assert "triton_key" in str(first.error) and second.error is None


def test_a_torch_without_a_gpu_is_left_alone(monkeypatch):
    torch = types.ModuleType("torch")
    torch.cuda = types.SimpleNamespace(is_available=lambda: False)
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.delitem(sys.modules, "triton", raising=False)
    (step,) = kernel_audit.rehearse().wait()
    assert (step.library, step.error) == ("torch", None)

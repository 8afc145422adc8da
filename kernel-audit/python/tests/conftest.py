import ctypes

import pytest

from kernel_audit import _audit

pytest_plugins = ["pytester"]


class FakeAudit:
    """Keeps events as `kernel_registry_audit_event` does."""

    def __init__(self):
        self.events = []

    def add(self, kind, *, kernel="late", image="", took=2_000_000, call="cuLaunchKernel", finding=True, caller="serve.py:42 forward"):
        texts = [kind, str(int(finding)), "1500000000", str(took), "7", call, kernel, image, caller, "serve.so"]
        self.events.append("".join(text + "\0" for text in texts).encode("latin-1"))

    def kernel_registry_audit_event(self, after, to, room, length):
        if after >= len(self.events):
            return 0
        data = self.events[after]
        length._obj.value = len(data)
        if len(data) <= room:
            ctypes.memmove(to, data, len(data))
        return after + 1


@pytest.fixture
def audit(monkeypatch):
    fake = FakeAudit()
    monkeypatch.setattr(_audit, "library", lambda: fake)
    return fake


@pytest.fixture(params=[None, object()], ids=["not audited", "older audit"])
def no_events(request, monkeypatch):
    monkeypatch.setattr(_audit, "library", lambda: request.param)
    return request.param

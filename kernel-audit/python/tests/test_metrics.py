import sys

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from kernel_audit import metrics

KINDS = ["compile", "image", "load", "refused", "resize"]


def add_events(audit):
    audit.add("load", finding=False)
    audit.add("load")
    audit.add("load", took=500_000_000)
    audit.add("compile", finding=False)
    audit.add("compile", took=1_000_000_000)
    audit.add("refused", took=0)
    audit.add("slow")
    audit.add("hang")


def test_prometheus_has_the_counters(audit):
    registry = CollectorRegistry()
    stop = metrics.prometheus(registry)
    add_events(audit)
    stop()
    value = registry.get_sample_value
    late = {kind: value("kernel_audit_late_loads_total", {"kind": kind}) for kind in KINDS}
    assert late == {"compile": 1, "image": 0, "load": 2, "refused": 1, "resize": 0}
    seconds = {kind: value("kernel_audit_late_load_seconds_total", {"kind": kind}) for kind in KINDS}
    assert seconds == pytest.approx({"compile": 1, "image": 0, "load": 0.502, "refused": 0, "resize": 0})
    assert value("kernel_audit_compilations_total") == 2
    assert value("kernel_audit_hangs_total") == 1


def test_counters_stay_0_without_events(no_events):
    registry = CollectorRegistry()
    metrics.prometheus(registry)()
    assert "kernel_audit_hangs_total 0.0" in generate_latest(registry).decode()
    assert registry.get_sample_value("kernel_audit_late_loads_total", {"kind": "load"}) == 0


class FakeMeter:
    """Sums what OpenTelemetry's counters are told."""

    def __init__(self):
        self.sums = {}

    def create_counter(self, name, unit="", description=""):
        meter = self

        class Counter:
            def add(self, amount, attributes=None):
                key = (name, unit, *(attributes or {}).values())
                meter.sums[key] = meter.sums.get(key, 0) + amount

        return Counter()


def test_opentelemetry_has_the_same_counters(audit):
    meter = FakeMeter()
    stop = metrics.opentelemetry(meter)
    add_events(audit)
    stop()
    counted = {key: total for key, total in meter.sums.items() if total}
    assert counted == pytest.approx({
        ("kernel_audit.late_loads", "{load}", "load"): 2,
        ("kernel_audit.late_loads", "{load}", "compile"): 1,
        ("kernel_audit.late_loads", "{load}", "refused"): 1,
        ("kernel_audit.late_load.time", "s", "load"): 0.502,
        ("kernel_audit.late_load.time", "s", "compile"): 1,
        ("kernel_audit.compilations", "{program}"): 2,
        ("kernel_audit.hangs", "{call}"): 1,
    })


def test_the_api_of_opentelemetry_takes_them(audit):
    stop = metrics.opentelemetry()
    audit.add("load")
    stop()


@pytest.mark.parametrize("module, package", [("prometheus_client", "prometheus_client"), ("opentelemetry.metrics", "opentelemetry-api")])
def test_a_missing_library_is_named_with_its_command(monkeypatch, module, package):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=f"pip install {package}"):
        getattr(metrics, module.split(".")[0].split("_")[0])()

"""Counters of what the audit sees, for dashboards and alarms.

| counter | counts |
|---|---|
| `kernel_audit_late_loads_total` | what was loaded, compiled or refused after the program was ready, by `kind` |
| `kernel_audit_late_load_seconds_total` | how long these took, by `kind` |
| `kernel_audit_compilations_total` | what NVRTC compiled, also before the program was ready |
| `kernel_audit_hangs_total` | calls of the driver that didn't return for long |

They count from the call of `prometheus` or `opentelemetry` on, which forked workers make themselves, and stay 0 if the program isn't audited.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable

from kernel_audit._events import LOADS, Event, on_event

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter
    from prometheus_client import CollectorRegistry

_LATE = "Kernels, images and programs that were loaded, compiled or refused after the program was ready"
_SECONDS = "Time spent on late loads"
_COMPILATIONS = "Programs that NVRTC compiled"
_HANGS = "Calls of the CUDA driver that did not return for long"


def _count(
    late: Callable[[float, str], object],
    seconds: Callable[[float, str], object],
    compilations: Callable[[float], object],
    hangs: Callable[[float], object],
) -> Callable[[], None]:
    # A series that begins with its first late load has no increase for an alarm to see.
    for kind in LOADS:
        late(0, kind)
        seconds(0, kind)
    compilations(0)
    hangs(0)

    def count(event: Event) -> None:
        if event.is_load and event.is_finding:
            late(1, event.kind)
            seconds(event.took, event.kind)
        if event.kind == "compile":
            compilations(1)
        if event.kind == "hang":
            hangs(1)

    return on_event(count)


def prometheus(registry: CollectorRegistry | None = None) -> Callable[[], None]:
    """Counts with prometheus_client, in its default registry if none is given. Returns a function that stops counting."""
    try:
        from prometheus_client import REGISTRY, Counter
    except ImportError as error:
        raise ImportError("`kernel_audit.metrics.prometheus` needs prometheus_client: run `pip install prometheus_client`") from error
    registry = REGISTRY if registry is None else registry
    late = Counter("kernel_audit_late_loads", _LATE, ["kind"], registry=registry)
    seconds = Counter("kernel_audit_late_load_seconds", _SECONDS, ["kind"], registry=registry)
    compilations = Counter("kernel_audit_compilations", _COMPILATIONS, registry=registry)
    hangs = Counter("kernel_audit_hangs", _HANGS, registry=registry)
    return _count(
        lambda amount, kind: late.labels(kind).inc(amount),
        lambda amount, kind: seconds.labels(kind).inc(amount),
        compilations.inc,
        hangs.inc,
    )


def opentelemetry(meter: Meter | None = None) -> Callable[[], None]:
    """Counts with OpenTelemetry, by the global meter provider if there's no meter. Returns a function that stops counting."""
    try:
        from opentelemetry.metrics import get_meter
    except ImportError as error:
        raise ImportError("`kernel_audit.metrics.opentelemetry` needs opentelemetry-api: run `pip install opentelemetry-api`") from error
    meter = get_meter("kernel_audit") if meter is None else meter
    late = meter.create_counter("kernel_audit.late_loads", "{load}", _LATE)
    seconds = meter.create_counter("kernel_audit.late_load.time", "s", _SECONDS)
    return _count(
        lambda amount, kind: late.add(amount, {"kind": kind}),
        lambda amount, kind: seconds.add(amount, {"kind": kind}),
        meter.create_counter("kernel_audit.compilations", "{program}", _COMPILATIONS).add,
        meter.create_counter("kernel_audit.hangs", "{call}", _HANGS).add,
    )

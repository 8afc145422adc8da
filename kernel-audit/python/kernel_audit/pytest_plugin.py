"""The pytest plugin: `--no-late-loads` for all tests, `@pytest.mark.no_late_loads(allow=N)` for one.

Only the test itself is checked, without fixtures.
"""

from __future__ import annotations

from typing import Any, Generator

import pytest

from kernel_audit._events import Event, on_event, why_unreadable
from kernel_audit._late import LateLoads

_MARKER = "no_late_loads"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kernel-audit")
    group.addoption("--no-late-loads", action="store_true", help="fail tests that load or compile CUDA kernels: for a run below `kernel-audit`")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"{_MARKER}(allow=0): fail the test if it loads or compiles more CUDA kernels than allowed")
    checks_all = config.getoption("no_late_loads")
    unreadable = why_unreadable("python3 -m pytest --no-late-loads") if checks_all else ""
    if unreadable:
        raise pytest.UsageError(f"--no-late-loads: {unreadable}")
    config.pluginmanager.register(_Checks(checks_all))


def _allowed(allow: int = 0) -> int:
    return allow


class _Checks:
    """The hooks of a run."""

    def __init__(self, checks_all: bool) -> None:
        self._checks_all = checks_all
        #: The late loads of the test that runs.
        self._late: LateLoads | None = None
        #: How many tests have the marker in a run without events.
        self._unchecked = 0

    def _limit(self, item: pytest.Item) -> int | None:
        """Returns how much the test may load, or None if it isn't checked."""
        marker = item.get_closest_marker(_MARKER)
        if marker is not None:
            return _allowed(*marker.args, **marker.kwargs)
        return 0 if self._checks_all else None

    # The last wrapper is the innermost: only the test itself runs in it.
    @pytest.hookimpl(hookwrapper=True, trylast=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, None]:
        limit, self._late = self._limit(item), None
        if limit is None:
            yield
            return
        if why_unreadable(""):
            self._unchecked += 1
            yield
            return
        events: list[Event] = []
        stop = on_event(events.append)
        outcome = yield
        stop()
        loads = [event for event in events if event.is_load]
        if len(loads) > limit:
            self._late = LateLoads(loads, limit)
            if outcome.excinfo is None:
                outcome.force_exception(pytest.fail.Exception(self._late.summary, pytrace=False))

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
        outcome = yield
        if call.when == "call" and self._late is not None:
            outcome.get_result().sections.append(("late loads", self._late.listing))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._unchecked:
            why = why_unreadable("python3 -m pytest")
            terminalreporter.write_line(f"{self._unchecked} tests with the marker {_MARKER} ran unchecked: {why}")

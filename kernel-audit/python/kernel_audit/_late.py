"""`no_late_loads`: a check that a block or a function loads nothing."""

from __future__ import annotations

import functools
import inspect
from typing import Any, Callable, Sequence, TypeVar, cast

from kernel_audit._events import Event, on_event, why_unreadable

F = TypeVar("F", bound=Callable[..., Any])


class LateLoads(AssertionError):
    """Something was loaded or compiled where nothing should be."""

    def __init__(self, events: Sequence[Event], allow: int = 0) -> None:
        super().__init__(events, allow)
        self.events = tuple(events)
        self.allow = allow

    @property
    def summary(self) -> str:
        """How many there are, and the first."""
        return f"{self._count()}: {self.events[0]}"

    @property
    def listing(self) -> str:
        """A line for each event, and the remedy."""
        remedy = "Remedy: record them with `kernel-audit --record late.preload`, and run with `kernel-audit --preload late.preload` from then on."
        return "\n".join([*map(str, self.events), remedy])

    def __str__(self) -> str:
        return f"{self._count()}:\n{self.listing}"

    def _count(self) -> str:
        count = len(self.events)
        return f"{count} late load{'s' if count > 1 else ''}, {self.allow or 'none'} allowed"


class no_late_loads:
    """Raises `LateLoads` if more than `allow` kernels or images are loaded in a block, by any thread, or NVRTC compiles programs there.

        with kernel_audit.no_late_loads():
            serve(request)

    It's also a decorator, for functions and for those with `async`. If the program isn't audited, nothing is checked, or with
    `required=True` an error says which command to run.
    """

    def __init__(self, *, allow: int = 0, required: bool = False) -> None:
        self._allow, self._required = allow, required

    def __enter__(self) -> None:
        unreadable = why_unreadable("python3 PROGRAM")
        if self._required and unreadable:
            raise RuntimeError(f"`no_late_loads` can't check anything: {unreadable}")
        self._events: list[Event] = []
        self._stop = on_event(self._events.append)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._stop()
        loads = [event for event in self._events if event.is_load]
        if error is None and len(loads) > self._allow:
            raise LateLoads(loads, self._allow)

    def __call__(self, function: F) -> F:
        def fresh() -> no_late_loads:
            return no_late_loads(allow=self._allow, required=self._required)

        @functools.wraps(function)
        def checked(*args: Any, **named: Any) -> Any:
            with fresh():
                return function(*args, **named)

        @functools.wraps(function)
        async def awaited(*args: Any, **named: Any) -> Any:
            with fresh():
                return await function(*args, **named)

        return cast(F, awaited if inspect.iscoroutinefunction(function) else checked)

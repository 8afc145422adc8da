import asyncio
import pickle

import pytest

from kernel_audit import LateLoads, no_late_loads


def test_loads_within_the_block_are_listed(audit):
    audit.add("load", kernel="before")
    with pytest.raises(LateLoads) as raised:
        with no_late_loads():
            audit.add("slow")
            audit.add("load", kernel="first")
            audit.add("image", kernel="", image="PTX of 90 bytes", call="cuModuleLoadData", took=12_345_678, finding=False)
    audit.add("load", kernel="after")
    assert [event.kernel or event.image for event in raised.value.events] == ["first", "PTX of 90 bytes"]
    lines = str(raised.value).splitlines()
    assert lines[:3] == [
        "2 late loads, none allowed:",
        "load of first in cuLaunchKernel took 2.000 ms, called by serve.py:42 forward",
        "image of PTX of 90 bytes in cuModuleLoadData took 12.346 ms, called by serve.py:42 forward",
    ]
    assert "--record" in lines[3] and len(lines) == 4
    assert isinstance(raised.value, AssertionError)
    copy = pickle.loads(pickle.dumps(raised.value))
    assert (str(copy), copy.events) == (str(raised.value), raised.value.events)


def test_a_block_may_load_what_is_allowed(audit):
    with no_late_loads(allow=1):
        audit.add("load")
    with pytest.raises(LateLoads, match="2 late loads, 1 allowed"):
        with no_late_loads(allow=1):
            audit.add("load")
            audit.add("load")


def test_the_exception_of_the_block_wins(audit):
    with pytest.raises(ValueError, match="the block's"):
        with no_late_loads():
            audit.add("load")
            raise ValueError("the block's")


def test_functions_can_be_checked(audit):
    @no_late_loads(allow=1)
    def load(count):
        """Loads."""
        for _ in range(count):
            audit.add("load")
        return count

    assert (load.__name__, load.__doc__) == ("load", "Loads.")
    assert [load(1), load(1)] == [1, 1]
    with pytest.raises(LateLoads):
        load(2)


def test_async_functions_are_checked_until_they_return(audit):
    @no_late_loads()
    async def load(count):
        await asyncio.sleep(0)
        for _ in range(count):
            audit.add("load")
        return count

    assert asyncio.run(load(0)) == 0
    with pytest.raises(LateLoads):
        asyncio.run(load(1))


def test_a_function_can_call_itself(audit):
    @no_late_loads()
    def load(depth):
        audit.add("load")
        if depth:
            with pytest.raises(LateLoads, match="1 late load,"):
                load(depth - 1)

    with pytest.raises(LateLoads, match="2 late loads"):
        load(1)


def test_without_events_a_block_passes_unless_they_are_required(no_events):
    with no_late_loads():
        pass
    expected = "run `kernel-audit python3 PROGRAM`" if no_events is None else "older than its Python package"
    with pytest.raises(RuntimeError, match=expected):
        with no_late_loads(required=True):
            pass

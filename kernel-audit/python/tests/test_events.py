import os
import threading
import time

import kernel_audit
from kernel_audit import Event, _events


def test_an_event_has_typed_fields_and_is_a_line(audit):
    audit.add("load", kernel="late", image="PTX of 90 bytes")
    ((number, event),) = _events.events(0)
    assert number == 1
    assert event == Event("load", True, 1.5, 0.002, 7, "cuLaunchKernel", "late", "PTX of 90 bytes", "serve.py:42 forward", "serve.so")
    assert str(event) == "load of late in cuLaunchKernel took 2.000 ms, called by serve.py:42 forward"
    audit.add("compile", kernel="", image="model.cu", call="nvrtcCompileProgram", caller="")
    ((_, event),) = _events.events(1)
    assert str(event) == "compile of model.cu in nvrtcCompileProgram took 2.000 ms, called by serve.so"


def test_long_texts_wrong_texts_and_further_texts_are_read(audit):
    audit.add("load", kernel="k" * 5000)
    audit.add("load", kernel="\xff")
    audit.events[-1] += b"new\0"
    assert [event.kernel for _, event in _events.events(0)] == ["k" * 5000, "\ufffd"]


def test_loads_are_what_would_have_taken_time(audit):
    for kind in ("load", "image", "resize", "compile", "refused", "slow", "hang", "kept", "preload", "deferred", "waits"):
        audit.add(kind)
    audit.add("refused", kernel="", call="cuMemFree_v2")
    assert [event.kind for _, event in _events.events(0) if event.is_load] == ["load", "image", "resize", "compile", "refused"]


def test_each_new_event_is_handed_over_once(audit):
    audit.add("load", kernel="before")
    got, has_come = [], threading.Event()
    stop = kernel_audit.on_event(lambda event: (got.append(event.kernel), has_come.set()))
    audit.add("load", kernel="first")
    assert has_come.wait(10)
    audit.add("load", kernel="second")
    stop()
    audit.add("load", kernel="after")
    time.sleep(2 * _events._INTERVAL)
    stop()
    assert got == ["first", "second"]


def test_a_callback_that_fails_is_called_again_and_printed_once(audit, capfd):
    got = []

    def fail(event):
        got.append(event.kernel)
        raise ValueError("the callback failed")

    stop = kernel_audit.on_event(fail)
    audit.add("load", kernel="first")
    audit.add("load", kernel="second")
    stop()
    assert got == ["first", "second"]
    assert capfd.readouterr().err.count("Traceback") == 1


def test_a_callback_can_stop_itself(audit):
    stopped = threading.Event()
    stop = kernel_audit.on_event(lambda _: (stop(), stopped.set()))
    audit.add("load")
    assert stopped.wait(10)
    stop()


def test_nothing_is_handed_over_without_events(no_events):
    stop = kernel_audit.on_event(lambda event: None)
    stop()
    assert list(_events.events(0)) == []
    assert "kernel-audit events" not in [thread.name for thread in threading.enumerate()]


def test_a_forked_child_registers_its_own_callback(audit):
    in_parent = []
    stop = kernel_audit.on_event(lambda event: in_parent.append(event.kernel))
    child = os.fork()
    if child == 0:
        result = 1
        try:
            stop()
            in_child = []
            stop_in_child = kernel_audit.on_event(lambda event: in_child.append(event.kernel))
            audit.add("load", kernel="child's")
            stop_in_child()
            result = 0 if in_child == ["child's"] and in_parent == [] else 2
        finally:
            os._exit(result)
    audit.add("load", kernel="parent's")
    stop()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert in_parent == ["parent's"]

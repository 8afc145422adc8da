import pytest

TESTS = """
import pytest
from kernel_audit import _audit

def load(count=1, **named):
    for _ in range(count):
        _audit.library().add("load", **named)

@pytest.fixture
def server():
    load(kernel="fixture's")
    yield
    load(kernel="fixture's")

def test_that_loads(server):
    load(kernel="late")

def test_that_only_has_a_fixture(server):
    pass

@pytest.mark.no_late_loads(allow=2)
def test_that_may_load():
    load(2)

@pytest.mark.no_late_loads(allow=2)
def test_that_loads_more():
    load(3)

def test_that_fails_itself():
    load()
    assert False, "its own reason"

@pytest.mark.no_late_loads(1)
@pytest.mark.xfail(strict=True)
def test_that_is_expected_to_load():
    load(2)
"""
TEXT = "load of late in cuLaunchKernel took 2.000 ms, called by serve.py:42 forward"


def test_the_option_checks_all_tests_without_their_fixtures(audit, pytester, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    pytester.makepyfile(TESTS)
    result = pytester.runpytest_inprocess("--no-late-loads", "--strict-markers", "-rA")
    result.assert_outcomes(passed=2, failed=3, xfailed=1)
    result.stdout.fnmatch_lines([
        "1 late load, none allowed: " + TEXT,
        "*- late loads -*",
        TEXT,
        "Remedy: *--record late.preload*",
        "3 late loads, 2 allowed: *",
        "*own reason*",
        "*- late loads -*",
        "FAILED *::test_that_loads - Failed: 1 late load, none allowed: load of late *",
    ])
    result.stdout.no_fnmatch_line("*fixture's*in*took*")


def test_without_the_option_markers_check_their_tests(audit, pytester):
    pytester.makepyfile(TESTS)
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(passed=3, failed=2, xfailed=1)
    result.stdout.fnmatch_lines(["3 late loads, 2 allowed: *"])


def test_a_wrong_marker_is_an_error_of_its_test(audit, pytester):
    pytester.makepyfile("import pytest\n@pytest.mark.no_late_loads(most=1)\ndef test_that_passes(): pass")
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*TypeError*unexpected keyword argument 'most'*"])


def test_the_option_without_events_is_an_error_of_usage(no_events, pytester):
    pytester.makepyfile("def test_that_passes(): pass")
    result = pytester.runpytest_inprocess("--no-late-loads")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    expected = "run `kernel-audit python3 -m pytest --no-late-loads`" if no_events is None else "older than its Python package"
    result.stderr.fnmatch_lines([f"ERROR: --no-late-loads: *{expected}*"])


def test_markers_without_events_are_counted(no_events, pytester):
    pytester.makepyfile("import pytest\n@pytest.mark.no_late_loads\ndef test_that_passes(): pass")
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["1 tests with the marker no_late_loads ran unchecked: *"])

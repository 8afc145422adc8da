//! Tests that the first call to return a sticky error is reported once, with the last launches.

use serde_json::Value;

use crate::{audit, events, python, text};

const FAILS: &str = r"
PTX = b'''.version 8.0
.target sm_75
.address_size 64
.visible .entry fine(.param .u64 out) { ret; }
.visible .entry fails(.param .u64 out) { trap; }
'''
library = ctypes.c_void_p()
assert cuda.cuLibraryLoadData(ctypes.byref(library), PTX, None, None, 0, None, None, 0) == 0
assert launch(library, b'fine') == 0 and cuda.cuStreamSynchronize(None) == 0
assert launch(library, b'fails') == 0
cuda.kernel_registry_audit_ready()
results = [CALL for _ in range(3)]
assert results == [719] * 3, results
assert cuda.cuCtxSynchronize() == 719
";

fn fault(call: &str) -> (String, Value) {
    let (output, report) = audit(&[], &["python3", "-c", &python(&FAILS.replace("CALL", call))]);
    let said = text(&output.stderr).to_owned();
    assert!(output.status.success(), "a fault is no finding: {said}");
    let faults = events(&report, "fault");
    assert_eq!(faults.len(), 1, "{said}");
    (said, faults[0].clone())
}

#[test]
fn the_first_call_that_fails_by_a_fault_is_named_once() {
    needs_python!();
    for (call, name) in [
        ("cuda.cuStreamSynchronize(None)", "cuStreamSynchronize"),
        ("cuda.cuCtxSynchronize()", "cuCtxSynchronize"),
        (
            "cuda.cuMemcpyDtoH_v2(ctypes.byref(ctypes.c_uint64()), ctypes.c_uint64(64), ctypes.c_size_t(8))",
            "cuMemcpyDtoH_v2",
        ),
        // `cuStreamQuery` isn't watched. The kernel of the next launch was launched before.
        (
            "([0 for _ in iter(lambda: cuda.cuStreamQuery(None), 719)], launch(library, b'fine'))[1]",
            "cuLaunchKernel",
        ),
    ] {
        let (said, fault) = fault(call);
        assert_eq!(said.matches("kernel-audit: FAULT: ").count(), 1, "{said}");
        let live = format!(
            "kernel-audit: FAULT: a kernel failed (result 719), first returned by `{name}` in <string>:"
        );
        assert!(said.contains(&live), "{said}");
        assert_eq!((&fault["result"], &fault["call"]), (&719.into(), &name.into()));
        let last = fault["explanation"]["busy"].as_array().expect("a list");
        assert_eq!(last.len(), 1, "{fault}");
        let beside = if name == "cuLaunchKernel" {
            "what was launched before in its own stream 0x0"
        } else {
            assert_eq!(last[0]["what"]["symbol"], "fails");
            "`fails` was launched last in stream 0x0 by thread"
        };
        let report = said.split_once("\n! FAULT at ").expect("a report").1;
        let words: Vec<_> = report.split_whitespace().collect();
        let words = words.join(" ");
        for part in [
            &format!("`{name}`, the first watched call that returned the error beside {beside}"),
            "why a kernel failed (result 719); it may be an earlier kernel than these; all later calls fail",
        ] {
            assert!(words.contains(part), "{part}: {words}");
        }
    }
}

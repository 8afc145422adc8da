//! Tests that the report has the devices that a process used.

use serde_json::{Value, json};
use tests::are_documented;

use super::{PYTHON, simulated, text};

#[test]
fn devices_are_those_with_a_context() {
    needs_python!();
    let second = "
context = ctypes.c_void_p()
for _ in range(2):
    assert cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 2) == 0
";
    let mut command = simulated();
    command.env("KERNEL_REGISTRY_SIM_DEVICES", "3").args(["--quiet", "--json", "-", "--", "python3", "-c"]);
    let output = command.arg(format!("{PYTHON}{second}")).output().expect("the tool runs");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report: Value = serde_json::from_str(text(&output.stdout)).expect("JSON");
    let devices = &report["processes"][0]["devices"];
    let device = |ordinal: u32| json!({ "ordinal": ordinal, "compute_capability": "9.0", "name": "simulated NVIDIA H200" });
    assert_eq!(*devices, json!([device(0), device(2)]));
    are_documented(&[&devices[0]], include_str!("../../../docs/audit-json.md"));
}

//! Tests of damaged and absurd PTX texts. Loading such a text fails or succeeds, but never panics, and never
//! takes as much memory as the text asks for.

use std::sync::Arc;

use crate::common::{Device, launch, run};
use kernel_registry_ptx::{Grid, LaunchError, LaunchParameters, Module, Program};

#[test]
fn samples_with_a_piece_missing_cause_no_panic() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../kernels/prebuilt");
    let mut refused = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "ptx") {
            continue;
        }
        let text = std::fs::read_to_string(path).unwrap();
        for start in (0..text.len() - 8).step_by(97) {
            let cut = format!("{}{}", &text[..start], &text[start + 1 + start % 7..]);
            refused += u32::from(is_refused(&cut)) + u32::from(is_refused(&text[..start]));
        }
    }
    assert!(refused > 500, "{refused}");
}

fn is_refused(text: &str) -> bool {
    Program::load(text)
        .map_or(true, |program| program.kernels().any(|kernel| program.lacking(kernel).is_some()))
}

/// Returns the text of a module with one kernel, with declarations outside and inside the kernel.
fn declaring(outside: &str, inside: &str) -> String {
    format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n{outside}\n.visible .entry k() {{ .reg .b32 %r<3>; .reg .b64 %rd<3>;\n\
         {inside} ret; }}"
    )
}

#[test]
fn absurd_sizes_are_refused() {
    let huge = u64::MAX;
    for (outside, inside) in [
        (".shared .b8 x[49153];", "mov.u64 %rd1, x;"),
        ("", ".shared .align 8 .b8 x[400000]; mov.u64 %rd1, x;"),
        (".const .b8 x[65537];", ""),
        (".const .b8 x[65000]; .const .b8 y[65000];", ""),
        (".entry other(.param .b8 x[4353]) { ret; }", ""),
        (&format!(".global .b8 x[{huge}];"), ""),
        (&format!(".global .b64 x[{huge}];"), ""),
        (".global .b8 x[1000000000][1000000000][1000000000];", ""),
        (&format!(".global .align {huge} .b8 x;"), ""),
        (".global .align 3 .b8 x;", ""),
        (&format!(".shared .b8 x[{huge}];"), "mov.u64 %rd1, x;"),
        ("", &format!(".local .b8 x[{huge}]; mov.u64 %rd1, x;")),
        (".global .b8 x[2] = {1, 2, 3};", ""),
    ] {
        let text = declaring(outside, inside);
        assert!(Program::load(&text).is_err(), "{text}");
    }
    for text in ["(", "[", "{", "-", "%r1|"]
        .map(|piece| declaring("", &format!("add.u32 {};", piece.repeat(100_000))))
    {
        assert!(Program::load(&text).is_err());
    }
    let deep = declaring(&format!(".global .u32 x = {};", "{".repeat(100_000)), "");
    assert!(Program::load(&deep).is_err());
}

#[test]
fn unused_declarations_cost_nothing() {
    let device = Device::default();
    let text = declaring(
        ".global .b8 x[1000000000000];",
        ".reg .b32 %q<4000000000>; .reg .b64 %z<18446744073709551615>; mov.u32 %q3999999999, 1; mov.u64 %z7, 2;",
    );
    let program = Arc::new(Program::load(&text).unwrap());
    assert_eq!(program.variables()[0].size(), 1_000_000_000_000);
    let module = Arc::new(Module::new(program, vec![0]));
    assert_eq!(module.initial(0), []);
    run(&device, &module, "k", launch(1, 32, vec![])).unwrap();
}

#[test]
fn absurd_launches_are_refused() {
    let device = Device::default();
    let refused = |text: &str, launch: LaunchParameters| {
        let module = device.load(text).unwrap();
        let error = Grid::new(&module, "k", launch).err().expect(text);
        assert!(matches!(error, LaunchError::Memory { .. }), "{error}");
    };
    let local = ".local .align 4 .b8 x[900000000]; mov.u64 %rd1, x; st.local.u32 [%rd1], 1;";
    refused(&declaring("", local), launch(1, 32, vec![]));
    let shared = LaunchParameters { dynamic_shared: u32::MAX, ..launch(1, 32, vec![]) };
    refused(&declaring("", ""), shared);
    let recursive = declaring(".func f(); .func f() { call f; ret; }", "call f;");
    refused(&recursive, LaunchParameters { stack: u64::MAX >> 1, ..launch(1, 32, vec![]) });
    let module = device.load(&declaring("", "")).unwrap();
    let grid = LaunchParameters { grid: [u32::MAX; 3], block: [u32::MAX; 3], ..launch(1, 1, vec![]) };
    assert!(Grid::new(&module, "k", grid).is_err());
}

/// Checks that loading does not recurse once for each function of a long chain of calls.
#[test]
fn long_chains_of_calls_do_not_exhaust_the_stack() {
    let functions: String = (0..20_000)
        .map(|i| {
            format!(
                ".func f{i}() {{ {} ret; }}\n",
                if i > 0 { format!("call f{};", i - 1) } else { String::new() }
            )
        })
        .collect();
    assert!(Program::load(&declaring(&functions, "call f19999;")).is_ok());
}

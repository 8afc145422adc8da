//! Compares the estimated register counts with what an H200's driver reported for the sample kernels
//! (580.159, `cargo run -p tests --bin hardware`).

use std::fs;
use std::path::Path;

use kernel_registry_ptx::Program;

/// The file, a part of the symbol, and the number of registers on sm_90.
const SAMPLES: [(&str, &str, u32); 26] = [
    ("blas1", "daxpy", 14),
    ("blas1", "ddot", 18),
    ("blas1", "dnrm2", 18),
    ("blas1", "dscal", 10),
    ("blas1", "saxpy", 12),
    ("blas1", "sdot", 16),
    ("blas1", "snrm2", 16),
    ("blas1", "sscal", 10),
    ("diagnose", "check_finite", 24),
    ("diagnose", "report_nan", 24),
    ("diagnose", "row_medians", 24),
    ("half", "haxpy", 10),
    ("shared", "histogram", 14),
    ("cluster", "pair_sum", 18),
    ("frame", "shuffle", 17),
    ("particles", "advance", 18),
    ("reduce", "IfLj128E", 18),
    ("reduce", "IfLj256E", 18),
    ("reduce", "IdLj256E", 20),
    ("transpose", "IfLj32E", 24),
    ("transpose", "IdLj16E", 26),
    ("spin", "set_flag", 8),
    ("cooperative", "smooth", 25),
    ("spin", "spin_until_flag", 16),
    ("spin", "touch", 8),
    ("worker", "worker", 28),
];

#[test]
fn estimates_are_near_the_numbers_of_the_driver() {
    let mut far = Vec::new();
    for (file, part, right) in SAMPLES {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../kernels/prebuilt/cuda__{file}.cu.ptx"));
        let program = Program::load(&fs::read_to_string(path).unwrap()).unwrap();
        let name = program.kernels().find(|name| name.contains(part)).unwrap();
        let estimate = program.registers(name).unwrap();
        println!("{file} {part}: {estimate}, and {right} on an H200");
        if estimate > 2 * right || right > 2 * estimate {
            far.push((file, part, estimate, right));
        }
    }
    assert!(far.is_empty(), "{far:?}");
}

fn registers(body: &str) -> u32 {
    let text = format!(".version 8.0 .target sm_75 .address_size 64 .shared .align 8 .b8 v[8]; {body}");
    Program::load(&text).unwrap().registers("k").unwrap()
}

#[test]
fn values_need_registers_until_they_are_last_read() {
    let sum = |count: u32, kind: &str| {
        let reads: String = (0..count).map(|i| format!("ld.param.{kind} %a{i}, [p];\n")).collect();
        let adds: String = (1..count).map(|i| format!("add.{kind} %a0, %a0, %a{i};\n")).collect();
        registers(&format!(
            ".visible .entry k(.param .{kind} p) .maxntid 128 {{ .reg .{kind} %a<{count}>; {reads} {adds} st.shared.{kind} [v], %a0; ret; }}"
        ))
    };
    let (few, many) = (sum(8, "u32"), sum(40, "u32"));
    assert_eq!(many - few, 32);
    assert_eq!(sum(40, "u64") - sum(8, "u64"), 64);
    // Values that are live one after the other share a register.
    let loads = "ld.param.u32 %a, [p]; st.shared.u32 [v], %a; ".repeat(50);
    assert_eq!(registers(&format!(".visible .entry k(.param .u32 p) {{ .reg .u32 %a; {loads} ret; }}")), 8);
}

#[test]
fn a_value_is_live_around_a_loop_and_in_a_call() {
    let values: String = (0..32).map(|i| format!("ld.param.u32 %a{i}, [p];\n")).collect();
    let uses: String = (0..32).map(|i| format!("st.shared.u32 [v], %a{i};\n")).collect();
    let around = format!(
        ".visible .entry k(.param .u32 p) {{ .reg .u32 %a<32>; .reg .u32 %i; .reg .pred %p; {values} mov.u32 %i, 0; \
         L: add.u32 %i, %i, 1; setp.lt.u32 %p, %i, 10; @%p bra L; {uses} ret; }}"
    );
    assert!((32..=48).contains(&registers(&around)), "{}", registers(&around));
    let called = format!(
        ".func f(.param .u32 p) {{ .reg .u32 %a<32>; {values} {uses} ret; }} \
         .visible .entry k(.param .u32 p) {{ .param .u32 q; call f, (q); ret; }}"
    );
    assert!((32..=48).contains(&registers(&called)), "{}", registers(&called));
}

#[test]
fn the_estimate_never_exceeds_what_a_block_can_have() {
    let values: String = (0..200).map(|i| format!("ld.param.u64 %a{i}, [p];\n")).collect();
    let uses: String = (0..200).map(|i| format!("st.shared.u64 [v], %a{i};\n")).collect();
    let kernel = |bounds: &str| {
        registers(&format!(
            ".visible .entry k(.param .u64 p) {bounds} {{ .reg .u64 %a<200>; {values} {uses} ret; }}"
        ))
    };
    assert_eq!(kernel(""), 64);
    assert_eq!(kernel(".maxntid 1024"), 64);
    assert_eq!(kernel(".maxntid 256"), 255);
}

//! Tests `cargo kernels fit`, which tells which kernels fit beside a resident kernel.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tests::{are_documented, cargo_kernels, fails};

const DOCUMENTATION: &str = include_str!("../../docs/fit-json.md");
const REDUCE: &str = "reduce<float, 256u>";

fn image(name: &str) -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    workspace.join("kernel-registry-image/tests/images").join(name)
}

/// Runs `fit` with `worker` as the resident kernel, and images with machine code for sm_90.
fn fit(args: &[&str]) -> Output {
    let files = [image("worker.sm_90.cubin"), image("reduce.sm_90.cubin")];
    let command = ["fit", "worker"].map(OsStr::new).into_iter();
    cargo_kernels(command.chain(files.iter().map(|file| file.as_os_str())).chain(args.iter().map(OsStr::new)))
}

/// Runs `fit`, which ends with this code, and returns its standard output.
fn text(args: &[&str], code: i32) -> String {
    let output = fit(args);
    assert_eq!(output.status.code(), Some(code), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_small_worker_leaves_room() {
    let beside = format!("{REDUCE}@256");
    let expected = "\
worker is resident on sm_90, 132 multiprocessors (H100 SXM, H200)
    132 blocks of 256 threads, 20 registers, 32+0 B of shared memory
    room for 1056 blocks, 8 on each, limited by threads; 1 on each multiprocessor

    BESIDE IT            BLOCK  REGISTERS  SHARED   ON EACH  AT ONCE  LIMIT
    reduce<float, 256u>  256    18         128+0 B  7        924      threads

    A multiprocessor with 1 of its blocks (#):
    threads        #####................................... 256 of 2048
    blocks         ##...................................... 1 of 32
    registers      ####.................................... 6144 of 65536
    shared memory  #....................................... 1152 of 233472
";
    assert_eq!(
        text(&["--grid", "132", "--block", "256", "--carveout", "100", "--beside", &beside], 0),
        expected
    );
}

#[test]
fn a_kernel_that_does_not_fit_is_refused_with_numbers_and_a_remedy() {
    let args = ["--grid", "132", "--block", "256", "--beside"];
    let out = text(&[&args[..], &["reduce<double, 256u>@256+65536"]].concat(), 14);
    let refusal = "refused: `reduce<double, 256u>` does not fit beside `worker` on sm_90: the driver wants a carve-out of 200704 \
                   bytes for it, and the multiprocessor keeps one of 16384";
    assert!(out.contains(refusal), "{out}");
    assert!(out.contains("launch `worker` with a preferred carve-out of 100"), "{out}");

    let out = text(&["--grid", "1057", "--block", "256"], 14);
    assert!(out.starts_with("worker cannot be resident on sm_90, 132 multiprocessors"), "{out}");
    let refusal = "refused: `worker` does not fit on sm_90: 1056 of its 1057 blocks run at once, limited by threads, and the \
                   others start when these end; use 1056 blocks at most";
    assert!(out.contains(refusal), "{out}");
    let message = fails(fit(&["--grid", "1057", "--block", "256", "--json"]), 14);
    assert_eq!(message, "1 refusal above, with what would help");
}

#[test]
fn a_smaller_gpu_is_as_large_as_it_is_said_to_be() {
    let out = text(&["--grid", "64", "--block", "1024", "--sms", "16"], 14);
    assert!(out.contains("sm_90, 16 multiprocessors\n") && out.contains("room for 32 blocks"), "{out}");
}

#[test]
fn json_is_documented() {
    let beside = format!("{REDUCE}@256,reduce<double, 256u>@256+65536");
    let args = ["--grid", "200", "--block", "256", "--beside", &beside, "--gpu", "sm_90", "--json"];
    let document: Value = serde_json::from_str(&text(&args, 14)).unwrap();
    let gpu = &document["gpus"][0];
    let (resident, processor) = (&gpu["resident"], &gpu["multiprocessor"]);
    are_documented(
        &[&document, gpu, resident, processor, &processor["threads"], &gpu["beside"][0]],
        DOCUMENTATION,
    );
    assert_eq!((&resident["at_once"], &resident["fuller_multiprocessors"]), (&1056.into(), &68.into()));
    assert_eq!(processor["carveout_bytes"], 16384);
    assert_eq!(gpu["beside"][0]["fits"], true);
    assert_eq!(gpu["beside"][1]["limit"], "carveout");
    assert_eq!(gpu["refusals"].as_array().unwrap().len(), 1);
}

#[test]
fn mistakes_are_named() {
    let with = |args: &[&str], code| fails(fit(args), code);
    let grid = ["--grid", "132", "--block", "256"];
    let beside = |name| [&grid[..], &["--beside", name]].concat();
    assert_eq!(
        with(&beside("redace@256"), 7),
        "no kernel `redace`: did you mean `reduce<float, 128u>` or `reduce<float, 256u>`?"
    );
    let message = with(&beside("reduce@256"), 7);
    assert!(message.starts_with("several kernels are called `reduce`: choose one of `reduce<"), "{message}");
    let message = with(&[&grid[..], &["--gpu", "sm_80"]].concat(), 7);
    assert!(message.starts_with("`worker` has no machine code for sm_80, but sm_90: PTX"), "{message}");
    assert!(with(&["--grid", "132"], 2).contains("`--block 256`"));
    let message = with(&["--grid", "132", "--block", "1056"], 14);
    assert_eq!(
        message,
        "`worker` cannot run on sm_90: a block of 1056 threads is too large; use 1024 at most"
    );
    let message = with(&beside("reduce<float, 128u>@256"), 14);
    assert!(
        message.ends_with("a block of 256 threads is too large for its launch bounds; use 128 at most"),
        "{message}"
    );
    let pcie = text(&["--grid", "132", "--block", "256", "--gpu", "H100 PCIe"], 0);
    assert!(pcie.starts_with("worker is resident on sm_90, 114 multiprocessors (H100 PCIe)\n"), "{pcie}");
    let output = fit(&[&grid[..], &["--gpu", "sm_70"]].concat());
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn the_simulated_device_agrees() {
    let mut fits = Command::new(env!("CARGO_BIN_EXE_fits"));
    let output = fits
        .args(["--pairs", "12", "--seed", "5", "--json"])
        .env("KERNEL_REGISTRY_SIM", "1")
        .output()
        .unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(output.status.success(), "{report:#}");
    let beside = &report["beside"];
    assert!(beside["fits"].as_u64() > Some(2) && beside["does_not_fit"].as_u64() > Some(2), "{beside}");
}

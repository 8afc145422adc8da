//! `cargo kernels bake`: what the PTX of a binary becomes, and what other commands say of it.
#![cfg(target_os = "linux")]

use std::env;
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Output;

use kernel_registry_command::bake::{self, Entry};
use kernel_registry_command::compiler::Options;
use kernel_registry_format::baked;
use serde_json::Value;
use tests::{Build, cargo_kernels, cargo_kernels_command, copied, fails, left_out, scratch_folder};

const PTX: &str = include_str!("../../kernels/prebuilt/cuda__blas1.cu.ptx");
/// What ptxas makes of that.
const CUBIN: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../kernel-registry-image/tests/images/blas1.sm_90.cubin");

/// A program without records that has PTX, as one with candle has.
fn program(folder: &Path) -> PathBuf {
    let path = folder.join("program");
    let mut bytes = fs::read("/bin/true").unwrap();
    bytes.extend(format!("\0{PTX}\0 and more").as_bytes());
    fs::write(&path, bytes).unwrap();
    path
}

/// A toolkit whose ptxas copies that cubin, whatever it is asked for.
fn toolkit(folder: &Path, version: &str) -> PathBuf {
    let toolkit = folder.join(version);
    fs::create_dir_all(toolkit.join("bin")).unwrap();
    let script = format!(
        "#!/bin/sh\nif [ \"$1\" = --version ]; then echo 'Cuda compilation tools, release 13.0, V{version}'; exit; fi\n\
         cp '{CUBIN}' a.cubin\n"
    );
    let ptxas = toolkit.join("bin/ptxas");
    fs::write(&ptxas, script).unwrap();
    fs::set_permissions(&ptxas, Permissions::from_mode(0o755)).unwrap();
    toolkit
}

fn bake(program: &Path, toolkit: &Path, args: &[&str]) -> Output {
    let args = args.iter().map(OsStr::new);
    let mut command = cargo_kernels_command();
    command.arg("bake").arg(program).args(args).env("CUDA_HOME", toolkit).env("TERM", "dumb");
    command.output().unwrap()
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn only_what_is_missing_is_compiled() {
    let folder = scratch_folder();
    let (program, first) = (program(&folder), toolkit(&folder, "13.0.88"));
    let file = folder.join("program.baked");
    let printed = text(&bake(&program, &first, &["--arch", "sm_90"]));
    assert!(printed.starts_with("IMAGE "), "{printed}");
    let place = fs::read("/bin/true").unwrap().len() + 1;
    assert!(printed.contains(&format!("\nPTX at {place:#x}  8 ")), "{printed}");
    assert!(
        printed.ends_with("1 piece of machine code, 26 KiB, 1 compiled now by ptxas 13.0.88\n"),
        "{printed}"
    );
    let key = bake::key(baked::text(PTX.as_bytes()), Options::default());
    let entry = Entry {
        key,
        arch: "sm_90".to_owned(),
        compiler: "ptxas 13.0.88".to_owned(),
        code: fs::read(CUBIN).unwrap(),
    };
    assert_eq!(bake::read(&file).unwrap(), [entry]);

    let printed = text(&bake(&program, &first, &["--arch", "sm_90"]));
    assert!(printed.contains(", there\n") && printed.contains(", 0 compiled now"), "{printed}");
    let printed = text(&bake(&program, &toolkit(&folder, "13.0.99"), &["--arch", "sm_90"]));
    assert!(
        printed.ends_with("1 piece of machine code, 26 KiB, 1 compiled now by ptxas 13.0.99\n"),
        "{printed}"
    );

    // A file that is damaged is written again.
    fs::write(&file, "no such file").unwrap();
    let output = bake(&program, &first, &["--arch", "sm_90"]);
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("warning: `"), "{output:?}");
    assert!(text(&output).contains(", 1 compiled now"));
    let other = folder.join("other");
    text(&bake(&program, &first, &["--arch", "sm_90", "--output", other.to_str().unwrap()]));
    assert_eq!(fs::read(&file).unwrap(), fs::read(&other).unwrap());
}

#[test]
fn nothing_is_baked_where_or_from_what_others_may_write() {
    let folder = scratch_folder();
    let (program, toolkit) = (program(&folder), toolkit(&folder, "13.0.88"));
    let file = folder.join("program.baked");
    text(&bake(&program, &toolkit, &["--arch", "sm_90"]));
    fs::set_permissions(&file, Permissions::from_mode(0o666)).unwrap();
    let output = bake(&program, &toolkit, &["--arch", "sm_90"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("others may write it"), "{output:?}");
    assert!(text(&output).contains(", 1 compiled now"));
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o644);
    fs::remove_file(&file).unwrap();
    fs::set_permissions(&folder, Permissions::from_mode(0o777)).unwrap();
    let said = fails(bake(&program, &toolkit, &["--arch", "sm_90"]), 1);
    assert!(said.contains("others may write it") && !file.exists(), "{said}");
}

#[test]
fn what_is_not_compiled_is_said() {
    let folder = scratch_folder();
    let (program, toolkit) = (program(&folder), toolkit(&folder, "13.0.88"));
    let output = bake(&program, &toolkit, &["--arch", "sm_80", "--arch", "sm_70"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.starts_with("warning: PTX at 0x") && said.contains("its output is for sm_90"), "{said}");
    assert!(text(&output).contains(" not for it  FAILED\n"), "{output:?}");
    assert_eq!(
        fails(bake(Path::new("/bin/true"), &toolkit, &["--arch", "sm_90"]), 7),
        "`/bin/true` has no PTX that a driver would compile"
    );
    assert_eq!(bake(&program, &toolkit, &["--arch", "90"]).status.code(), Some(2));
    let broken = folder.join("broken");
    fs::create_dir_all(broken.join("bin")).unwrap();
    fs::write(broken.join("bin/ptxas"), "").unwrap();
    let message = fails(bake(&program, &broken, &["--arch", "sm_90"]), 9);
    assert!(
        message.starts_with("nothing can be compiled: `") && message.contains("set `CUDA_HOME`"),
        "{message}"
    );
}

#[test]
fn nothing_to_compile_needs_no_compiler_and_writes_no_file() {
    let folder = scratch_folder();
    let program = program(&folder);
    // The PTX is for sm_75 and newer.
    let output = bake(&program, &folder.join("no toolkit"), &["--arch", "sm_50"]);
    let printed = text(&output);
    assert!(printed.starts_with("there is nothing to compile for sm_50: "), "{printed}");
    assert!(!folder.join("program.baked").exists());
}

/// With a real ptxas, and declared kernels.
#[test]
fn a_program_with_baked_code_needs_no_compiler() {
    let Some(toolkit) = env::var_os("CUDA_HOME").filter(|home| Path::new(home).join("bin/ptxas").is_file())
    else {
        return left_out("`CUDA_HOME` has no ptxas", "REQUIRE_CUDA");
    };
    let program = copied(&Build::default().executable("checked"), &scratch_folder());
    let check = |args: &[&str]| {
        cargo_kernels(["check".as_ref(), program.as_os_str()].into_iter().chain(args.iter().map(OsStr::new)))
    };
    let denied = fails(check(&["--deny", "jit"]), 10);
    assert!(denied.starts_with("declarations and images disagree: "), "{denied}");
    text(&bake(&program, Path::new(&toolkit), &["--arch", "sm_90"]));
    text(&check(&["--deny", "jit"]));
    text(&check(&["--deny", "jit", "--arch", "sm_90"]));
    let output = check(&["--deny", "jit", "--arch", "sm_90", "--arch", "sm_75", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = report["findings"].as_array().unwrap().iter().filter(|finding| finding["what"] == "jit");
    let messages: Vec<_> = findings.map(|finding| finding["message"].as_str().unwrap()).collect();
    assert!(
        !messages.is_empty() && messages.iter().all(|message| message.contains(" for sm_75, so ")),
        "{messages:?}"
    );
    // Another file than the one beside the binary.
    let empty = program.with_file_name("empty");
    bake::write(&empty, &[]).unwrap();
    assert_eq!(check(&["--deny", "jit", "--baked", empty.to_str().unwrap()]).status.code(), Some(10));
    let listed = text(&cargo_kernels(["list".as_ref(), program.as_os_str()]));
    assert!(listed.contains("images/narrow.ptx (baked for sm_90)"), "{listed}");
    let shown = text(&cargo_kernels(["show".as_ref(), "--all".as_ref(), program.as_os_str()]));
    assert!(shown.contains(", baked for sm_90\n"), "{shown}");
}

//! Tests `cargo kernels list` on real binaries, and on damaged or unsuitable files.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use kernel_registry_format::{MAGIC, section};
use object::{Object, ObjectSection};
use serde_json::{Value, json};
use tests::{
    Build, are_documented, cargo_kernels, cargo_kernels_command, copied, fails, file, listed, package,
    scratch_folder,
};

fn linked() -> PathBuf {
    Build::default().executable("joined")
}

fn list(file: &Path, args: &[&str]) -> Output {
    cargo_kernels(["list".as_ref(), file.as_os_str()].into_iter().chain(args.iter().map(AsRef::as_ref)))
}

/// Returns the offset in an executable at which `part` occurs in an ELF section.
fn position(executable: &[u8], section: &str, part: &[u8]) -> usize {
    let file = object::File::parse(executable).unwrap();
    let (start, length) = file.section_by_name(section).unwrap().file_range().unwrap();
    let bytes = &executable[start as usize..][..length as usize];
    start as usize + bytes.windows(part.len()).position(|window| window == part).unwrap()
}

#[test]
fn people_get_a_table() {
    let output = list(&linked(), &[]);
    let table = String::from_utf8(output.stdout).unwrap();
    let (heading, rows) = table.split_once("\n\n").unwrap();
    assert!(heading.contains("joined: 7 kernels, kernel-registry 0.1.0 (rustc 1."), "{heading}");
    let expected = "\
KERNEL                DECLARED AT                          LAUNCH  IMAGE             PARAMETERS
joined::own           tests/fixtures/joined/src/main.rs:10  any     images/saxpy.ptx  (n: u32)
twin_a::gamma::one    tests/fixtures/twin-a/src/lib.rs:18   any     images/saxpy.ptx  (n: u32)
twin_a::gamma::two    tests/fixtures/twin-a/src/lib.rs:21   any     images/saxpy.ptx  (n: u32)
twin_a::nested::beta  tests/fixtures/twin-a/src/lib.rs:12   any     images/saxpy.ptx  (n: u32)
twin_a::saxpy         tests/fixtures/twin-a/src/lib.rs:6    any     images/saxpy.ptx  (n: u32, a: f32, x: &[f32], y: &mut [f32])
twin_b::nested::beta  tests/fixtures/twin-b/src/lib.rs:10   any     images/saxpy.ptx  (n: u64)
twin_b::saxpy         tests/fixtures/twin-b/src/lib.rs:6    any     images/saxpy.ptx  (n: u32, a: f32, x: &[f32], y: &mut [f32])
";
    let expected = expected.replacen(
        "DECLARED AT                          LAUNCH",
        "DECLARED AT                           LAUNCH",
        1,
    );
    assert_eq!(rows, expected);
}

#[test]
fn the_readme_shows_a_list() {
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--locked", "--workspace", "--bin", "quickstart"]);
    assert!(build.status().expect("cargo runs").success());
    let output = list(&Path::new(env!("CARGO_BIN_EXE_hardware")).with_file_name("quickstart"), &[]);
    let table = String::from_utf8(output.stdout).unwrap();
    let readme = tests::guide::page("README.md");
    let is_row =
        |line: &&str| line.starts_with("KERNEL  ") || line.starts_with("kernels::") && line.contains(".rs:");
    let shown: Vec<_> = readme.lines().filter(is_row).collect();
    assert!(shown.len() > 2, "{readme}");
    for line in shown {
        assert!(table.lines().any(|row| row == line), "{line}\n{table}");
    }
}

#[test]
fn programs_get_json_as_documented() {
    let output = list(&linked(), &["--json", "--crate", "twin-b"]);
    let list: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(list["schema"], 1);
    assert_eq!(list["binaries"][0]["libraries"][0]["version"], "0.1.0");
    let kernel = &list["kernels"][1];
    let binary = kernel["binary"].clone();
    assert_eq!(
        *kernel,
        json!({
            "binary": binary,
            "path": "twin_b::saxpy",
            "symbol": "saxpy",
            "crate": "twin-b",
            "version": "4.5.6",
            "file": "tests/fixtures/twin-b/src/lib.rs",
            "line": 6,
            "column": 15,
            "summary": "",
            "signature": "saxpy(n: u32, a: f32, x: &[f32], y: &mut [f32])",
            "params": [
                {"name": "n", "type": "u32", "pass": "value", "nullable": false, "length": null, "direction": "in",
                 "size": 4, "align": 4, "element_size": 4, "element_align": 4},
                {"name": "a", "type": "f32", "pass": "value", "nullable": false, "length": null, "direction": "in",
                 "size": 4, "align": 4, "element_size": 4, "element_align": 4},
                {"name": "x", "type": "&[f32]", "pass": "slice", "nullable": false, "length": null, "direction": "in",
                 "size": 8, "align": 8, "element_size": 4, "element_align": 4},
                {"name": "y", "type": "&mut [f32]", "pass": "slice", "nullable": false, "length": null, "direction": "inout",
                 "size": 8, "align": 8, "element_size": 4, "element_align": 4},
            ],
            "min_arch": null,
            "block": null,
            "shared": null,
            "stack": null,
            "frames": {"recursive": null, "launched": null},
            "needs": [],
            "image": {
                "file": "images/saxpy.ptx",
                "bytes": fs::metadata("images/saxpy.ptx").unwrap().len(),
                "variants": ["compute_60"],
                "baked": [],
            },
            "copy": list["binaries"][0]["libraries"][0]["copy"],
        })
    );
    assert_eq!(kernel["copy"].as_str().unwrap().len(), 16);
    // The schema documents every field.
    let parts = [
        &list,
        &list["binaries"][0],
        &list["binaries"][0]["libraries"][0],
        kernel,
        &kernel["params"][0],
        &kernel["image"],
    ];
    are_documented(&parts, include_str!("../../docs/list-json.md"));
}

#[test]
fn a_binary_is_read_and_not_run() {
    let copy = file("not-executable", &fs::read(linked()).unwrap());
    fs::set_permissions(&copy, Permissions::from_mode(0o444)).unwrap();
    assert_eq!(listed(&copy).len(), 7);
}

#[test]
fn the_crate_may_be_spelled_as_in_code() {
    for name in ["twin-b", "twin_b"] {
        let output = list(&linked(), &["--json", "--crate", name]);
        let list: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(list["kernels"].as_array().unwrap().len(), 2);
    }
    assert_eq!(
        fails(list(&linked(), &["--crate", "twin-c"]), 7),
        "no kernels of `twin-c`: the packages with kernels are joined, twin-a, twin-b"
    );
}

#[test]
fn a_missing_file_is_an_error() {
    assert_eq!(fails(list(Path::new("/nowhere/at/all"), &[]), 3), "there is no file `/nowhere/at/all`");
}

#[test]
fn a_file_without_read_permission_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    fs::copy(linked(), &secret).unwrap();
    fs::set_permissions(&secret, Permissions::from_mode(0o000)).unwrap();
    let mut command = cargo_kernels_command();
    let mut tool = None;
    if fs::read(&secret).is_ok() {
        // Root may read every file, so root runs the tool as the user `nobody`. That user needs access to every folder of the path.
        let copy = folder.path().join("cargo-kernels");
        // `cp` makes the copy: if this process did, a child that another test forks meanwhile would have the file open for writing, and
        // the file could not be run.
        assert!(Command::new("cp").arg(command.get_program()).arg(&copy).status().unwrap().success());
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        command = Command::new(&copy);
        command.arg("kernels").uid(65534).gid(65534);
        tool = Some(copy);
    }
    let output = command.arg("list").arg(&secret).output().unwrap();
    assert_eq!(fails(output, 4), format!("no permission to read `{}`", secret.display()), "{tool:?}");
}

#[test]
fn a_file_that_is_no_binary_is_an_error() {
    for bytes in [&b""[..], b"#!/bin/sh\necho I am a script\n", b"\x7fEL", &[0; 4096]] {
        let path = file("something", bytes);
        assert_eq!(
            fails(list(&path, &[]), 5),
            format!(
                "`{}` is not a binary: expected an executable, shared library, archive or object file",
                path.display()
            )
        );
    }
    fails(list(Path::new("/"), &[]), 5);
    for name in ["reduce.sm_90.cubin", "reduce.nvrtc12.ptx", "reduce.size.fatbin"] {
        let image =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../kernel-registry-image/tests/images").join(name);
        let expected = "is an image and has no declarations: `cargo kernels show --all ";
        assert!(fails(list(&image, &[]), 5).contains(expected));
    }
    fails(list(Path::new("/dev/null"), &[]), 5);
}

#[test]
fn a_truncated_binary_is_an_error() {
    let bytes = fs::read(linked()).unwrap();
    for length in [4, 5, 16, 63, 64, 1000, bytes.len() / 2, bytes.len() - 1] {
        let path = file("truncated", &bytes[..length]);
        let message = fails(list(&path, &[]), 6);
        assert!(message.contains("is a binary that is truncated or damaged: "), "{length} bytes: {message}");
    }
}

#[test]
fn a_damaged_record_is_an_error() {
    let mut bytes = fs::read(linked()).unwrap();
    let record = position(&bytes, section::ELF, &MAGIC);
    bytes[record + 2] = b'?';
    let path = file("damaged", &bytes);
    let message = fails(list(&path, &[]), 6);
    let start = format!("the kernels of `{}` cannot be read: record at byte ", path.display());
    assert!(message.starts_with(&start) && message.ends_with(": no record begins here"), "{message}");
}

/// A line break would look like another kernel, and U+202E reverses the text after it.
#[test]
fn names_with_control_characters_are_refused() {
    for (at, character, shown) in [(6, "\n", "twin_b\\n:saxpy"), (1, "\u{202e}", "t\\u{202e}_b::saxpy")] {
        let mut bytes = fs::read(linked()).unwrap();
        let path = position(&bytes, section::ELF, b"twin_b::saxpy") + at;
        bytes[path..][..character.len()].copy_from_slice(character.as_bytes());
        let path = file("control", &bytes);
        assert_eq!(
            fails(list(&path, &[]), 6),
            format!(
                "the kernels of `{}` cannot be read: the name \"{shown}\" in a record has control characters, which \
                 kernel-registry does not write",
                path.display()
            )
        );
    }
}

#[test]
fn a_binary_without_records_is_an_error() {
    // The object file of the C program of `archive` has no kernels.
    let object = scratch_folder().join("main.o");
    let status =
        Command::new("cc").args(["-c", "fixtures/archive/main.c", "-o"]).arg(&object).status().unwrap();
    assert!(status.success());
    assert_eq!(
        fails(list(&object, &[]), 7),
        format!("`{}` holds no records of kernels: kernel-registry is not linked into it", object.display())
    );
}

#[test]
fn newer_records_are_told_of_and_the_others_listed() {
    let mut bytes = fs::read(linked()).unwrap();
    let path = position(&bytes, section::ELF, b"twin_b::saxpy");
    let record = bytes[..path].windows(MAGIC.len()).rposition(|window| window == MAGIC).unwrap();
    bytes[record + 8] = 3;
    let path = file("newer", &bytes);
    let output = list(&path, &["--json"]);
    let kernels: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(kernels["kernels"].as_array().unwrap().len(), 6);
    assert_eq!(
        fails(output, 8),
        format!(
            "`{}` holds kernels that are not listed, in records of version 3, and this tool reads up to 1: \
             `cargo install cargo-kernels` brings a newer one",
            path.display()
        )
    );
}

#[test]
fn a_section_of_a_newer_version_is_told_of() {
    let mut bytes = fs::read(linked()).unwrap();
    let name = position(&bytes, ".shstrtab", section::ELF.as_bytes());
    bytes[name + section::ELF_PREFIX.len()] = b'2';
    let message = fails(list(&file("newer-section", &bytes), &[]), 8);
    assert!(message.contains("in records of version 2, and this tool reads up to 1"), "{message}");
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output =
        cargo_kernels_command().arg("list").arg(linked()).stdout(Stdio::from(full)).output().unwrap();
    assert!(fails(output, 1).starts_with("the output could not be written: "));
}

#[test]
fn wrong_arguments_are_refused() {
    assert_eq!(cargo_kernels(["list", "--what"]).status.code(), Some(2));
    for option in ["--bin=name", "--release", "--locked", "-q"] {
        let message = String::from_utf8(cargo_kernels(["list", "some/path", option]).stderr).unwrap();
        assert!(message.starts_with("error: the argument '[PATH]' cannot be used with '-"), "{message}");
    }
    // The command also works without the word `kernels` that cargo passes on.
    let mut direct = Command::new(cargo_kernels_command().get_program());
    assert_eq!(direct.args(["list", "--help"]).output().unwrap().status.code(), Some(0));
}

fn list_package(folder: &Path, args: &[&str]) -> Output {
    in_package("list", folder, args)
}

/// Runs a command in a package's folder, where the command builds the package.
fn in_package(command: &str, folder: &Path, args: &[&str]) -> Output {
    cargo_kernels_command()
        .arg(command)
        .args(args)
        .current_dir(folder)
        .env("CARGO_TARGET_DIR", tests::target())
        .output()
        .unwrap()
}

fn paths(output: &Output) -> Vec<String> {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let list: Value = serde_json::from_slice(&output.stdout).unwrap();
    let kernels = list["kernels"].as_array().unwrap();
    kernels.iter().map(|kernel| kernel["path"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn without_a_path_the_package_is_built() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    assert_eq!(paths(&list_package(&fixtures.join("joined"), &["--json"])).len(), 7);
    assert_eq!(
        paths(&list_package(&fixtures.join("plugin"), &["--json"])),
        ["twin_b::nested::beta", "twin_b::saxpy"]
    );
    assert_eq!(paths(&list_package(&fixtures.join("unnamed"), &["--json", "--bin", "remedied"])).len(), 6);
    // The kernels of a library can be listed before it is linked.
    assert_eq!(paths(&list_package(&fixtures.join("twin-b"), &["--json"])).len(), 2);
    let from_elsewhere = ["--json", "--release", "-p", "joined", "--crate", "joined"];
    assert_eq!(paths(&list_package(&fixtures, &from_elsewhere)), ["joined::own"]);
}

/// All binaries of the fixture have the same dependencies; `half` names one of them.
#[test]
fn a_dependency_whose_kernels_are_not_linked_can_be_denied() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/unnamed");
    let deny = |args: &[&str]| {
        let output = in_package("check", &folder, &[args, &["--deny", "unlinked"]].concat());
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    };
    let lost = "unlinked: `twin-a 1.2.3` declares 4 kernels, and `half` has none of them, because rustc links no crate that the code never \
                names: write `kernel_registry::link_kernels!(twin_a);` in `unnamed`\n";
    let built = ["--quiet", "--locked", "--offline", "--bin"];
    for (bin, code) in [("half", 10), ("remedied", 0)] {
        // Cargo builds it there before it is named by its path.
        let file = tests::target().join("debug").join(bin);
        for args in [&[&built[..], &[bin]].concat()[..], &[file.to_str().unwrap()]] {
            let (status, said) = deny(args);
            assert_eq!((status, said.contains(lost)), (Some(code), code != 0), "{said}");
            assert!(!said.contains("warning"), "{said}");
        }
        let moved = copied(&file, &scratch_folder());
        let (status, said) = deny(&[moved.to_str().unwrap()]);
        assert_eq!(status, Some(1), "{said}");
        assert!(
            said.contains("run this in the folder of its package, on the file where cargo built it"),
            "{said}"
        );
    }
}

#[test]
fn dependencies_whose_kernels_are_not_linked_are_named_with_the_line_to_write() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/unnamed");
    let lost = |package: &str, kernels: usize, remedy: &str| {
        format!(
            "warning: `{package}` declares {kernels} kernels, and `unnamed` has none of them, because rustc links no crate \
             that the code never names: write {remedy}"
        )
    };
    for command in ["list", "check"] {
        let said = |bin: &str| {
            let output = in_package(command, &folder, &["--bin", bin, "--quiet", "--locked", "--offline"]);
            (output.status.code(), String::from_utf8(output.stderr).unwrap())
        };
        let (code, message) = said("unnamed");
        assert_eq!(code, Some(7));
        let mut lines: Vec<_> = message.lines().collect();
        lines.sort();
        let [error, warnings @ ..] = &lines[..] else { panic!("{message}") };
        assert!(error.starts_with("error: "), "{message}");
        let expected = [
            lost("twin-a 1.2.3", 4, "`kernel_registry::link_kernels!(twin_a);` in `unnamed`"),
            lost("twin-b 4.5.6", 2, "`kernel_registry::link_kernels!(twin_b);` in `unnamed`"),
        ];
        assert_eq!(warnings, expected);
        assert_eq!(said("remedied"), (Some(0), String::new()));
    }
}

#[test]
fn a_crate_behind_another_is_named_by_both() {
    let folder = package("fn main() {}\n");
    let middle = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/middle");
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
    fs::write(
        folder.join("Cargo.toml"),
        format!("{manifest}between = {{ package = \"middle\", path = {middle:?} }}\n"),
    )
    .unwrap();
    let said = || String::from_utf8(list_package(&folder, &["-q", "--offline"]).stderr).unwrap();
    let remedy = "write `kernel_registry::link_kernels!(between);` in `changing` and \
                  `kernel_registry::link_kernels!(twin_a);` in `middle`\n";
    assert!(said().contains(remedy), "{}", said());
    fs::write(folder.join("src/main.rs"), "kernel_registry::link_kernels!(between);\nfn main() {}\n")
        .unwrap();
    assert_eq!(said(), "");
    // The library of the program's package counts as a crate of its own.
    fs::write(folder.join("src/lib.rs"), "kernel_registry::link_kernels!(between);\n").unwrap();
    fs::write(folder.join("src/main.rs"), "kernel_registry::link_kernels!(changing);\nfn main() {}\n")
        .unwrap();
    assert_eq!(said(), "");
}

#[test]
fn a_package_that_does_not_build_is_an_error() {
    let folder = scratch_folder();
    fs::create_dir(folder.join("src")).unwrap();
    fs::write(folder.join("Cargo.toml"), "[package]\nname = \"broken\"\nedition = \"2024\"\n[workspace]\n")
        .unwrap();
    fs::write(folder.join("src/main.rs"), "fn main() { missing() }\n").unwrap();
    let output = list_package(&folder, &[]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(9), "{message}");
    assert!(message.contains("cannot find function `missing`"), "the compiler's own words: {message}");
    assert!(message.ends_with("error: the package did not build\n"), "{message}");
}

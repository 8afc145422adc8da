//! Tests that the command prints no control characters from files, names or errors.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use serde_json::Value;
use tests::{cargo_kernels, file};

const NAME: &str = "k\u{1b}[2J\u{9b}31m\u{202e}.ptx";
const SHOWN: &str = "k\\u001b[2J\\u009b31m\\u202e.ptx";

/// Runs the command, and returns its standard output and its standard error.
fn printed(args: &[&dyn AsRef<OsStr>]) -> [String; 2] {
    let output = cargo_kernels(args.iter().map(AsRef::as_ref));
    [output.stdout, output.stderr].map(|bytes| {
        let text = String::from_utf8(bytes).unwrap();
        let is_obeyed = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
        assert!(!text.contains(is_obeyed), "{text:?}");
        text
    })
}

#[test]
fn names_of_files_are_printable() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let bytes = fs::read(workspace.join("kernel-registry-image/tests/images/odd.nvcc13.ptx")).unwrap();
    let path = file(NAME, &bytes);
    let [text, _] = printed(&[&"show", &"bounded", &path]);
    assert!(text.contains(SHOWN), "{text}");
    let [json, _] = printed(&[&"show", &"bounded", &path, &"--json"]);
    let document: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(document["kernels"][0]["file"].as_str().unwrap(), path.to_str().unwrap());
    let [text, _] = printed(&[&"diff", &path, &path]);
    assert!(text.contains("unchanged"), "{text}");
}

#[test]
fn errors_are_printable() {
    let [_, error] = printed(&[&"list", &NAME]);
    assert_eq!(error, format!("error: there is no file `{SHOWN}`\n"));
    let damaged = file(NAME, format!(".version 8.0\n.target sm_75\n.entry {NAME}(").as_bytes());
    let [_, error] = printed(&[&"show", &"--all", &damaged]);
    assert!(error.contains(SHOWN), "{error}");
    let [_, error] = printed(&[&"show", &"--all", &"--unknown\u{1b}[2J"]);
    assert!(error.contains("--unknown"), "{error}");
    let [_, error] = printed(&[&"audit", &"merge", &NAME]);
    assert!(error.contains(SHOWN), "{error}");
}

//! Tests `cargo kernels diff`, which compares the kernels of two builds.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::{Value, json};
use tests::{Build, are_documented, cargo_kernels, fails, file, scratch_folder};

const DOCUMENTATION: &str = include_str!("../../docs/diff-json.md");

fn image(name: &str) -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    workspace.join("kernel-registry-image/tests/images").join(name)
}

fn diff(old: &Path, new: &Path, args: &[&str]) -> Output {
    let files = ["diff".as_ref(), old.as_os_str(), new.as_os_str()];
    cargo_kernels(files.into_iter().chain(args.iter().map(OsStr::new)))
}

/// Runs a comparison that ends with this code. Returns its standard output, without the folders of the files.
fn text(old: &Path, new: &Path, args: &[&str], code: i32) -> String {
    let output = diff(old, new, args);
    let (out, errors) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{errors}{out}");
    let folder = |path: &Path| format!("{}/", path.parent().unwrap().display());
    out.replace(&folder(old), "").replace(&folder(new), "")
}

fn document(old: &Path, new: &Path, args: &[&str], code: i32) -> Value {
    serde_json::from_str(&text(old, new, &[&["--json"], args].concat(), code)).unwrap()
}

/// Returns the JSON of all kernels in a file.
fn shown(path: &Path) -> Value {
    let output = cargo_kernels(["show".as_ref(), "--all".as_ref(), path.as_os_str(), "--json".as_ref()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Changes a copy of the JSON by a function, and writes the copy to a file.
fn changed(document: &Value, name: &str, change: impl FnOnce(&mut Value)) -> PathBuf {
    let mut document = document.clone();
    change(&mut document);
    file(name, document.to_string().as_bytes())
}

#[test]
fn images_of_two_compilers_differ() {
    let (old, new) = (image("reduce.sm_90.cuda12.cubin"), image("reduce.sm_90.cubin"));
    let expected = "\
old: reduce.sm_90.cuda12.cubin, 3 kernels
new: reduce.sm_90.cubin, 3 kernels

KERNEL                VARIANT  REGISTERS              CODE
reduce<double, 256u>  sm_90    20                     2944 -> 2688 B (-256, -8.7%)
reduce<float, 128u>   sm_90    16 -> 18 (+2, +12.5%)  1920 B
reduce<float, 256u>   sm_90    16 -> 18 (+2, +12.5%)  1920 B

0 added, 0 removed, 3 changed, 0 unchanged; images 13776 -> 14536 B (+760, +5.5%)
";
    assert_eq!(text(&old, &new, &[], 0), expected);
}

#[test]
fn the_same_image_has_no_differences() {
    let same = image("reduce.sm_90.cubin");
    let expected = "\
old: reduce.sm_90.cubin, 3 kernels
new: reduce.sm_90.cubin, 3 kernels

0 added, 0 removed, 0 changed, 3 unchanged; images 14536 B
";
    assert_eq!(
        text(&same, &same, &["--max-registers", "+0", "--no-new-spills", "--no-removed"], 0),
        expected
    );
}

#[test]
fn ptx_is_compared_as_text() {
    let ptx = |name: &str, kernels: &str| {
        file(name, format!(".version 8.0\n.target sm_75\n.address_size 64\n{kernels}").as_bytes())
    };
    let old = ptx(
        "old.ptx",
        ".entry _Z1fi(.param .u32 n) { ret; }\n.entry plain(.param .u32 n) { ret; }\n.entry gone() { ret; }\n",
    );
    let new = ptx(
        "new.ptx",
        ".entry _Z1fj(.param .u32 n) { bar.sync 0; ret; }\n.entry plain(.param .f32 x) { ret; }\n",
    );
    let expected = "\
old: old.ptx, 3 kernels
new: new.ptx, 2 kernels

removed    gone
signature  f: f(int) -> f(unsigned int)
signature  plain: plain(.u32) -> plain(.f32)

KERNEL  VARIANT    CODE
f       sm_75 PTX  30 -> 42 B (+12, +40.0%)

note: `--max-registers` was not checked, because no kernel has its registers on both sides: PTX tells no resources, and files of older versions no code
refused by --no-removed: gone: removed
refused by --max-code +10%: f: code 30 -> 42 B (+12, +40.0%) on sm_75 PTX

0 added, 1 removed, 2 changed, 0 unchanged; images 141 -> 130 B (-11, -7.8%)
";
    let limits = ["--max-registers", "+10%", "--max-code", "+10%", "--no-removed"];
    assert_eq!(text(&old, &new, &limits, 13), expected);
    assert_eq!(fails(diff(&old, &new, &limits), 13), "2 changes beyond the limits, listed above");
    // Without limits, differences are no failure.
    text(&old, &new, &[], 0);
}

#[test]
fn a_binary_and_its_json_compare_alike() {
    let binary = Build::default().executable("checked");
    let document_of = shown(&binary);
    assert_eq!(document_of["kernels"].as_array().unwrap().len(), 7);
    let kept = changed(&document_of, "release.json", |_| {});
    let same = document(&kept, &binary, &[], 0);
    assert_eq!((&same["unchanged"], &same["changed"]), (&json!(7), &json!([])));
    assert_eq!(same["old"]["image_bytes"], same["new"]["image_bytes"]);

    let before = changed(&document_of, "before.json", |document| {
        let kernels = document["kernels"].as_array_mut().unwrap();
        kernels.retain(|kernel| kernel["path"] != "checked::wide::plain");
        for kernel in kernels.iter_mut() {
            // An earlier compiler could have made other symbols of the same kernels.
            kernel["symbol"] = format!("{}_of_another_build", kernel["symbol"].as_str().unwrap()).into();
        }
        let reduce = kernels.iter_mut().find(|kernel| kernel["path"] == "checked::reduce_floats").unwrap();
        reduce["variants"][2]["resources"]["registers"] = 16.into();
        let fill = kernels.iter_mut().find(|kernel| kernel["path"] == "checked::wide::fill").unwrap();
        fill["signature"] = "fill(x: &mut [f32], value: f32)".into();
        fill["params"].as_array_mut().unwrap().remove(1);
    });
    let limits = ["--max-registers", "+10%", "--no-removed", "--no-new-spills"];
    let expected = "\
old: before.json, 6 kernels
new: checked, 7 kernels

added      checked::wide::plain
signature  checked::wide::fill: fill(x: &mut [f32], value: f32) -> fill(x: &mut [f32], n: u32, value: f32)

KERNEL                  VARIANT  REGISTERS
checked::reduce_floats  sm_90a   16 -> 18 (+2, +12.5%)

refused by --max-registers +10%: checked::reduce_floats: registers 16 -> 18 (+2, +12.5%) on sm_90a
";
    let found = text(&before, &binary, &limits, 13);
    assert!(found.starts_with(expected), "{found}");

    let found = document(&before, &binary, &limits, 13);
    assert_eq!(found["added"], json!([{ "kernel": "checked::wide::plain", "symbol": "plain" }]));
    let [reduce, fill] = &found["changed"].as_array().unwrap()[..] else { panic!("{found}") };
    assert_eq!(reduce["old_symbol"], "_Z6reduceIfLj128EEvPKT_PS0_j_of_another_build");
    assert_eq!(reduce["variants"][0]["registers"]["difference"], 2);
    assert_eq!(reduce["variants"][0]["registers"]["percent"], 12.5);
    assert_eq!(fill["signature"]["old"], "fill(x: &mut [f32], value: f32)");
    let refusal = &found["refusals"][0];
    assert_eq!(
        *refusal,
        json!({
            "kernel": "checked::reduce_floats", "variant": { "kind": "cubin", "target": "sm_90a" },
            "figure": "registers", "old": 16, "new": 18, "limit": "--max-registers +10%",
            "message": "checked::reduce_floats: registers 16 -> 18 (+2, +12.5%) on sm_90a",
        })
    );
    let variant = &reduce["variants"][0];
    let objects = [&found, &found["old"], &found["added"][0], reduce, &fill["signature"], variant, refusal];
    are_documented(&objects, DOCUMENTATION);
    are_documented(&[&variant["registers"], &refusal["variant"]], DOCUMENTATION);

    // The comparison is repeated with the old and the new build exchanged.
    let back = document(&binary, &before, &["--max-registers", "+0"], 0);
    assert_eq!(back["removed"][0]["kernel"], "checked::wide::plain");
}

#[test]
fn all_kernels_are_shown() {
    let document = shown(&image("odd.sm_90.cubin"));
    let kernels = document["kernels"].as_array().unwrap();
    assert!(
        kernels.len() > 10 && kernels.iter().all(|kernel| kernel["image_bytes"] == kernels[0]["image_bytes"])
    );
    assert_eq!(kernels[0]["image_bytes"], fs::metadata(image("odd.sm_90.cubin")).unwrap().len());
    let binary = Build::default().executable("checked");
    let output = cargo_kernels(["show".as_ref(), "--all".as_ref(), binary.as_os_str()]);
    assert_eq!(String::from_utf8(output.stdout).unwrap().matches("\n    symbol    ").count(), 7);
    assert_eq!(cargo_kernels(["show", "--all", "a", "b"]).status.code(), Some(2));
}

/// Writes the JSON of a build whose kernel has this stack. `recursive` is the least size of a stack without a bound.
fn with_stack(stack: Option<u32>, recursive: Option<u32>) -> PathBuf {
    let resources = json!({ "registers": 8, "static_shared": 0, "local_frame": 0, "stack": stack });
    let variant = json!({
        "kind": "cubin", "target": "sm_90", "resources": resources, "frames": { "recursive": recursive, "launched": null },
    });
    let kernel =
        json!({ "path": "a::k", "symbol": "k", "file": "src/lib.rs", "params": [], "variants": [variant] });
    file("stack.json", json!({ "schema": 2, "kernels": [kernel] }).to_string().as_bytes())
}

#[test]
fn a_stack_that_lost_its_bound_is_refused() {
    let found = text(&with_stack(Some(64), None), &with_stack(None, Some(32)), &["--max-stack", "+100%"], 13);
    assert!(
        found.contains("refused by --max-stack +100%: a::k: stack 64 -> 32 or more B on sm_90\n"),
        "{found}"
    );
    text(&with_stack(None, Some(32)), &with_stack(Some(64), None), &["--max-stack", "+0"], 0);
    // This JSON, like that of earlier versions, has no size of code.
    let (old, new) = (with_stack(Some(8), None), with_stack(Some(8), None));
    assert!(text(&old, &new, &["--max-code", "+0"], 0).contains("note: `--max-code` was not checked"));
}

#[test]
fn hostile_names_are_escaped_in_markdown_and_text() {
    let build = |registers: u32| {
        let resources = json!({ "registers": registers, "static_shared": 0, "local_frame": 0, "stack": 0 });
        let variant = json!({ "kind": "cubin", "target": "sm_90|<i>", "resources": resources });
        let name = "a::<script>alert('x')</script>|`\n\u{1b}[2J";
        let kernel =
            json!({ "path": name, "symbol": name, "file": "f", "params": [], "variants": [variant] });
        file("build.json", json!({ "schema": 2, "kernels": [kernel] }).to_string().as_bytes())
    };
    let (old, new) = (build(8), build(9));
    let markdown = text(&old, &new, &["--max-registers", "+0", "--markdown"], 13);
    let row =
        "| `a::<script>alert('x')</script>\\|'\u{fffd}\u{fffd}[2J` | `sm_90\\|<i>` | 8 → 9 (+1, +12.5%) |";
    assert!(markdown.lines().any(|line| line == row), "{markdown}");
    assert!(!text(&old, &new, &[], 0).contains('\u{1b}'));
}

#[test]
fn unsuitable_files_are_refused_with_a_reason() {
    let good = image("reduce.sm_90.cubin");
    let nowhere = Path::new("/nowhere/at/all");
    for (old, new) in [(&*good, nowhere), (nowhere, &*good)] {
        assert_eq!(fails(diff(old, new, &[]), 3), "there is no file `/nowhere/at/all`");
    }
    let message = |name: &str, bytes: &[u8], code| {
        let bad = file(name, bytes);
        fails(diff(&good, &bad, &[]), code).replace(&bad.display().to_string(), "BAD")
    };
    let nothing = "`BAD` cannot be compared: it is neither a binary, nor an image (PTX, cubin or fatbin), nor the JSON of \
                   `cargo kernels show --all --json`";
    assert_eq!(message("notes.txt", b"Notes", 5), nothing);
    assert_eq!(message("empty", b"", 5), nothing);
    assert_eq!(message("other.json", b"{\"name\": 1}", 5), nothing);
    assert_eq!(message("list.json", b"[1, 2]", 5), nothing);
    assert_eq!(message("kernels.ptx", b".version 8.0\n.target sm_75\n", 7), "`BAD` holds no kernels");
    assert_eq!(message("none.json", b"{\"schema\": 2, \"kernels\": []}", 7), "`BAD` holds no kernels");
    let newer = message("newer.json", b" {\"schema\": 3}", 8);
    assert!(newer.starts_with("`BAD` has schema 3, and this tool reads schema 2: "), "{newer}");
    let cut_off = message("cut.json", b"{\"schema\": 2, \"kern", 6);
    assert!(cut_off.starts_with("`BAD` is JSON that is truncated or damaged: EOF"), "{cut_off}");
    let list = message(
        "list.json",
        b"{\"schema\": 2, \"kernels\": [{\"symbol\": \"k\", \"params\": [], \"file\": \"f\"}]}",
        5,
    );
    let expected = "`BAD` is not the JSON of `cargo kernels show --all --json`: missing field `variants`";
    assert_eq!(list, expected);
    // A binary without kernels has no records.
    assert!(fails(diff(&good, Path::new("/bin/true"), &[]), 7).contains("holds no records of kernels"));
    let folder = scratch_folder();
    assert!(fails(diff(&good, &folder, &[]), 5).contains("cannot be compared"));
    for limit in ["10%", "-3", "+x"] {
        let output = diff(&good, &good, &["--max-registers", limit]);
        assert_eq!(output.status.code(), Some(2), "{limit}");
    }
}

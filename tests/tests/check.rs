//! Tests `cargo kernels check`, which compares declarations with the images in their binary, or with other images.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use kernel_registry_format::MAGIC;
use serde_json::{Value, json};
use tests::{Build, are_documented, cargo_kernels, cargo_kernels_command, fails, file};

const HAND: &str = include_str!("../fixtures/checked/images/hand.ptx");

fn checked() -> PathBuf {
    Build::default().executable("checked")
}

fn check(file: &Path, args: &[&str]) -> Output {
    cargo_kernels(["check".as_ref(), file.as_os_str()].into_iter().chain(args.iter().map(AsRef::as_ref)))
}

/// Returns the findings, except those about kernels that nothing declares.
fn findings(file: &Path, args: &[&str]) -> Vec<Value> {
    let output = check(file, &[&["--json"], args].concat());
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut findings = report["findings"].as_array().unwrap().clone();
    findings.retain(|finding| finding["what"] != "unused");
    assert_eq!(output.status.code(), Some(if findings.is_empty() { 0 } else { 10 }));
    findings
}

/// Formats each finding as one line: kernel, kind, subject and message.
fn summaries(findings: &[Value]) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let line = |finding: &Value| {
        let (kernel, what) = (text(&finding["kernel"]["path"]), text(&finding["what"]));
        format!("{kernel}: {what}, {}: {}", text(&finding["about"]), text(&finding["message"]))
    };
    findings.iter().map(line).collect()
}

const UNUSED: &str = "\
unused: `row_medians(unsigned int, unsigned int, const float*, float*)` of `images/diagnose.cubin` is declared nowhere
unused: `check_finite(unsigned int, const float*)` of `images/diagnose.cubin` is declared nowhere
unused: `spare(int)` of `images/hand.ptx` is declared nowhere
unused: `copy(const float*, float*, unsigned int)` of `images/narrow.ptx` is declared nowhere
unused: `plain` of `images/narrow.ptx` is declared nowhere
unused: `spare(int)` of `images/narrow.ptx` is declared nowhere
unused: `reduce<float, 256u>(const float*, float*, unsigned int)` of `images/reduce.fatbin` is declared nowhere
7 declarations against 4 images: 0 mismatches, 0 missing, 7 unused
";

#[test]
fn undeclared_kernels_are_reported_and_may_be_denied() {
    let file = checked();
    let output = check(&file, &[]);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), UNUSED);
    assert_eq!(output.status.code(), Some(0));

    let output = check(&file, &["--deny", "unused"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), UNUSED);
    assert_eq!(fails(output, 10), "declarations and images disagree: 7 findings above");
}

#[test]
fn every_finding_has_its_line() {
    let file = checked();
    let image = tests::file("other.ptx", HAND.replace("_Z4fillPfjf", "_Z4fillPfif").as_bytes());
    let output = check(&file, &["--image", image.to_str().unwrap()]);
    let text = String::from_utf8_lossy(&output.stdout).replace(&image.display().to_string(), "FILE");
    let expected = "\
mismatch: checked::narrow::fill (tests/fixtures/checked/src/main.rs:39): `n` is `u32` here, and `int` in `fill(float*, int, float)` of `FILE`
missing: checked::reduce_doubles (tests/fixtures/checked/src/main.rs:11): no kernel `reduce<double, 256u>` in `FILE`: there are `copy`, `fill`, `plain`, `spare`
missing: checked::reduce_floats (tests/fixtures/checked/src/main.rs:7): no kernel `reduce<float, 128u>` in `FILE`: there are `copy`, `fill`, `plain`, `spare`
missing: checked::report_nan (tests/fixtures/checked/src/main.rs:15): no kernel `report_nan` in `FILE`: there are `copy`, `fill`, `plain`, `spare`
mismatch: checked::wide::fill (tests/fixtures/checked/src/main.rs:31): `n` is `u32` here, and `int` in `fill(float*, int, float)` of `FILE`
unused: `spare(int)` of `FILE` is declared nowhere
7 declarations against 1 image: 2 mismatches, 3 missing, 1 unused
";
    assert_eq!(text, expected);
    assert_eq!(fails(output, 10), "declarations and images disagree: 5 findings above");
}

/// The mangled name of `fill` has `unsigned int` for a parameter of 8 bytes.
#[test]
fn the_sizes_in_an_image_decide_and_not_the_names() {
    let image = HAND.replace(".param .u32 _Z4fillPfjf_param_1", ".param .u64 _Z4fillPfjf_param_1");
    let image = file("wider.ptx", image.as_bytes());
    let found = summaries(&findings(&checked(), &["--image", image.to_str().unwrap()]));
    let fill = found.iter().find(|line| line.starts_with("checked::wide::fill: ")).unwrap();
    let expected = format!(
        "checked::wide::fill: mismatch, layout: `n` is `u32` here, and an integer or pointer of 8 bytes in `fill` of `{}`",
        image.display()
    );
    assert_eq!(*fill, expected);
}

#[test]
fn programs_get_json_as_documented() {
    let file = checked();
    let image = tests::file("other.ptx", HAND.replace("_Z4fillPfjf", "_Z4fillPfif").as_bytes());
    let output = check(&file, &["--json", "--image", image.to_str().unwrap()]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["schema"], 2);
    assert_eq!((&report["declarations"], &report["images"]), (&json!(7), &json!(1)));
    let finding = &report["findings"][0];
    assert_eq!(
        *finding,
        json!({
            "what": "mismatch",
            "about": "type",
            "denied": true,
            "kernel": {
                "binary": file.display().to_string(),
                "path": "checked::narrow::fill",
                "crate": "checked",
                "version": "0.1.0",
                "file": "tests/fixtures/checked/src/main.rs",
                "line": 39,
                "column": 19,
            },
            "symbol": "_Z4fillPfjf",
            "images": [image.display().to_string()],
            "message": format!(
                "`n` is `u32` here, and `int` in `fill(float*, int, float)` of `{}`",
                image.display()
            ),
        })
    );
    let unused = report["findings"].as_array().unwrap().last().unwrap();
    assert_eq!((&unused["what"], &unused["denied"]), (&json!("unused"), &json!(false)));
    assert_eq!((&unused["kernel"], &unused["symbol"]), (&Value::Null, &json!("_Z5sparei")));
    are_documented(&[&report, finding, &finding["kernel"]], include_str!("../../docs/check-json.md"));
}

#[test]
fn a_kernel_of_only_some_variants_is_a_note() {
    let older =
        ".version 7.0 .target sm_50 .entry plain(.param .u32 n, .param .align 4 .b8 pair[8]) { ret; }\n";
    let image = file("variants.ptx", format!("{older}{HAND}").as_bytes());
    let others = ["fixtures/checked/images/reduce.fatbin", "fixtures/checked/images/diagnose.cubin"];
    let path = image.to_str().unwrap();
    let output = check(&checked(), &["--image", path, "--image", others[0], "--image", others[1]]);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).unwrap().replace(path, "FILE");
    let notes: Vec<&str> = text.lines().filter(|line| line.starts_with("note: ")).collect();
    assert_eq!(
        notes[0],
        "note: checked::narrow::fill (tests/fixtures/checked/src/main.rs:39): `fill(float*, unsigned int, float)` of \
         `FILE` is only in the variants for sm_60, and not in those for sm_50: declare `arch = \">=60\"`"
    );
    assert!(notes.iter().all(|note| !note.contains("plain")), "{text}");
    assert!(text.ends_with(&format!(", {} notes\n", notes.len())), "{text}");
}

/// Returns the findings about kernels of `hand.ptx` after these edits of the file.
fn edited(executable: &Path, edits: &[(&str, &str)]) -> Vec<String> {
    let mut text = HAND.to_owned();
    for (from, to) in edits {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    let image = file("x.ptx", text.as_bytes());
    let others = ["fixtures/checked/images/reduce.fatbin", "fixtures/checked/images/diagnose.cubin"];
    let args = ["--image", image.to_str().unwrap(), "--image", others[0], "--image", others[1]];
    let summaries = summaries(&findings(executable, &args));
    summaries.into_iter().map(|line| line.replace(&image.display().to_string(), "x.ptx")).collect()
}

#[test]
fn each_kind_of_mismatch_has_its_words() {
    let file = checked();
    assert_eq!(edited(&file, &[]), Vec::<String>::new());
    let cases: [(&[(&str, &str)], &str); 9] = [
        (
            &[("\t.param .u64 _Z4copyPKfPfj_param_0,\n", "")],
            "checked::wide::copy: mismatch, count: `copy` of `x.ptx` takes 2 parameters, and 3 are declared",
        ),
        (
            &[("_Z4copyPKfPfj", "_Z4copyPfS_j")],
            "checked::wide::copy: mismatch, direction: `from` is `&[f32]` here, and `float*` in \
             `copy(float*, float*, unsigned int)` of `x.ptx`: the kernel may write through it, so declare `&mut [T]`",
        ),
        (
            &[("_Z4copyPKfPfj", "_Z4copyPKdPfj")],
            "checked::wide::copy: mismatch, type: `from` is `&[f32]` here, and `const double*` in \
             `copy(const double*, float*, unsigned int)` of `x.ptx`",
        ),
        (
            &[(".b8 plain_param_1[8]", ".b8 plain_param_1[12]")],
            "checked::wide::plain: mismatch, layout: `pair` is `super::Pair` here, and a value of 12 bytes, \
             aligned to 4, in `plain` of `x.ptx`; here it has 8 bytes, aligned to 4",
        ),
        (
            &[(".align 4 .b8", ".align 8 .b8")],
            "checked::wide::plain: mismatch, layout: `pair` is `super::Pair` here, and a value of 8 bytes, \
             aligned to 8, in `plain` of `x.ptx`; here it has 8 bytes, aligned to 4",
        ),
        (
            &[("_Z4copyPKfPfj", "_Z5copysPKfPfj")],
            "checked::wide::copy: missing, -: no kernel `copy(const float*, float*, unsigned int)` in any of 3 images",
        ),
        (
            &[(".entry plain", ".entry _Z5plainj4Pair")],
            "checked::wide::plain: mismatch, symbol: the symbol is `plain` here, and `_Z5plainj4Pair` of \
             `plain(unsigned int, Pair)` in `x.ptx`",
        ),
        (
            &[(".maxntid 256, 1, 1", ".reqntid 128, 2, 1")],
            "checked::wide::fill: mismatch, block: `fill` was compiled for blocks of exactly 128 x 2 x 1 threads, \
             and this one has 256 x 1 x 1",
        ),
        (
            &[(
                "}\n\n.visible .entry _Z5spare",
                "}\n.version 7.0\n.target sm_90\n.visible .entry plain() { ret; }\n\n.entry spare",
            )],
            "checked::wide::plain: mismatch, -: `plain` takes other parameters in one variant of `x.ptx` than in another",
        ),
    ];
    for (edits, expected) in cases {
        let summaries = edited(&file, edits);
        assert!(summaries.iter().any(|line| line == expected), "{edits:?}: {summaries:#?}");
    }
}

#[test]
fn a_kernel_that_is_gone_is_missing_with_near_names_and_overloads() {
    let file = checked();
    let gone = |from: &str, to: &str| {
        let image = tests::file("x.ptx", HAND.replace(from, to).as_bytes());
        let summaries = summaries(&findings(&file, &["--image", image.to_str().unwrap()]));
        summaries.join("\n").replace(&image.display().to_string(), "x.ptx")
    };
    let copied = gone("_Z4copyPKfPfj", "_Z5copysPKfPfj");
    assert!(
        copied.contains("copy: missing, -: no kernel `copy` in `x.ptx`: did you mean `copys`?"),
        "{copied}"
    );
    let summaries = gone(".entry _Z4copyPKfPfj(", ".entry _Z4copyPdj() { ret; } .entry _Z4copyPfj(");
    assert!(
        summaries.contains(
            "missing, -: no kernel `copy(const float*, float*, unsigned int)` in `x.ptx`: \
             there are `_Z4copyPdj`, `_Z4copyPfj`"
        ),
        "{summaries}"
    );
}

/// Copies the executable, and replaces these bytes wherever they occur in its read-only data.
fn patched(from: &str, to: &str) -> PathBuf {
    assert_eq!(from.len(), to.len());
    let mut bytes = fs::read(checked()).unwrap();
    let places: Vec<_> = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(from.as_bytes())).collect();
    assert!(!places.is_empty(), "{from}");
    for at in places {
        bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
    }
    file("patched", &bytes)
}

#[test]
fn images_in_the_binary_are_compared_too() {
    let wide = patched(".param .u32 plain_param_0", ".param .u64 plain_param_0");
    assert_eq!(
        summaries(&findings(&wide, &[])),
        ["checked::wide::plain: mismatch, layout: `n` is `u32` here, and an integer or pointer of 8 bytes \
          in `plain` of `images/hand.ptx`"]
    );
    let gone = patched(".entry plain(", ".entry plane(");
    assert_eq!(
        summaries(&findings(&gone, &[])),
        ["checked::wide::plain: missing, -: no kernel `plain` in `images/hand.ptx`: did you mean `plane`?"]
    );
}

#[test]
fn a_missing_image_is_reported() {
    let file = patched(".version 7.0\n", ".revision 7.\n");
    let findings = findings(&file, &[]);
    assert_eq!(
        summaries(&findings)[0],
        "checked::narrow::fill: unchecked, -: its image `images/narrow.ptx` is not in the binary: \
         check the binary as the linker wrote it, before it is packed"
    );
    assert_eq!(findings.len(), 4);
    let text = String::from_utf8(check(&file, &[]).stdout).unwrap();
    assert!(
        text.ends_with("7 declarations against 2 images: 0 mismatches, 0 missing, 3 unused, 4 unchecked\n"),
        "{text}"
    );
}

#[test]
fn a_library_is_checked_before_it_is_linked() {
    let library = Build::default().file("twin-b", "rlib");
    assert_eq!(summaries(&findings(&library, &[])), Vec::<String>::new());
}

#[test]
fn one_package_of_several_can_be_checked() {
    let linked = Build::default().executable("joined");
    let image = file("x.ptx", b".version 7.0 .target sm_60 .entry n(.param .u32 n) { ret; }");
    let image = image.to_str().unwrap();
    assert_eq!(summaries(&findings(&linked, &["--image", image, "--crate", "joined"])), Vec::<String>::new());
    let others = findings(&linked, &["--image", image]);
    let missing: Vec<_> = others.iter().map(|finding| finding["kernel"]["path"].as_str().unwrap()).collect();
    assert_eq!(missing, ["twin_a::saxpy", "twin_b::nested::beta", "twin_b::saxpy"]);
    assert_eq!(
        fails(check(&linked, &["--crate", "twin-c"]), 7),
        "no kernels of `twin-c`: the packages with kernels are joined, twin-a, twin-b"
    );
}

#[test]
fn files_that_are_no_images_are_refused() {
    let file = checked();
    let with = |image: &Path| check(&file, &["--image", image.to_str().unwrap()]);
    assert_eq!(fails(with(Path::new("/nowhere.ptx")), 3), "there is no file `/nowhere.ptx`");
    let text = tests::file("text", b"not an image");
    let message =
        format!("`{}`: not a kernel image: neither PTX text nor a cubin nor a fatbin", text.display());
    assert_eq!(fails(with(&text), 5), message);
    let message = fails(with(&file), 5);
    let machine = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
    assert!(message.contains(&format!("an ELF file for machine {machine}")), "{message}");
    let cubin = fs::read("fixtures/checked/images/diagnose.cubin").unwrap();
    fails(with(&tests::file("cut.cubin", &cubin[..1000])), 6);
    fails(check(&text, &[]), 5);
}

#[test]
fn damaged_binaries_fail_as_they_do_for_the_list() {
    let bytes = fs::read(checked()).unwrap();
    for command in [&["check"][..], &["show", "fill"]] {
        let cut = file("cut", &bytes[..bytes.len() / 2]);
        let output = cargo_kernels(command.iter().map(AsRef::as_ref).chain([cut.as_os_str()]));
        assert!(fails(output, 6).contains("is a binary that is truncated or damaged: "));
    }
    let path = bytes.windows(21).position(|window| window == b"checked::narrow::fill").unwrap();
    let record = bytes[..path].windows(MAGIC.len()).rposition(|window| window == MAGIC).unwrap();
    let mut bytes = bytes;
    bytes[record + 8] = 3;
    let newer = file("newer", &bytes);
    let output = check(&newer, &[]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("6 declarations against 3 images: "));
    assert!(fails(output, 8).contains("in records of version 3"));
    // The kernel may be among the kernels that cannot be read.
    fails(cargo_kernels(["show".as_ref(), "narrow::fill".as_ref(), newer.as_os_str()]), 8);
    fails(cargo_kernels(["show".as_ref(), "wide::fill".as_ref(), newer.as_os_str()]), 8);
}

#[test]
fn without_a_path_the_package_is_built() {
    let output = cargo_kernels_command()
        .arg("check")
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/checked"))
        .env("CARGO_TARGET_DIR", tests::target())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), UNUSED);
}

#[test]
fn an_unknown_kind_to_deny_is_refused() {
    assert_eq!(check(Path::new("x"), &["--deny", "everything"]).status.code(), Some(2));
    let help = cargo_kernels(["check", "--help"]);
    assert!(String::from_utf8(help.stdout).unwrap().contains("10 images disagree with"));
}

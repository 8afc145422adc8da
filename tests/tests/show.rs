//! Tests `cargo kernels show`, which shows a kernel's declaration, image and resources.

use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::{Value, json};
use tests::{Build, FAT, LTO, are_documented, cargo_kernels, cargo_kernels_command, fails, lines};

fn checked() -> PathBuf {
    Build::default().executable("checked")
}

fn show(name: &str, file: &Path, args: &[&str]) -> Output {
    let first = ["show".as_ref(), name.as_ref(), file.as_os_str()];
    cargo_kernels(first.into_iter().chain(args.iter().map(AsRef::as_ref)))
}

/// Returns the kernels in the JSON output.
fn shown(name: &str, file: &Path) -> Vec<Value> {
    let output = show(name, file, &["--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["schema"], 2);
    document["kernels"].as_array().unwrap().clone()
}

fn paths(name: &str, file: &Path) -> Vec<String> {
    shown(name, file).iter().map(|kernel| kernel["path"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn people_see_declaration_image_and_variants() {
    let file = checked();
    let output = show("reduce", &file, &[]);
    let text = String::from_utf8(output.stdout).unwrap().replace(&file.display().to_string(), "FILE");
    let expected = "\
checked::reduce_doubles in FILE
    Rust      reduce_doubles(x: &[f64], out: &mut [f64], n: u32)
    C++       reduce<double, 256u>(const double*, double*, unsigned int)
    symbol    _Z6reduceIdLj256EEvPKT_PS0_j
    declared  tests/fixtures/checked/src/main.rs:11, in checked 0.1.0
    about     The sums of blocks.
    launch    block 256
    image     images/reduce.fatbin, 6968 bytes, a fatbin

    VARIANT         TOOLKIT  REGISTERS  SHARED  CONSTANT  FRAME  STACK  LAUNCH                NEEDS
    sm_75, PTX 9.0  -        -          -       -         -      -      block of at most 256  -
    sm_75           13.0     20         256 B   372 B     0 B    0 B    block of at most 256  -
    sm_90a          13.0     20         256 B   548 B     0 B    0 B    block of at most 256  -

checked::reduce_floats in FILE
    Rust      reduce_floats(x: &[f32], out: &mut [f32], n: u32)
    C++       reduce<float, 128u>(const float*, float*, unsigned int)
    symbol    _Z6reduceIfLj128EEvPKT_PS0_j
    declared  tests/fixtures/checked/src/main.rs:7, in checked 0.1.0
    about     The sums of blocks.
    launch    block 128
    image     images/reduce.fatbin, 6968 bytes, a fatbin

    VARIANT         TOOLKIT  REGISTERS  SHARED  CONSTANT  FRAME  STACK  LAUNCH                NEEDS
    sm_75, PTX 9.0  -        -          -       -         -      -      block of at most 128  -
    sm_75           13.0     14         128 B   372 B     0 B    0 B    block of at most 128  -
    sm_90a          13.0     18         128 B   548 B     0 B    0 B    block of at most 128  -
";
    assert_eq!(text, expected);
}

#[test]
fn a_stack_that_no_compiler_knows_is_reported_as_unknown() {
    let file = Build::default().executable("deep");
    let text = |name: &str| String::from_utf8(show(name, &file, &[]).stdout).unwrap();
    let line = |name: &str, start: &str| {
        let text = text(name);
        let line = text.lines().map(str::trim).find(|line| line.starts_with(start));
        line.unwrap_or_else(|| panic!("{text}")).to_owned()
    };
    assert_eq!(line("plain", "launch"), "launch    any");
    assert_eq!(line("recurses", "launch"), "launch    stack not known (recursive, at least 8240 B)");
    assert!(line("recurses", "sm_90").contains("  0 B    8240 B or more  "));
    assert_eq!(line("recurses_little", "launch"), "launch    stack 256 B");
    assert_eq!(line("recurses_and_more", "launch"), "launch    stack 16 KiB");
    assert_eq!(line("parent", "launch"), "launch    stack 12 KiB for kernels it launches");

    let [recurses] = &shown("recurses", &file)[..] else { panic!() };
    assert_eq!(recurses["stack"], Value::Null);
    assert_eq!(recurses["frames"], json!({"recursive": 8240, "launched": null}));
    assert_eq!(recurses["variants"][0]["frames"], recurses["frames"]);
    assert_eq!(shown("recurses_and_more", &file)[0]["stack"], 16384);
    let document: Value = serde_json::from_slice(&show("reduce", &file, &["--json"]).stdout).unwrap();
    let [float, double] = document["kernels"].as_array().unwrap().as_slice() else { panic!("{document}") };
    assert_eq!((&float["stack"], &double["stack"]), (&json!(8192), &json!(16384)));
}

#[test]
fn without_a_signature_types_come_from_ptx() {
    let text = String::from_utf8(show("wide::plain", &checked(), &[]).stdout).unwrap();
    let expected = "types     as PTX tells: .u32, .b8[8]; not signs, what addresses point to, and .b types\n";
    assert!(text.contains(expected), "{text}");
    assert_eq!(shown("wide::plain", &checked())[0]["ptx_types"], json!(["u32", "b8[8]"]));
    assert_eq!(shown("wide::fill", &checked())[0]["ptx_types"], Value::Null);
}

#[test]
fn unreadable_variants_are_reported_with_their_image() {
    let file = Build::default().executable("deep");
    let output = show("reduce", &file, &[]);
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert_eq!(text.matches("needs     unknown, because part of its image cannot be read\n").count(), 2);
    let unread = "\nunread: a variant of `images/newer.fatbin` for sm_90 cannot be read: a fatbin has entries of kind 127, ";
    assert_eq!(text.matches(unread).count(), 1, "{text}");
    assert!(fails(output, 15).starts_with("1 variant of 1 image could not be read (see above)"));
    let document: Value = serde_json::from_slice(&show("reduce", &file, &["--json"]).stdout).unwrap();
    let float = &document["kernels"][0];
    assert_eq!(float["needs"], json!(["unknown"]));
    assert_eq!(float["variants"].as_array().unwrap().len(), 2);
    let list = include_str!("../../docs/list-json.md");
    let documentation = [include_str!("../../docs/show-json.md"), list].concat();
    are_documented(&[float, &float["frames"]], &documentation);
}

#[test]
fn programs_get_json_as_documented() {
    let kernels = shown("report_nan", &checked());
    let [kernel] = kernels.as_slice() else { panic!("{kernels:?}") };
    assert_eq!(kernel["summary"], "Prints the index of each NaN.");
    assert_eq!(kernel["cuda"], "report_nan(unsigned int, const float*)");
    assert_eq!(kernel["needs"], json!(["printf"]));
    assert_eq!(
        kernel["image"],
        json!({"file": "images/diagnose.cubin", "bytes": 10656, "variants": ["sm_90"], "baked": []})
    );
    assert_eq!(kernel["image_kind"], "cubin");
    assert_eq!(kernel["certain"], true);
    assert_eq!(
        kernel["variants"],
        json!([{
            "kind": "cubin",
            "target": "sm_90",
            "ptx": null,
            "toolkit": "13.0",
            "resources": {
                "registers": 24, "static_shared": 0, "reserved_shared": 0, "constants": 544, "local_frame": 8, "stack": 8,
            },
            "limits": {
                "max_threads": null, "required_threads": null, "min_blocks": null,
                "cluster": null, "max_cluster": null,
            },
            "needs": ["printf"],
            "frames": {"recursive": null, "launched": null},
            "code_bytes": 0x280,
        }])
    );
    let list = include_str!("../../docs/list-json.md");
    let documentation = [include_str!("../../docs/show-json.md"), list].concat();
    let variant = &kernel["variants"][0];
    are_documented(&[kernel, variant, &variant["resources"], &variant["limits"]], &documentation);
}

#[test]
fn a_kernel_is_named_by_path_symbol_or_cpp_name() {
    let file = checked();
    assert_eq!(paths("checked::wide::fill", &file), ["checked::wide::fill"]);
    assert_eq!(paths("wide::fill", &file), ["checked::wide::fill"]);
    assert_eq!(paths("fill", &file), ["checked::narrow::fill", "checked::wide::fill"]);
    assert_eq!(paths("_Z4copyPKfPfj", &file), ["checked::wide::copy"]);
    assert_eq!(paths("reduce<float, 128u>", &file), ["checked::reduce_floats"]);
    assert_eq!(paths("reduce", &file), ["checked::reduce_doubles", "checked::reduce_floats"]);
}

#[test]
fn an_unknown_name_is_answered_with_near_names() {
    let file = checked();
    assert_eq!(
        fails(show("reduce_float", &file, &[]), 7),
        "no kernel `reduce_float`: did you mean `checked::reduce_floats` or `checked::reduce_doubles`?"
    );
    for name in ["ill", "", "zzz", "::"] {
        let message = fails(show(name, &file, &[]), 7);
        assert!(message.starts_with(&format!("no kernel `{name}`: ")), "{message}");
    }
    assert_eq!(fails(show("zzz", &file, &[]), 7), "no kernel `zzz`: `cargo kernels list` shows all kernels");
}

#[test]
fn images_that_the_record_does_not_tell_apart_are_said_to_be() {
    // The images have the same length and the same kernels. Only one of them allows a block of 256 threads.
    let file = checked();
    let fill = shown("wide::fill", &file);
    assert_eq!(fill[0]["certain"], false);
    assert_eq!(fill[0]["variants"][0]["limits"]["max_threads"], 256);
    let text = String::from_utf8(show("wide::fill", &file, &[]).stdout).unwrap();
    assert!(text.contains("PTX, or another one of this length with this kernel\n"), "{text}");
}

/// Returns the output for three kernels with images of all kinds, without the binary's path.
fn facts(file: &Path) -> Vec<Value> {
    let kernels = ["reduce_floats", "report_nan", "wide::fill"].iter().flat_map(|name| shown(name, file));
    kernels
        .map(|mut kernel| {
            kernel["binary"] = Value::Null;
            // Every build of the library has a different copy number.
            kernel["copy"] = Value::Null;
            kernel
        })
        .collect()
}

#[test]
fn images_are_found_however_the_program_was_built() {
    let expected = facts(&checked());
    assert!(expected.iter().all(|kernel| !kernel["variants"].as_array().unwrap().is_empty()), "{expected:?}");
    for (args, flags) in [(&["--release"][..], String::new()), (&LTO, format!("{FAT} -Cstrip=symbols"))] {
        let executable = Build { args, flags: &flags }.executable("checked");
        assert_eq!(facts(&executable), expected, "{args:?}");
        lines(std::process::Command::new("strip").arg("-s").arg(&executable));
        assert_eq!(facts(&executable), expected, "{args:?} and stripped");
    }
}

#[test]
fn without_a_path_the_package_is_built() {
    let output = cargo_kernels_command()
        .args(["show", "narrow::fill", "--json"])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/checked"))
        .env("CARGO_TARGET_DIR", tests::target())
        .output()
        .unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["kernels"][0]["path"], "checked::narrow::fill");
}

#[test]
fn a_missing_argument_or_file_is_an_error() {
    assert_eq!(cargo_kernels(["show"]).status.code(), Some(2));
    assert_eq!(
        fails(show("fill", Path::new("/nowhere/at/all"), &[]), 3),
        "there is no file `/nowhere/at/all`"
    );
}

#[test]
fn a_kernel_of_an_image_alone_is_shown() {
    let image = |name: &str| {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        workspace.join("kernel-registry-image/tests/images").join(name)
    };
    let file = image("odd.nvcc13.ptx");
    let output = show("bounded", &file, &[]);
    let text = String::from_utf8(output.stdout).unwrap().replace(&file.display().to_string(), "FILE");
    let expected = "\
bounded in FILE
    C++       bounded(int*)
    symbol    _Z7boundedPi
    takes     .u64

    VARIANT          TOOLKIT  REGISTERS  SHARED  CONSTANT  FRAME  STACK  LAUNCH                                  NEEDS
    sm_90a, PTX 9.0  13.0     -          -       -         -      -      block of at most 256, 2 blocks or more  -
";
    assert_eq!(text, expected);
    let message = fails(show("bouned", &file, &[]), 7).replace(&file.display().to_string(), "FILE");
    assert!(message.starts_with("no kernel `bouned` in `FILE`: did you mean `bounded`"), "{message}");

    let shown = shown("plain", &image("odd.sm_90.cubin"));
    let documentation = include_str!("../../docs/show-json.md");
    are_documented(&[&shown[0], &shown[0]["params"][0]], documentation);
    assert_eq!(shown[0]["params"][3], json!({ "offset": 10, "size": 1, "align": null, "ptx": null }));
    assert_eq!((&shown[0]["symbol"], &shown[0]["cuda"]), (&json!("plain"), &Value::Null));

    // In this file machine code without types comes first, and PTX with types follows.
    let shown = self::shown("spread", &image("aligned.fatbin"));
    assert_eq!(shown[0]["params"][1], json!({ "offset": 32, "size": 128, "align": null, "ptx": "b8[128]" }));

    let damaged = tests::file("damaged.ptx", b".version 8.0\n.target sm_75\n.entry k(");
    assert!(fails(show("k", &damaged, &[]), 6).contains("damaged.ptx"));
}

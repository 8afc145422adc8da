//! Tests that the command reports the unreadable parts of an image once for each image, with numbers, and in its exit code.

#[path = "../../kernel-registry-image/tests/common/packed.rs"]
mod packed;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use packed::container;
use serde_json::{Value, json};
use tests::{Build, are_documented, cargo_kernels, file};

const MIB: usize = 1 << 20;

fn run(args: &[&dyn AsRef<OsStr>]) -> (i32, String, String) {
    let Output { status, stdout, stderr } = cargo_kernels(args.iter().map(AsRef::as_ref));
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

fn json_of(args: &[&dyn AsRef<OsStr>], code: i32) -> Value {
    let (actual, stdout, stderr) = run(args);
    assert_eq!(actual, code, "{stderr}");
    serde_json::from_str(&stdout).unwrap()
}

/// Writes a file with kernels in machine code, three containers that would unpack to more than is allowed, and one that would not.
fn partly() -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut bytes =
        fs::read(workspace.join("kernel-registry-image/tests/images/reduce.none.fatbin")).unwrap();
    for number in 0..3 {
        bytes.extend(container(&format!("large{number}"), 257 * MIB, 2 * MIB));
    }
    bytes.extend(container("small", MIB, MIB));
    file("partly.fatbin", &bytes)
}

const SAID: &str = "could not be read (see above), so kernels may be missing";

#[test]
fn a_file_of_containers_is_shown_in_full() {
    let containers = (0..6).flat_map(|number| container(&format!("k{number}"), 64 * MIB, 4 * MIB));
    let path = file("containers.fatbin", &containers.collect::<Vec<u8>>());
    let (code, text, errors) = run(&[&"show", &"--all", &path]);
    assert_eq!((code, errors.as_str()), (0, ""));
    assert!(text.ends_with("\n6 kernels of 1 image\n"), "{text}");
}

#[test]
fn show_tells_once_what_was_not_read() {
    let path = partly();
    let (code, text, errors) = run(&[&"show", &"--all", &path]);
    let name = path.display();
    let end = format!(
        "\n4 kernels of 1 image\nunread: 3 variants of `{name}` for sm_90 cannot be read; the first: a packed part is too large: it \
         unpacks to 269484032 bytes or more, and there is room for 268435456; build it with -compress-mode=none\n"
    );
    assert!(text.ends_with(&end), "{text}");
    assert_eq!(text.matches("cannot be read").count(), 1);
    assert_eq!((code, errors), (15, format!("error: 3 variants of 1 image {SAID}\n")));

    let document = json_of(&[&"show", &"--all", &path, &"--json"], 15);
    assert_eq!(document["schema"], 2);
    assert_eq!(document["summary"], json!({ "kernels": 4, "images": 1, "unread": 3 }));
    let [image] = document["images"].as_array().unwrap().as_slice() else { panic!("{document}") };
    assert_eq!(image["unread"].as_array().unwrap().len(), 3);
    assert_eq!((&image["kernels"], &image["variants"]), (&json!(4), &json!(4)));
    assert_eq!(image["unread"][0]["target"], "sm_90");
    assert!(document["kernels"].as_array().unwrap().iter().all(|kernel| kernel.get("unread").is_none()));
    let documentation = include_str!("../../docs/show-json.md");
    are_documented(&[&document, &document["summary"], image, &image["unread"][0]], documentation);

    // The unreadable part may contain the kernel of this name, too.
    let (code, text, _) = run(&[&"show", &"small", &path]);
    assert_eq!((code, text.matches("cannot be read").count()), (15, 1), "{text}");
}

#[test]
fn what_was_not_read_is_not_taken_for_equal_or_fitting() {
    let path = partly();
    let (code, text, errors) = run(&[&"diff", &path, &path]);
    assert_eq!((code, text.matches("cannot be read").count()), (15, 2), "{text}");
    assert_eq!(errors, format!("error: 6 variants of 2 images {SAID}\n"));
    // The JSON of `show` tells it, too.
    let (_, shown, _) = run(&[&"show", &"--all", &path, &"--json"]);
    let shown = file("shown.json", shown.as_bytes());
    let document = json_of(&[&"diff", &shown, &shown, &"--json"], 15);
    assert_eq!(document["notes"].as_array().unwrap().len(), 2, "{document}");

    let fit: [&dyn AsRef<OsStr>; 5] = [&"fit", &"reduce<float, 256u>", &path, &"--grid=1", &"--block=256"];
    let (code, text, errors) = run(&fit);
    assert_eq!((code, text.matches("cannot be read").count()), (15, 1), "{text}");
    assert_eq!(errors, format!("error: 3 variants of 1 image {SAID}\n"));
    let document = json_of(&[fit[0], fit[1], fit[2], fit[3], fit[4], &"--json"], 15);
    assert_eq!(document["unread"].as_array().unwrap().len(), 1);
    are_documented(&[&document], include_str!("../../docs/fit-json.md"));
}

#[test]
fn what_was_not_read_is_not_declared_in_silence() {
    let path = partly();
    let folder = path.with_extension("folder");
    fs::create_dir_all(&folder).unwrap();
    fs::copy(&path, folder.join("partly.fatbin")).unwrap();
    let module = file("partly.rs", b"");
    let runs: [&[&dyn AsRef<OsStr>]; 3] = [
        &[&"declare", &path, &"--image=x.fatbin"],
        &[&"declare", &path, &"--image=x.fatbin", &"--output", &module],
        &[&"declare", &folder, &"--output", &folder.join("out")],
    ];
    for run_of in runs {
        let (code, _, errors) = run(run_of);
        assert_eq!(code, 15, "{errors}");
        assert_eq!(errors.split_whitespace().filter(|word| *word == "warning:").count(), 1, "{errors}");
        assert!(errors.ends_with(&format!("error: 3 variants of 1 image {SAID}\n")), "{errors}");
    }
    assert!(fs::read_to_string(&module).unwrap().contains("fn reduce"));
}

#[test]
fn check_tells_what_it_did_not_compare() {
    // A newer toolkit made an image of this program.
    let program = Build::default().executable("deep");
    let (code, text, errors) = run(&[&"check", &program]);
    assert!(
        text.contains("\nunread: a variant of `images/newer.fatbin` for sm_90 cannot be read: "),
        "{text}"
    );
    assert!(text.ends_with(", 1 unread\n"), "{text}");
    assert_eq!((code, errors), (15, format!("error: 1 variant of 1 image {SAID}\n")));
    let document = json_of(&[&"check", &program, &"--json"], 15);
    let mut findings = document["findings"].as_array().unwrap().iter();
    let finding = findings.find(|finding| finding["what"] == "unread").unwrap();
    assert_eq!((&finding["images"], &finding["denied"]), (&json!(["images/newer.fatbin"]), &json!(true)));
    assert_eq!((&finding["kernel"], &finding["symbol"]), (&Value::Null, &Value::Null));

    let document = json_of(&[&"show", &"reduce", &program, &"--json"], 15);
    assert_eq!(document["summary"], json!({ "kernels": 2, "images": 1, "unread": 1 }));
    are_documented(&[&document["images"][0]], include_str!("../../docs/show-json.md"));
}

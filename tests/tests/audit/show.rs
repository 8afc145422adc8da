//! Tests that `show` lists the contents of a preload, and names files that have changed since.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use kernel_audit::preload::{hash, images};
use serde_json::Value;
use tests::{cargo_kernels_command, scratch_folder};

use super::{audit, python, text};

/// Returns what `show` prints, whatever the preload.
fn show(options: &[&str], file: &Path) -> String {
    let output = cargo_kernels_command().args(["audit", "show"]).args(options).arg(file).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_recorded_folder_says_what_it_has() {
    needs_python!();
    let folder = scratch_folder();
    fs::create_dir(folder.join("record")).unwrap();
    let record = folder.join("record");
    // The test's own program loads an image before.
    let program = python(
        r"
module = ctypes.c_void_p()
CODE = b'.version 8.0\n.target sm_75\n.address_size 64\n.visible .entry k() { ret; }\n'
assert cuda.cuModuleLoadData(ctypes.byref(module), CODE) == 0
",
    );
    let options = ["--record", record.to_str().unwrap()];
    let (output, _) = audit(&options, &["python3", "-c", &program]);
    assert!(output.status.success(), "{}", text(&output.stderr));

    let shown = show(&[], &record);
    let place = images(&record.join("late.preload"));
    assert!(shown.contains(", recorded on simulated NVIDIA H200 (9.0)\n"), "{shown}");
    assert!(shown.contains(&format!("copies in {}: 2 images\n", place.display())), "{shown}");
    assert!(shown.contains("machine code of 2 PTX images for sm_90, "), "{shown}");
    let report: Value = serde_json::from_str(&show(&["--json"], &record)).unwrap();
    let own =
        ["late.preload", "late.preload.baked"].map(|name| fs::metadata(record.join(name)).unwrap().len());
    let copies = fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len());
    assert_eq!(report["bytes"], own.into_iter().chain(copies).sum::<u64>());
    let labels = show(&["--labels"], &record);
    let capability = report["devices"][0]["compute_capability"].as_str().unwrap().replace('.', "");
    let summary = format!(
        "--label=model.cache.image/summary={{\"targets\":[{{\"backend\":\"cuda\",\"arch\":\"{capability}\",\"warp_size\":32}}]}}\n"
    );
    assert!(labels.contains(&summary) && labels.contains("entry-count=4\n"), "{labels}");

    // Moved, it's the same; without the copies it isn't.
    let moved = folder.join("moved");
    fs::rename(&record, &moved).unwrap();
    assert_eq!(show(&[], &moved), shown.replace(record.to_str().unwrap(), moved.to_str().unwrap()));
    fs::remove_dir_all(images(&moved.join("late.preload"))).unwrap();
    assert!(show(&[], &moved).contains("not there, so loaded late"));
}

#[test]
fn what_is_not_as_recorded_is_said() {
    let folder = scratch_folder();
    let (library, file) = (folder.join("lib.so"), folder.join("a.preload"));
    fs::write(&library, "image, other").unwrap();
    let (library, own) = (library.display(), hash(b"image"));
    let lines = format!(
        "kernel-registry preload 1\nlibrary {own:016x} 5 0x0 {library}\n    one\nlibrary {own:016x} 5 0x7 {library}\n    two\n\
         library 01 5 0x0 /no/such.so\n    three\nptx - module 01 5 0x0 /no/such.ptx\nstack 4096\n\
         nvrtc {0} {0} a program\n",
        "ab".repeat(32)
    );
    fs::write(&file, lines).unwrap();
    let shown = show(&[], &file);
    for line in [
        format!("  {library}: 2 kernels of 2 images; 1 not as recorded, so loaded late"),
        "  /no/such.so: 1 kernel of 1 image; not there, so loaded late".to_owned(),
        "  1 result of NVRTC: not used, ".to_owned(),
        "  1 PTX image without machine code".to_owned(),
        "  a stack of 4096 bytes\n".to_owned(),
    ] {
        assert!(shown.contains(&line), "{line}\n{shown}");
    }
    fs::write(kernel_audit::preload::baked_file(&file), "not baked").unwrap();
    let shown = show(&[], &file);
    assert!(shown.contains("machine code of PTX: not used, it is not a file of baked code"), "{shown}");

    let odd = folder.join(std::ffi::OsStr::from_bytes(b"odd\xff.preload"));
    fs::copy(&file, &odd).unwrap();
    let report: Value = serde_json::from_str(&show(&["--json"], &odd)).unwrap();
    assert!(report["preload"].as_str().unwrap().ends_with("odd\u{fffd}.preload"), "{report}");

    let output = cargo_kernels_command().args(["audit", "show"]).arg(&folder).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    fs::write(&file, "kernel-registry preload 1\n").unwrap();
    assert!(show(&[], &file).contains("nothing was late when it was recorded"));
}

//! Tests `--record` where runs fail, or records and copies of images are missing or damaged.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::thread;
use std::time::{Duration, Instant};

use kernel_audit::preload::images;
use tests::guide::page;
use tests::{cargo_kernels_command, scratch_folder};

use super::preload::{LATE, SPINNING, findings, options};
use super::{audit, python, simulated, text};

fn copies(preload: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(images(preload)).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// Merges records and preloads, and returns the output and the text of the new preload.
fn merge(paths: &[&Path], file: &Path) -> (Output, String) {
    let mut command = cargo_kernels_command();
    command.args(["audit", "merge", "--record"]).arg(file).args(paths);
    let output = command.output().unwrap();
    (output, fs::read_to_string(file).unwrap_or_default())
}

#[test]
fn copies_are_found_beside_records_that_were_moved() {
    needs_python!();
    let (folder, program) = (scratch_folder(), python(LATE));
    let [records, moved, file, none] =
        ["R", "moved", "a.preload", "none.preload"].map(|name| folder.join(name));
    let command = ["python3", "-c", &program];
    assert_eq!(findings(&audit(&options("--records", &records), &command)), 4);
    fs::rename(records, &moved).unwrap();
    let record = fs::read_dir(&moved).unwrap().map(|entry| entry.unwrap().path());
    let record = record.into_iter().find(|path| path.extension() == Some(OsStr::new("rec"))).unwrap();
    for path in [&moved, &record] {
        let (output, recorded) = merge(&[path], &file);
        assert_eq!(copies(&file).len(), 1, "{recorded}{}", text(&output.stderr));
        assert_eq!(findings(&audit(&options("--preload", &file), &command)), 0, "{recorded}");
    }

    // A missing image is left out, and no priming is recorded for it.
    fs::remove_dir_all(moved.join("images")).unwrap();
    let (output, recorded) = merge(&[&moved], &none);
    assert!(text(&output.stderr).contains("0 kernels of 0 images for `--preload`; 2 more cannot be"));
    assert_eq!(recorded.matches(".image: this copy is not there\n").count(), 2, "{recorded}");
    assert!(!recorded.contains("prime") && !recorded.contains("\nlibrary "), "{recorded}");
}

#[test]
fn an_image_whose_copy_cannot_be_kept_is_not_recorded() {
    needs_python!();
    let (file, program) = (scratch_folder().join("a.preload"), python(LATE));
    fs::write(images(&file), "no folder").unwrap();
    let (output, _) = audit(&options("--record", &file), &["python3", "-c", &program]);
    assert!(text(&output.stderr).contains("0 kernels of 0 images for `--preload`; 2 more cannot be"));
    let recorded = fs::read_to_string(&file).unwrap();
    assert!(
        recorded.contains("no copy can be kept in `") && recorded.contains("a.preload.images`: "),
        "{recorded}"
    );
}

/// Copies of images are named in the preload, one on a line.
#[test]
fn a_name_that_fits_no_line_is_refused_before_the_program_runs() {
    let folder = scratch_folder();
    for name in ["new\nline.preload", "escape\u{1b}[2J.preload", "folder\n/late.preload"] {
        let file = folder.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        let output = simulated().arg("--record").arg(&file).args(["echo", "it ran"]).output().unwrap();
        assert_eq!((text(&output.stdout), output.status.code()), ("", Some(2)), "{name:?}");
        assert!(text(&output.stderr).contains("name another file"), "{}", text(&output.stderr));
        assert!(!file.exists() && !text(&output.stderr).contains('\u{1b}'));
        // Where the command is run counts, too.
        let mut command = simulated();
        command.current_dir(file.parent().unwrap()).args(["--record", "late.preload", "echo", "it ran"]);
        let is_refused = command.output().unwrap().status.code() == Some(2);
        assert_eq!(is_refused, name.starts_with("folder"));
    }
}

#[test]
fn a_record_is_as_large_as_the_page_says() {
    needs_python!();
    let length = |more: &[&str]| {
        let folder = scratch_folder();
        let options = [&options("--records", &folder)[..], more].concat();
        audit(&options, &["python3", "-c", &python(LATE)]);
        let paths = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        let mut records = paths.filter(|path| path.extension() == Some(OsStr::new("rec")));
        fs::metadata(records.next().unwrap()).unwrap().len()
    };
    let (usual, other) = (length(&[]), length(&["--events", "100000"]));
    assert_eq!(length(&["--events", "65536"]), usual);
    let page = page("docs/audit-reference.md");
    let size = format!("writes a record of {:.0} MB,", usual as f64 / 1e6);
    assert!(page.contains(&size), "{size}");
    let (room, an_event) = ("65,536", (other - usual) / (100_000 - 65_536));
    let events = format!("{room} events of {an_event} bytes");
    assert!(page.contains(&events), "{events}");
}

/// As long as the process runs, too: a job of a hundred processes would need a gigabyte.
#[test]
fn a_record_takes_the_disk_space_that_it_needs() {
    needs_python!();
    let folder = scratch_folder();
    let blocks = "import glob, os\nprint(*[os.stat(path).st_blocks // 2 for path in glob.glob(os.environ['FOLDER'] + '/*.rec')])";
    let mut command = simulated();
    command.env("FOLDER", &folder).args(options("--records", &folder));
    let output =
        command.args(["--", "python3", "-c", &python(&format!("{LATE}\n{blocks}"))]).output().unwrap();
    let taken = text(&output.stdout).lines().last().and_then(|line| line.parse::<u64>().ok());
    assert!(
        taken.is_some_and(|kibibytes| kibibytes < 512),
        "{}: {}",
        text(&output.stdout),
        text(&output.stderr)
    );
}

/// Loads before the program is ready use preloaded copies too, so the preload must have enough copies.
#[test]
fn loads_before_ready_are_counted() {
    needs_python!();
    let load = |count| {
        format!(
            "
for _ in range({count}):
    assert cuda.cuLibraryLoadData(ctypes.byref(library), PTX, None, None, 0, None, None, 0) == 0
    assert launch(library, b'late') == 0
"
        )
    };
    let program = |count| {
        let launched = "assert launch(library, b'later') == 0\ncuda.kernel_registry_audit_ready()";
        python(&format!("{launched}{}print('done')", load(count)))
    };
    let file = scratch_folder().join("a.preload");
    let run = |options: &[&str], program: &str| findings(&audit(options, &["python3", "-c", program]));
    let both = [options("--preload", &file), options("--record", &file)].concat();
    // A later run may load the image more often.
    for count in [1, 3] {
        let program = program(count);
        assert_ne!(run(&both, &program), 0);
        let recorded = fs::read_to_string(&file).unwrap();
        assert!(recorded.contains(&format!("\n{} x library ", count + 1)), "{recorded}");
        assert_eq!(run(&both, &program), 0, "{recorded}");
        assert_eq!(run(&options("--preload", &file), &program), 0, "{recorded}");
    }

    // Both copies are loaded before the program is ready, and used afterwards.
    let file = scratch_folder().join("b.preload");
    let program = python(
        "
libraries = [library.value, start().value]
cuda.kernel_registry_audit_ready()
for library in libraries:
    assert launch(ctypes.c_void_p(library), b'late') == 0
print('done')
",
    );
    assert_eq!(run(&options("--record", &file), &program), 2);
    assert_eq!(run(&options("--preload", &file), &program), 0);
}

#[test]
fn a_run_that_records_nothing_leaves_an_earlier_file() {
    let (folder, file) = (scratch_folder(), scratch_folder().join("a.preload"));
    let good = "kernel-registry preload 1\nstack 64\n";
    fs::write(&file, good).unwrap();
    let output = simulated().args(options("--record", &file)).arg("false").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("a.preload` is not written: no process left a record"));
    assert_eq!(fs::read_to_string(&file).unwrap(), good);

    let reports = ["--record", "--json", "--html"].map(|option| (option, folder.join(option)));
    let mut command = simulated();
    reports.iter().for_each(|(option, file)| _ = command.args(options(option, file)));
    assert_eq!(command.arg("no-such-program").output().unwrap().status.code(), Some(127));
    assert!(reports.iter().all(|(_, file)| !file.exists()), "no empty file is left");

    for (file, code) in [("-", 2), ("/dev/null", 1), ("/no/such/folder/a", 1)] {
        let output = simulated().args(["--record", file, "true"]).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
    }
}

#[test]
fn only_copies_that_the_file_named_are_deleted() {
    needs_python!();
    let (folder, program) = (scratch_folder(), python(LATE));
    let [file, link] = ["a.preload", "link.preload"].map(|name| folder.join(name));
    let another = program.replace(".version 8.0", "// another\n.version 8.0");
    let record = |file: &Path, program: &str| {
        findings(&audit(&options("--record", file), &["python3", "-c", program]));
        copies(file)
    };
    let before = record(&file, &another);
    assert_eq!(before.len(), 1);
    // This copy belongs to another run, which has not written its file yet.
    let others = before[0].with_file_name("0000000000000001-1.image");
    fs::write(&others, "x").unwrap();
    let after = record(&file, &program);
    assert!(after.len() == 2 && after.contains(&others) && !after.contains(&before[0]), "{after:?}");

    // A link to the file is kept, and no other file is left in the folder.
    std::os::unix::fs::symlink(&file, &link).unwrap();
    assert_eq!(record(&link, &another).len(), 1);
    assert!(link.is_symlink() && fs::read_to_string(&file).unwrap().contains("link.preload.images"));
    // File, link, and for each name a folder of copies and a file of machine code.
    assert_eq!(fs::read_dir(folder).unwrap().count(), 6);
}

#[test]
fn a_pipe_among_records_is_left_out() {
    let folder = scratch_folder();
    let pipe = folder.join("pipe.rec");
    let make = format!("mkfifo {pipe:?}");
    let (output, _) = audit(&options("--records", &folder), &["sh", "-c", &make]);
    assert!(
        text(&output.stderr).contains("pipe.rec` is left out: it is no plain file"),
        "{}",
        text(&output.stderr)
    );
    let (output, _) = merge(&[&folder], &folder.join("a.preload"));
    assert_eq!(output.status.code(), Some(6));
    assert!(text(&output.stderr).contains("pipe.rec` is left out: it is no plain file"));
}

#[test]
fn a_folder_without_records_is_named() {
    let (folder, preload) = (scratch_folder(), scratch_folder().join("a.preload"));
    fs::write(&preload, "kernel-registry preload 1\nstack 64\n").unwrap();
    let (output, merged) = merge(&[&folder, &preload], &folder.join("b.preload"));
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stderr).contains("` has no records"), "{}", text(&output.stderr));
    assert!(merged.contains("stack 64"), "{merged}");

    // A file without an effect gives no warning here.
    fs::write(&preload, "stack 64").unwrap();
    assert_eq!(merge(&[&preload], &folder.join("c.preload")).0.status.code(), Some(6));
}

/// The first run records the image whose loading hung. The second preloads the image and records its kernel, and the third preloads
/// both.
#[test]
fn a_load_that_hung_is_recorded() {
    needs_python!();
    let file = scratch_folder().join("hung.preload");
    let program = python(&format!(
        "{SPINNING}{}",
        r"
module, function = ctypes.c_void_p(), ctypes.c_void_p()
cuda.kernel_registry_audit_ready()
spin()
assert cuda.cuModuleLoadData(ctypes.byref(module), PTX) == 0
assert cuda.cuModuleGetFunction(ctypes.byref(function), module, b'late') == 0
assert cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, (ctypes.c_void_p * 1)(ctypes.addressof(ctypes.c_uint64())), None) == 0
flag.value = 1
print('done')
"
    ));
    let run = |given: bool| {
        let given = if given { options("--preload", &file).to_vec() } else { Vec::new() };
        let abort = ["--hang-after", "0.3", "--on-hang", "abort"];
        let options = [given, options("--record", &file).to_vec(), abort.to_vec()].concat();
        audit(&options, &["python3", "-c", &program]).0
    };
    assert_eq!(run(false).status.signal(), Some(6));
    let recorded = fs::read_to_string(&file).unwrap();
    assert!(recorded.contains("\nmodule "), "{recorded}");
    let outputs: Vec<_> = (0..3).map(|_| run(true)).collect();
    let last = outputs.last().unwrap();
    assert_eq!(text(&last.stdout), "done", "{}{}", text(&last.stderr), fs::read_to_string(&file).unwrap());
}

/// Workers in containers may share a volume. Each of these adds a kernel of its own, and all end at about the same time.
#[test]
fn commands_that_add_to_one_preload_lose_nothing() {
    needs_python!();
    const COMMANDS: usize = 20;
    let file = scratch_folder().join("shared.preload");
    let begin = Instant::now() + Duration::from_secs(1);
    thread::scope(|scope| {
        for number in 0..COMMANDS {
            let file = &file;
            scope.spawn(move || {
                let program =
                    python("assert launch(library, b'late') == 0").replace("late", &format!("late_{number}"));
                thread::sleep(begin.saturating_duration_since(Instant::now()));
                let mut command = simulated();
                command.args(options("--preload", file)).args(options("--record", file));
                let output = command.args(["python3", "-c", &program]).output().expect("it runs");
                let said = text(&output.stderr);
                assert!(output.status.success() && !said.contains("warning"), "{said}");
            });
        }
    });
    let recorded = fs::read_to_string(&file).unwrap();
    for number in 0..COMMANDS {
        assert!(recorded.contains(&format!("late_{number}\n")), "{number}: {recorded}");
    }
    assert_eq!(copies(&file).len(), COMMANDS, "each image has its copy");
    let left = fs::read_dir(file.parent().unwrap()).unwrap().count();
    assert!(left <= 3, "the preload, its images and their machine code: {left} files");
}

/// A library that was updated loads other images than before.
#[test]
fn what_was_preloaded_and_never_used_is_told() {
    needs_python!();
    let file = scratch_folder().join("old.preload");
    let program = python("assert launch(library, b'late') == 0");
    let (output, _) = audit(&options("--record", &file), &["python3", "-c", &program]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for (program, used) in [(program.replace("later", "other"), false), (program, true)] {
        let (output, report) = audit(&options("--preload", &file), &["python3", "-c", &program]);
        let said = text(&output.stderr);
        let preloaded = report["processes"][0]["preloaded"].as_array().unwrap();
        let mut images = preloaded.iter().filter(|event| event["subject"]["type"] == "image").peekable();
        assert!(images.peek().is_some() && images.all(|event| event["used"] == used), "{preloaded:#?}");
        assert_eq!(said.contains("preloaded, never used: "), !used, "{said}");
    }
}

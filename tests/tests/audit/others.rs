//! Tests that other users change no files of this user: neither by files in folders where all users may write, nor by paths in
//! their own files.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use kernel_audit::preload::{hash, images, keep_copy};
use tests::{cargo_kernels_command, fails, left_out, limit, scratch_folder};

use super::neighbours::compiled;
use super::text;

/// The id of a user that is neither root nor the user who runs the tests.
const NOBODY: u32 = 65_534;

/// Returns the packed command, which has the simulated driver beside it and needs no cargo.
pub(super) fn packed() -> Command {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let folder = scratch_folder();
        let output =
            cargo_kernels_command().args(["audit", "pack", "--offline", "--sim"]).arg(&folder).output();
        assert!(output.expect("the tool runs").status.success());
        folder
    });
    let mut command = Command::new(folder.join("cargo-kernels"));
    command.args(["kernels", "audit", "--sim"]);
    command
}

/// Merges records or a preload into another preload. The command may run for seconds only, and take 4 GB of memory at most.
fn merge(into: &Path, from: &Path) -> Output {
    let tool = cargo_kernels_command();
    let mut command = Command::new("timeout");
    command.args([&*limit(30).as_secs().to_string(), "sh", "-c", "ulimit -v 4000000; exec \"$@\"", "sh"]);
    command.arg(tool.get_program()).args(tool.get_args()).args(["audit", "merge", "--record"]).arg(into);
    command.arg(from).output().expect("the tool runs")
}

/// Returns whether the test runs as root, who can create files of other users.
fn is_root() -> bool {
    let is_root = fs::metadata("/proc/self").is_ok_and(|its| its.uid() == 0);
    if !is_root {
        left_out("only root makes files of other users", "REQUIRE_ROOT");
    }
    is_root
}

/// Creates a folder where all users may create files, and remove their own.
fn folder_of_all() -> PathBuf {
    let folder = scratch_folder();
    fs::set_permissions(&folder, Permissions::from_mode(0o1777)).expect("it is ours");
    folder
}

/// Returns the folder from which the program loads the driver's stand-in.
fn front(mut command: Command) -> PathBuf {
    let output = command.args([
        "sh",
        "-c",
        "echo \"${LD_LIBRARY_PATH%%:*}\"; test -e \"${LD_LIBRARY_PATH%%:*}/libcuda.so.1\"",
    ]);
    let output = output.output().expect("the tool runs");
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout).into()
}

/// A process of the program can live longer than the command, and has the folder's name in its environment.
#[test]
fn no_other_user_can_recreate_the_folder_in_front_of_the_driver() {
    const HOMES: [&str; 4] = ["HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR", "CACHE_DIRECTORY"];
    let cannot_be_made_anew = |folder: &Path| {
        let there = folder.ancestors().find(|path| path.exists()).expect("a root");
        let mode = fs::metadata(there).expect("it is there").mode();
        assert!(mode & 0o022 == 0, "{} in {}: {mode:o}", folder.display(), there.display());
    };
    let own = tempfile::tempdir().expect("a folder");
    let mut command = packed();
    let folder = front({
        command.env("XDG_CACHE_HOME", own.path());
        command
    });
    assert!(folder.starts_with(own.path().canonicalize().expect("it is there")), "{}", folder.display());
    cannot_be_made_anew(&folder);
    assert_eq!(
        fs::read_dir(folder.parent().expect("it has one")).expect("it stays").count(),
        0,
        "nothing is left there"
    );

    // A service of systemd has none of these variables.
    let mut command = packed();
    HOMES.iter().for_each(|name| _ = command.env_remove(name));
    cannot_be_made_anew(&front(command));

    // Under `sudo` the home belongs to another user.
    if is_root() {
        let home = scratch_folder();
        lchown(&home, Some(NOBODY), None).expect("root may");
        let mut command = packed();
        HOMES.iter().for_each(|name| _ = command.env_remove(name));
        cannot_be_made_anew(&front({
            command.env("HOME", &home);
            command
        }));
        assert_eq!(fs::read_dir(&home).expect("it is there").count(), 0, "nothing is made there");
    }
}

#[test]
fn a_killed_command_leaves_nothing_for_long() {
    let [own, temporary] = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    let (own, temporary) = (own.path(), temporary.path());
    let in_own = |mut command: Command| {
        command.env("XDG_CACHE_HOME", own).env("TMPDIR", temporary);
        command
    };
    let killed = in_own(packed()).args(["sh", "-c", "kill -KILL $PPID"]).status();
    assert!(!killed.expect("the tool runs").success());
    let files = |folder: &Path| {
        fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let left = || files(own).iter().flat_map(|folder| files(folder)).count();
    assert_eq!((left(), files(temporary).len()), (1, 1), "it is killed, and cannot clean up");
    // The folders of a running command remain.
    let looks = "front=${LD_LIBRARY_PATH%%:*}; cd -P \"$front/records\"
        env -u KERNEL_REGISTRY_AUDIT_DRIVER \"$0\" kernels audit --sim true; test -d \"$front\" && test -d \"$PWD\"";
    let mut command = in_own(packed());
    let tool = command.get_program().to_owned();
    let output = command.args(["sh", "-c", looks]).arg(tool).output().expect("the tool runs");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!((left(), files(temporary)), (0, vec![]));
}

/// The `/tmp` of a container can be small, and a server may replace its workers for weeks.
#[test]
fn records_of_processes_that_ended_long_ago_are_removed() {
    let worker = "#include <dlfcn.h>\nint main(void) { ((int (*)(void))dlsym(dlopen(\"libcuda.so.1\", RTLD_NOW), \"cuCtxSynchronize\"))(); return 0; }";
    let worker = compiled(&scratch_folder(), "worker", worker, &[]);
    let worker = worker.to_str().expect("a path");
    let server = r#"for _ in $(seq $1); do "$0"; done; sleep 1; ls "$KERNEL_REGISTRY_AUDIT_RECORDS" | grep -c '[.]rec$'"#;
    let run = |workers: &str, options: &[&str]| {
        let mut command = packed();
        let output = command
            .args(options)
            .args(["bash", "-c", server, worker, workers])
            .output()
            .expect("the tool runs");
        assert!(output.status.success(), "{}", text(&output.stderr));
        let count: usize = text(&output.stdout).trim().parse().expect("a number");
        (count, text(&output.stderr).to_owned())
    };
    let (count, said) = run("40", &[]);
    assert!((32..38).contains(&count), "{count}");
    let removed = format!("the records of {} processes without findings were removed", 40 - count);
    assert!(said.contains(&removed), "{removed}: {said}");
    let records = scratch_folder();
    assert_eq!(run("34", &["--records", records.to_str().expect("a path")]).0, 34);
}

#[test]
fn a_preload_names_no_file_that_is_deleted_elsewhere() {
    let folder = scratch_folder();
    let [file, from, victim] = ["a.preload", "from.preload", "victim"].map(|name| folder.join(name));
    fs::write(&from, "kernel-registry preload 1\nstack 64\n").expect("a file");
    fs::create_dir(images(&file)).expect("a folder");
    fs::create_dir(&victim).expect("a folder");
    let [disk, own] = [victim.join("disk.image"), images(&file).join("own.image")];
    for path in [&disk, &own] {
        fs::write(path, "precious").expect("a file");
    }
    let line = |path: PathBuf| format!("module 0000000000000001 8 0x0 {}\n", path.display());
    let lines = [images(&file).join("../victim/disk.image"), own.clone()].map(line).concat();
    fs::write(&file, format!("kernel-registry preload 1\n{lines}")).expect("a file");
    let output = merge(&file, &from);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(disk.exists() && !own.exists(), "only what is directly in the folder");
}

#[test]
fn only_plain_files_are_read() {
    let (folder, image) = (scratch_folder(), b".version 8.0");
    let from = folder.join("from.preload");
    let copy = keep_copy(&images(&from), image, hash(image)).expect("a copy");
    let line = format!("module {:016x} {} 0x0 {}", hash(image), image.len(), copy.display());
    fs::write(&from, format!("kernel-registry preload 1\n{line}\n")).expect("a file");
    for kind in ["pipe", "zero"] {
        let file = folder.join(kind);
        fs::create_dir(images(&file)).expect("a folder");
        let there = images(&file).join(copy.file_name().expect("a name"));
        match kind {
            "pipe" => assert!(Command::new("mkfifo").arg(&there).status().expect("it runs").success()),
            _ => symlink("/dev/zero", &there).expect("a link"),
        }
        let output = merge(&file, &from);
        assert!(output.status.success(), "{kind}: {:?} {}", output.status, text(&output.stderr));
        let copies = fs::read_dir(images(&file)).expect("a folder").flatten().map(|entry| entry.path());
        let copies: Vec<_> = copies.filter(|path| *path != there).collect();
        assert_eq!(copies.len(), 1, "{kind}: the copy is beside it");
        assert_eq!(fs::read(&copies[0]).expect("a copy"), [image.as_slice(), &[0]].concat());
    }
}

/// In a folder where all users may write, links of other users are not followed.
#[test]
fn links_of_other_users_are_not_followed() {
    if !is_root() {
        return;
    }
    let (folder, victim) = (folder_of_all(), scratch_folder().join("victim"));
    let link = folder.join("link");
    fs::write(&victim, "precious").expect("a file");
    symlink(&victim, &link).expect("a link");
    lchown(&link, Some(NOBODY), None).expect("root may");
    for option in ["--record", "--json", "--html", "--trace"] {
        let mut command = packed();
        let output = command.arg(option).arg(&link).args(["echo", "it ran"]).output().expect("the tool runs");
        assert_eq!(text(&output.stdout), "", "{option}");
        let said = fails(output, 1);
        assert!(said.contains("another user made it"), "{option}: {said}");
        assert_eq!(fs::read_to_string(&victim).expect("a file"), "precious", "{option}");
    }
    let output =
        packed().arg("--records").arg(&link).args(["echo", "it ran"]).output().expect("the tool runs");
    assert_eq!(text(&output.stdout), "", "{}", text(&output.stderr));
    assert!(fails(output, 1).contains("another user made it"));
    // Links of the user and of the folder's owner are followed.
    lchown(&link, Some(0), None).expect("root may");
    fs::write(&victim, "").expect("a file");
    let output = packed().arg("--json").arg(&link).arg("true").output().expect("the tool runs");
    assert!(output.status.success() && link.is_symlink(), "{}", text(&output.stderr));
    assert!(fs::read_to_string(&victim).expect("a file").contains("processes"));
}

#[test]
fn no_copies_go_into_another_users_folder_of_images() {
    if !is_root() {
        return;
    }
    let (folder, elsewhere, image) = (folder_of_all(), scratch_folder(), b".version 8.0");
    let [file, from] = ["a.preload", "from.preload"].map(|name| folder.join(name));
    let copy = keep_copy(&images(&from), image, hash(image)).expect("a copy");
    let line = format!("module {:016x} {} 0x0 {}", hash(image), image.len(), copy.display());
    fs::write(&from, format!("kernel-registry preload 1\n{line}\n")).expect("a file");
    symlink(&elsewhere, images(&file)).expect("a link");
    lchown(images(&file), Some(NOBODY), None).expect("root may");
    let output = merge(&file, &from);
    assert!(text(&output.stderr).contains("0 kernels of 0 images"), "{}", text(&output.stderr));
    assert!(fs::read_to_string(&file).expect("a file").contains("another user made it"));
    assert_eq!(fs::read_dir(elsewhere).expect("a folder").count(), 0);
}

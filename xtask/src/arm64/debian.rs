//! Unpacks qemu, a cross compiler and an arm64 root from Debian's packages. Nothing is installed on the
//! machine.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::debian::{Apt, runs};
use crate::run::{HOST, Outcome, link, remove};

/// The release with the version of qemu that the tests pass with. Its package doesn't need libraries of that
/// release.
const RELEASE_OF_QEMU: &str = "trixie";
const QEMU: &str = "qemu-user";
const CROSS: [&str; 2] = ["gcc-aarch64-linux-gnu", "g++-aarch64-linux-gnu"];
const ROOT: [&str; 5] = ["libc6", "libgcc-s1", "libstdc++6", "python3", "python3-venv"];

/// Programs that tests start under these names. They're the cross compiler's.
const TOOLS: [&str; 9] = ["cc", "gcc", "c++", "g++", "ar", "strip", "objcopy", "readelf", "nm"];

/// Installs everything into a folder, unless it's there.
pub(super) fn install(folder: &Path) -> Outcome {
    // In a virtual environment, Python looks for its library next to the path that it was started by.
    link(Path::new("root/usr/lib"), &folder.join("lib"))?;
    let marker = folder.join("installed");
    let wanted = [&[RELEASE_OF_QEMU, QEMU], &CROSS[..], &ROOT[..], &TOOLS[..]].concat().join("\n");
    if fs::read_to_string(&marker).is_ok_and(|there| there == wanted) {
        return Ok(());
    }
    let codename =
        codename().ok_or("arm64's compiler and libraries are Debian's packages: run this on Debian")?;
    eprintln!("unpacking Debian's packages for arm64 into {}", folder.display());
    // Packages that the machine already has aren't unpacked again.
    let cross = Apt::new(folder, "cross", &codename, "amd64", "/var/lib/dpkg/status")?;
    cross.unpack(&["install", "--yes", "--download-only"], &CROSS)?;
    let root = Apt::new(folder, "root", &codename, "arm64", "/dev/null")?;
    root.unpack(&["install", "--yes", "--download-only"], &ROOT)?;
    let qemu = Apt::new(folder, "qemu", RELEASE_OF_QEMU, "amd64", "/dev/null")?;
    qemu.unpack(&["download"], &[QEMU])?;
    fs::copy(folder.join("qemu/usr/bin/qemu-aarch64"), folder.join("qemu-aarch64"))?;
    remove(&folder.join("qemu"))?;
    remove(&folder.join("apt"))?;
    libraries(folder)?;
    tools(folder)?;
    fs::write(marker, wanted)?;
    Ok(())
}

/// Returns the name of this machine's release of Debian.
fn codename() -> Option<String> {
    let release = fs::read_to_string("/etc/os-release").ok()?;
    let field = |name: &str| {
        let value = release.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))?;
        Some(value.trim_matches('"').to_owned())
    };
    field("ID").filter(|id| id == "debian")?;
    field("VERSION_CODENAME")
}

/// Makes the folder that arm64 programs see as `/usr`.
fn libraries(folder: &Path) -> Outcome {
    let lib = folder.join("libraries/lib");
    remove(&lib)?;
    fs::create_dir_all(&lib)?;
    // In releases from before / and /usr were merged, the most important libraries are in /lib.
    for from in ["usr/lib/aarch64-linux-gnu", "lib/aarch64-linux-gnu"] {
        let from = folder.join("root").join(from);
        if from.is_dir() {
            runs(Command::new("cp").arg("-a").arg(from).arg(&lib))?;
        }
    }
    link(Path::new("aarch64-linux-gnu/ld-linux-aarch64.so.1"), &lib.join("ld-linux-aarch64.so.1"))
}

/// Makes the folder that comes first in `PATH`.
fn tools(folder: &Path) -> Outcome {
    let bin = folder.join("bin");
    remove(&bin)?;
    fs::create_dir_all(&bin)?;
    let script = |name: &str, program: &str| {
        let path = bin.join(name);
        fs::write(&path, format!("#!/bin/sh\nexec {program} \"$@\"\n"))?;
        fs::set_permissions(&path, Permissions::from_mode(0o755))
    };
    for name in TOOLS {
        let tool = match name {
            "cc" => "gcc",
            "c++" => "g++",
            same => same,
        };
        script(name, &format!("/usr/bin/aarch64-linux-gnu-{tool}"))?;
    }
    // Names under which the cross compiler finds other linkers, which link for every processor.
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output()?.stdout;
    let lld = format!("{}/lib/rustlib/{HOST}/bin/rust-lld -flavor gnu", String::from_utf8(sysroot)?.trim());
    script("aarch64-linux-gnu-ld.lld", &lld)?;
    script("aarch64-linux-gnu-ld.mold", "mold")?;
    // Python finds its library next to its executable.
    link(&fs::canonicalize(folder.join("root/usr/bin/python3"))?, &bin.join("python3"))
}

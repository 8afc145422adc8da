//! `cargo xtask pythons`: runs the tests of audited Python programs with each newer version of CPython.

use std::env;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::debian::Apt;
use crate::run::{Outcome, cargo, run, target};

/// The versions that publish the offsets of their structures' members.
const VERSIONS: [&str; 3] = ["3.13", "3.14", "3.15"];
/// The release with all of these versions.
const RELEASE: &str = "forky";
/// Words in the names of tests that run Python programs.
const TESTS: [&str; 4] = ["python", "hangs::", "stretches::", "preload::"];

pub(crate) fn pythons() -> Outcome {
    let folder = target().join("pythons");
    let root = folder.join("root");
    let marker = folder.join("installed");
    let wanted = format!("{RELEASE} {}", VERSIONS.join(" "));
    if !fs::read_to_string(&marker).is_ok_and(|there| there == wanted) {
        eprintln!("unpacking CPython {} into {}", VERSIONS.join(", "), folder.display());
        let packages = VERSIONS.map(|version| format!("python{version}"));
        let apt = Apt::new(&folder, "root", RELEASE, "amd64", "/dev/null")?;
        apt.unpack(&["install", "--yes", "--download-only"], &packages.each_ref().map(String::as_str))?;
        fs::remove_dir_all(folder.join("apt"))?;
        fs::write(marker, wanted)?;
    }
    for version in VERSIONS {
        let bin = folder.join(version);
        script(&bin, &root, version)?;
        let paths = env::split_paths(&env::var_os("PATH").unwrap_or_default()).collect::<Vec<_>>();
        let path = env::join_paths([bin].into_iter().chain(paths))?;
        println!("CPython {version}");
        let mut tests = cargo();
        tests.args(["test", "--locked", "-p", "tests", "--test", "audit", "--"]).args(TESTS);
        run(tests.env("PATH", path).env("REQUIRE_PYTHON", "1"))?;
    }
    Ok(())
}

/// Writes a program `python3`. The interpreter needs its release's C library, which that library's own loader
/// loads. Interposers of the driver come first, as with any program.
fn script(bin: &Path, root: &Path, version: &str) -> Outcome {
    fs::create_dir_all(bin)?;
    let (file, root) = (bin.join("python3"), root.display());
    let libraries = format!("{root}/usr/lib/x86_64-linux-gnu");
    let text = format!(
        "#!/bin/sh\nexec env PYTHONHOME={root}/usr {libraries}/ld-linux-x86-64.so.2 \\\n    \
         --library-path \"$LD_LIBRARY_PATH:{libraries}\" --argv0 python3 {root}/usr/bin/python{version} \"$@\"\n"
    );
    fs::write(&file, text)?;
    Ok(fs::set_permissions(&file, Permissions::from_mode(0o755))?)
}

//! `cargo kernels new`: makes a package with a kernel, its declaration, and a test that needs no GPU. The folder `template` has the
//! files of the package.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{self, Component, Path, PathBuf};
use std::process::{Command, Stdio};

use cargo_metadata::MetadataCommand;
use kernel_registry_command::cargo;

use crate::cli::{New, Vcs};
use crate::commands::declare::names::is_keyword;
use crate::failure::Failure;
use crate::output;

/// The source of the crates in Cargo.toml, unless a checkout is named.
const SOURCE: &str = concat!("git = \"", env!("CARGO_PKG_REPOSITORY"), "\"");
/// The command line by which a CI machine installs cargo-kernels.
const INSTALL: &str = concat!("cargo install --git ", env!("CARGO_PKG_REPOSITORY"), " cargo-kernels");

/// The crates that the package depends on.
const CRATES: [&str; 3] = ["kernel-registry", "kernel-registry-build", "kernel-registry-sim"];

const MANIFEST: (&str, &str) = ("Cargo.toml", include_str!("../../template/manifest.toml"));

/// Each file of the package, with its text in the template.
const TEMPLATE: [(&str, &str); 11] = [
    (".github/workflows/kernels.yml", include_str!("../../template/kernels.yml")),
    (".gitignore", include_str!("../../template/gitignore")),
    MANIFEST,
    ("README.md", include_str!("../../template/README.md")),
    ("build.rs", include_str!("../../template/build.rs")),
    ("cuda/saxpy.cu", include_str!("../../template/cuda/saxpy.cu")),
    ("prebuilt/cuda__saxpy.cu.ptx", include_str!("../../template/prebuilt/cuda__saxpy.cu.ptx")),
    ("prebuilt/index", include_str!("../../template/prebuilt/index")),
    ("src/lib.rs", include_str!("../../template/src/lib.rs")),
    ("src/main.rs", include_str!("../../template/src/main.rs")),
    ("tests/simulated.rs", include_str!("../../template/tests/simulated.rs")),
];

pub(crate) fn run(options: &New) -> Result<(), Failure> {
    let folder = path::absolute(&options.folder).map_err(Failure::not_written(&options.folder))?;
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if let Some(why) = invalid(&name) {
        return Err(Failure::PackageName { name, why });
    }
    let checkout = options.path.as_deref().map(checkout).transpose()?;
    match fs::create_dir(&folder) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            return Err(Failure::Exists { path: options.folder.clone() });
        }
        made => made.map_err(Failure::not_written(&folder))?,
    }
    // The path of the checkout is relative or absolute, as it was given.
    let from_here = match (&checkout, &options.path) {
        (Some(checkout), Some(given)) if given.is_relative() => {
            let folder = fs::canonicalize(&folder).map_err(Failure::not_written(&folder))?;
            Some(relative(&folder, checkout))
        }
        _ => checkout.clone(),
    };
    let filled = |text: &str, is_apart| filled(text, &name, is_apart, from_here.as_deref());
    for (file, text) in TEMPLATE {
        let path = folder.join(file);
        let parent = path.parent().unwrap_or(&folder);
        fs::create_dir_all(parent).map_err(Failure::not_written(parent))?;
        fs::write(&path, filled(text, false)).map_err(Failure::not_written(&path))?;
    }
    let (file, text) = MANIFEST;
    let manifest = folder.join(file);
    if is_refused(&manifest) {
        fs::write(&manifest, filled(text, true)).map_err(Failure::not_written(&manifest))?;
    }
    // The checkout's lock file has versions that were tested.
    if let Some(lock) =
        checkout.as_ref().map(|checkout| checkout.join("Cargo.lock")).filter(|lock| lock.is_file())
    {
        let copy = folder.join("Cargo.lock");
        fs::copy(lock, &copy).map_err(Failure::not_written(&copy))?;
    }
    if options.vcs == Vcs::Git {
        make_repository(&folder);
    }
    // The simulated driver is for Linux.
    let (purpose, command) = if cfg!(target_os = "linux") {
        ("launch its kernel on a simulated GPU", "cargo test")
    } else {
        ("build it", "cargo build")
    };
    output::print(|out| {
        writeln!(out, "made the package `{name}`; to {purpose}:")?;
        writeln!(out, "    cd {}", options.folder.display())?;
        writeln!(out, "    {command}")
    })
}

/// Returns why a package cannot have this name, or `None` if it can.
fn invalid(name: &str) -> Option<&'static str> {
    const TAKEN: [&str; 11] = [
        "alloc",
        "build",
        "core",
        "cudarc",
        "deps",
        "examples",
        "incremental",
        "proc-macro",
        "proc_macro",
        "std",
        "test",
    ];
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        Some("a name begins with a letter")
    } else if !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_') {
        Some("a name has only letters, digits, `-` and `_`")
    } else if is_keyword(&name.replace('-', "_")) {
        Some("that is a word of Rust")
    } else if TAKEN.contains(&name) || CRATES.contains(&name.replace('_', "-").as_str()) {
        Some("another crate or a folder of cargo has that name")
    } else {
        None
    }
}

/// Returns the absolute path of a checkout of kernel-registry.
fn checkout(path: &Path) -> Result<PathBuf, Failure> {
    let folder = path::absolute(path).and_then(fs::canonicalize);
    let folder = folder.map_err(Failure::of_io(path))?;
    let is_there = CRATES.iter().all(|name| folder.join(name).join("Cargo.toml").is_file());
    if is_there { Ok(folder) } else { Err(Failure::NotACheckout { path: path.to_owned() }) }
}

/// Returns the relative path from one folder to another. Both paths are absolute and contain no links.
fn relative(from: &Path, to: &Path) -> PathBuf {
    let shared = from.components().zip(to.components()).take_while(|(a, b)| a == b).count();
    let up = from.components().skip(shared).map(|_| Component::ParentDir);
    up.chain(to.components().skip(shared)).collect()
}

/// Makes a git repository, unless the folder is in one. Failures are ignored: the package works without one.
fn make_repository(folder: &Path) {
    if !folder.ancestors().any(|folder| folder.join(".git").exists()) {
        let _ = Command::new("git").args(["init", "--quiet"]).arg(folder).stderr(Stdio::null()).status();
    }
}

/// Returns whether cargo refuses the package, because a surrounding workspace does not have the package as a member.
fn is_refused(manifest: &Path) -> bool {
    let mut command = MetadataCommand::new();
    command.cargo_path(cargo()).manifest_path(manifest).no_deps();
    command.other_options(["--offline".to_owned()]).exec().is_err()
}

/// Fills in a file of the template. A package that `is_apart` is a workspace of its own, apart from a surrounding one.
fn filled(text: &str, name: &str, is_apart: bool, checkout: Option<&Path>) -> String {
    let dependency = |name: &str| match checkout {
        Some(checkout) => format!("{name} = {{ path = {:?} }}", in_manifest(&checkout.join(name))),
        None => format!("{name} = {{ {SOURCE} }}"),
    };
    let workspace = if is_apart { "\n# Of no workspace around it.\n[workspace]\n\n" } else { "\n" };
    let mut text = text
        .replace("{{name}}", name)
        .replace("{{crate}}", &name.replace('-', "_"))
        .replace("{{install}}", INSTALL)
        .replace("{{workspace}}\n", workspace);
    for name in CRATES {
        text = text.replace(&format!("{{{{{name}}}}}"), &dependency(name));
    }
    text
}

/// Returns a path as people write it in a manifest, so that other systems can read the manifest, too.
fn in_manifest(path: &Path) -> String {
    let text = path.display().to_string();
    if cfg!(windows) { with_slashes(&text) } else { text }
}

/// Returns a path of Windows with slashes, and without the beginning of canonical paths, which has no meaning with slashes.
fn with_slashes(path: &str) -> String {
    let path = match path.strip_prefix(r"\\?\UNC\") {
        Some(share) => format!(r"\\{share}"),
        None => path.strip_prefix(r"\\?\").unwrap_or(path).to_owned(),
    };
    path.replace('\\', "/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_crates() {
        for good in ["demo", "my-kernels", "k2", "snake_case"] {
            assert_eq!(invalid(good), None, "{good}");
        }
        for bad in [
            "",
            "2d",
            "-x",
            "a.b",
            "ü",
            "a b",
            "fn",
            "self",
            "test",
            "kernel_registry",
            "kernel-registry-sim",
        ] {
            assert!(invalid(bad).is_some(), "{bad}");
        }
    }

    #[test]
    fn a_path_goes_up_and_down() {
        let from = |from: &str, to: &str| relative(Path::new(from), Path::new(to));
        assert_eq!(from("/a/b/demo", "/a/registry"), Path::new("../../registry"));
        assert_eq!(from("/a/registry/x", "/a/registry"), Path::new(".."));
        assert_eq!(from("/a", "/a/registry"), Path::new("registry"));
    }

    #[test]
    fn canonical_paths_of_windows_are_written_with_slashes() {
        assert_eq!(with_slashes(r"\\?\C:\a\kernel-registry"), "C:/a/kernel-registry");
        assert_eq!(with_slashes(r"\\?\UNC\server\share\a"), "//server/share/a");
        assert_eq!(with_slashes(r"..\registry"), "../registry");
    }

    #[test]
    fn nothing_is_left_to_fill_in() {
        for (file, text) in TEMPLATE {
            for checkout in [None, Some(Path::new("/with \"quotes\""))] {
                let text = filled(text, "my-kernels", false, checkout);
                assert!(!text.contains("{{"), "{file}: {text}");
            }
        }
        let manifest = |checkout| filled(MANIFEST.1, "x", false, checkout);
        assert!(manifest(None).contains("\n\n[dependencies]\nkernel-registry = { git = \"https://"));
        assert!(
            manifest(Some(Path::new("/there")))
                .contains("\nkernel-registry-sim = { path = \"/there/kernel-registry-sim\" }\n")
        );
        let inside = filled(MANIFEST.1, "x", true, None);
        assert!(
            inside.contains("\n\n# Of no workspace around it.\n[workspace]\n\n[dependencies]"),
            "{inside}"
        );
    }
}

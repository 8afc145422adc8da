//! Tests a program with two copies of kernel-registry, as cargo builds it if packages ask for two versions.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;
use tests::{cargo, cargo_kernels, copied, lines, scratch_folder};

/// The version number of the second copy.
const OTHER: &str = "0.2.0";

const MAIN: &str = r#"
    use kernel_registry::{find, kernels, link_kernels, warm_all};

    link_kernels!(twin_a, twin_b);

    fn main() -> Result<(), Box<dyn std::error::Error>> {
        for kernel in kernels()? {
            println!("{}", kernel.path());
        }
        println!("not found: {}", find("twin_b::saxpy").unwrap_err());

        kernel_registry_sim::install()?;
        let context = kernel_registry::context(0)?;
        let stream = context.new_stream()?;
        let (x, mut y) = (stream.clone_htod(&[1.0_f32])?, stream.clone_htod(&[1.0_f32])?);
        println!("{}", warm_all(&context)?.report());
        // SAFETY: both vectors have one element.
        let cold = unsafe { twin_b::saxpy::launch(&stream, twin_b::saxpy::over(1), 1, 1.0, &x, &mut y) };
        println!("cold: {}", cold.unwrap_err());
        Ok(())
    }
"#;

/// Builds a program with the kernels of two packages: `twin-a` uses the workspace's kernel-registry, and `twin-b` uses a copy with
/// another version number.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let folder = scratch_folder();
        let copy = folder.join("copy");
        let crates =
            ["", "-files", "-format", "-image", "-macros"].map(|part| format!("kernel-registry{part}"));
        for name in &crates {
            let (from, to) = (workspace.join(name), copy.join(name));
            let manifest = fs::read_to_string(from.join("Cargo.toml")).unwrap();
            // The copies' manifests must not inherit the version from this workspace.
            let own = manifest.replace("\nversion.workspace = true", &format!("\nversion = \"{OTHER}\""));
            let own = crates.iter().fold(own, |manifest, other| {
                let path = format!("path = \"../{other}\"");
                manifest
                    .replace(&format!("{other}.workspace = true"), &format!("{other}.{path}"))
                    .replace(&format!("{other} = {{ workspace = true"), &format!("{other} = {{ {path}"))
            });
            write(&to.join("Cargo.toml"), &own);
            // The sources are symbolic links, so that cargo sees unchanged times and compiles them once.
            symlink(from.join("src"), to.join("src")).unwrap();
        }
        for part in ["build.rs", "build", "cuda"] {
            let name = Path::new("kernel-registry").join(part);
            symlink(workspace.join(&name), copy.join(&name)).unwrap();
        }
        let manifest = fs::read_to_string(workspace.join("Cargo.toml")).unwrap();
        let members = manifest.find("members = [").unwrap()..manifest.find("[workspace.package]").unwrap();
        let mut manifest = manifest;
        manifest.replace_range(members, &format!("members = {crates:?}\n"));
        write(&copy.join("Cargo.toml"), &manifest);

        let twins = workspace.join("tests/fixtures");
        let twin = folder.join("twin-b");
        write(
            &twin.join("Cargo.toml"),
            "[package]\nname = \"twin-b\"\nversion = \"4.5.6\"\nedition = \"2024\"\n\
             [dependencies]\nkernel-registry.path = \"../copy/kernel-registry\"\n",
        );
        for part in ["src", "images"] {
            symlink(twins.join("twin-b").join(part), twin.join(part)).unwrap();
        }
        let (ours, sim) = (workspace.join("kernel-registry"), workspace.join("kernel-registry-sim"));
        write(
            &folder.join("Cargo.toml"),
            &format!(
                "[package]\nname = \"two-copies\"\nedition = \"2024\"\n[workspace]\nexclude = [\"copy\"]\n\
                 [dependencies]\nkernel-registry.path = {ours:?}\nkernel-registry-sim.path = {sim:?}\n\
                 twin-a.path = {:?}\ntwin-b.path = \"twin-b\"\n",
                twins.join("twin-a")
            ),
        );
        write(&folder.join("src/main.rs"), MAIN);
        copied(&workspace.join("Cargo.lock"), &folder);
        lines(cargo().args(["build", "--quiet"]).current_dir(&folder));
        tests::programs().join("two-copies")
    })
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn printed() -> String {
    lines(&mut Command::new(program())).join("\n")
}

/// Runs `cargo kernels` on the program, and returns its output.
fn printed_by_kernels(args: &[&str]) -> String {
    let output = cargo_kernels(args.iter().map(AsRef::as_ref).chain([program().as_os_str()]));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

const TWIN_B: &str = "\
2 kernels are registered with another copy of kernel-registry (version 0.2.0):
  `twin_b::nested::beta` at twin-b/src/lib.rs:10 (twin-b 4.5.6)
  `twin_b::saxpy` at twin-b/src/lib.rs:6 (twin-b 4.5.6)
  let all packages depend on one version of kernel-registry from one source; `cargo tree -d` shows which do not
";

#[test]
fn each_knows_its_own_kernels_and_names_those_of_the_other() {
    let printed = printed();
    let own = "twin_a::gamma::one\ntwin_a::gamma::two\ntwin_a::nested::beta\ntwin_a::saxpy\nnot found: ";
    assert!(printed.starts_with(own), "{printed}");
    assert!(
        printed.contains(
            "not found: no kernel `twin_b::saxpy` in this copy of kernel-registry (version 0.1.0): it is registered with \
             another copy in this program (version 0.2.0); let all packages depend on one version"
        ),
        "{printed}"
    );
    assert!(printed.contains("\n4 kernels warm on "), "{printed}");
    assert!(printed.contains(&format!("\nNOT WARM: {TWIN_B}")), "{printed}");
    // The other copy prints this message.
    assert!(
        printed.contains(
            "cold: kernel `twin_b::saxpy`: it is registered with kernel-registry 0.2.0, and the program also contains another \
             copy (version 0.1.0), whose `warm_all` does not warm it; let all packages depend on one version"
        ),
        "{printed}"
    );
}

#[test]
fn the_list_has_the_kernels_of_both_and_tells_them_apart() {
    let table = printed_by_kernels(&["list"]);
    let (first, rest) = table.split_once('\n').unwrap();
    assert!(first.contains("two-copies: 6 kernels, kernel-registry 0.1.0 (rustc 1."), "{first}");
    assert!(first.contains("), kernel-registry 0.2.0 (rustc 1."), "{first}");
    let note = "\
note: 2 copies of kernel-registry; each finds and warms only its own kernels
    0.1.0: 4 kernels of twin-a 1.2.3
    0.2.0: 2 kernels of twin-b 4.5.6
    let all packages depend on one version of it from one source; `cargo tree -d` shows which do not

KERNEL ";
    assert!(rest.starts_with(note), "{rest}");

    let list: Value = serde_json::from_str(&printed_by_kernels(&["list", "--json"])).unwrap();
    let libraries = &list["binaries"][0]["libraries"];
    assert_eq!((&libraries[0]["version"], &libraries[1]["version"]), (&"0.1.0".into(), &OTHER.into()));
    for kernel in list["kernels"].as_array().unwrap() {
        let library = if kernel["crate"] == "twin-a" { 0 } else { 1 };
        assert_eq!(kernel["copy"], libraries[library]["copy"], "{kernel}");
    }

    let shown = printed_by_kernels(&["show", "twin_b::saxpy"]);
    assert!(
        shown.contains("warmed by kernel-registry 0.2.0, one of several copies in the binary"),
        "{shown}"
    );
}

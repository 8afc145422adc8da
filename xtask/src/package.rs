//! `cargo xtask package`: packs the published crates, and builds them as a user would: outside of the
//! workspace, from nothing but the packages; then with the oldest dependencies that their manifests allow.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::run::{Outcome, cargo, published, remove, run, target, workspace};

/// The files that each package has to contain.
const FILES: [&str; 4] = ["Cargo.toml", "README.md", "LICENSE-APACHE", "LICENSE-MIT"];

/// A user's program: the documentation's sample, with a test on the simulated driver.
const LIBRARY: &str = r#"
/// y = a*x + y
#[kernel_registry::gpu_kernel(image = "saxpy.ptx", block = 256)]
pub unsafe fn saxpy(n: u32, a: f32, x: &[f32], y: &mut [f32]);

#[test]
fn it_computes() -> Result<(), Box<dyn std::error::Error>> {
    kernel_registry_sim::install()?;
    let context = kernel_registry::context(0)?;
    kernel_registry::warm_all(&context)?;
    let stream = context.new_stream()?;
    let x = stream.clone_htod(&[1.0_f32; 3])?;
    let mut y = stream.clone_htod(&[2.0_f32; 3])?;
    // SAFETY: both vectors have three elements.
    unsafe { saxpy::launch(&stream, saxpy::over(3), 3, 0.5, &x, &mut y)? };
    assert_eq!(stream.clone_dtoh(&y)?, [2.5; 3]);
    Ok(())
}
"#;

pub(crate) fn package() -> Outcome {
    let packages = published()?;
    let mut pack = cargo();
    pack.args(["package", "--quiet", "--no-verify", "--allow-dirty"]);
    packages.iter().for_each(|package| _ = pack.args(["--package", &package.name]));
    run(&mut pack)?;

    let folder = target().join("package/user");
    remove(&folder)?;
    fs::create_dir_all(folder.join("user/src"))?;
    let (mut members, mut patches) = (String::new(), String::new());
    for package in &packages {
        let unpacked = format!("{}-{}", package.name, package.version);
        let archive = target().join("package").join(format!("{unpacked}.crate"));
        // All files in a package have the same time, so they get the current one, because cargo compares
        // times.
        run(Command::new("tar").arg("-xmzf").arg(archive).arg("-C").arg(&folder))?;
        for file in FILES {
            if !folder.join(&unpacked).join(file).is_file() {
                return Err(format!("the package `{unpacked}` has no {file}").into());
            }
        }
        members.push_str(&format!("\"{unpacked}\", "));
        patches.push_str(&format!("{} = {{ path = \"{unpacked}\" }}\n", package.name));
    }
    let workspace_manifest =
        format!("[workspace]\nresolver = \"3\"\nmembers = [{members}\"user\"]\n[patch.crates-io]\n{patches}");
    fs::write(folder.join("Cargo.toml"), workspace_manifest)?;
    fs::write(folder.join("user/Cargo.toml"), MANIFEST.replace("VERSION", env!("CARGO_PKG_VERSION")))?;
    fs::write(folder.join("user/src/lib.rs"), LIBRARY)?;
    fs::copy(workspace().join(IMAGE), folder.join("user/saxpy.ptx"))?;
    // The versions that were tested.
    fs::copy(workspace().join("Cargo.lock"), folder.join("Cargo.lock"))?;
    for args in [["build", "--quiet", "--workspace"].as_slice(), &["test", "--quiet", "--package", "user"]] {
        let mut build = cargo();
        build.args(args).arg("--manifest-path").arg(folder.join("Cargo.toml"));
        run(build.env("CARGO_TARGET_DIR", target().join("package/target")))?;
    }
    oldest(&folder)?;
    println!("{} packages, which build and run outside of the workspace", packages.len());
    Ok(())
}

/// Checks all packages with the oldest version of each direct dependency. Choosing these versions needs an
/// unstable option of cargo, but compiling with them doesn't.
fn oldest(folder: &Path) -> Outcome {
    fs::remove_file(folder.join("Cargo.lock"))?;
    let manifest = folder.join("Cargo.toml");
    let mut update = cargo();
    update.args(["update", "--quiet", "-Zdirect-minimal-versions", "--manifest-path"]).arg(&manifest);
    run(update.env("RUSTC_BOOTSTRAP", "1"))?;
    let mut check = cargo();
    check.args(["check", "--quiet", "--workspace", "--all-features", "--manifest-path"]).arg(&manifest);
    run(check.env("CARGO_TARGET_DIR", target().join("package/target")))
}

/// The image of the user's kernel.
const IMAGE: &str = "cargo-kernels/template/prebuilt/cuda__saxpy.cu.ptx";

/// The user's manifest, without the version.
const MANIFEST: &str = r#"[package]
name = "user"
edition = "2024"
[dependencies]
kernel-registry = { version = "VERSION", features = ["half", "indicatif", "runtime", "serde", "tracing"] }
[dev-dependencies]
kernel-registry-sim = "VERSION"
"#;

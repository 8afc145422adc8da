//! The kernels that the interpreter is tested with, compiled by nvcc of CUDA 13.0: what NVRTC of 12.0 makes of them is a prebuilt
//! image like others.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::prebuilt::images;
use crate::run::{Outcome, workspace};

pub(crate) const FOLDER: &str = "kernel-registry-ptx/tests/corpus";

/// Writes `nvcc/*.ptx`, or fails where one is not what its source becomes.
pub(crate) fn corpus(home: &Path, check: bool) -> Outcome {
    let folder = workspace().join(FOLDER);
    let mut sources = fs::read_dir(folder.join("cuda"))?
        .map(|entry| entry.map(|entry| entry.file_name()))
        .collect::<Result<Vec<_>, _>>()?;
    sources.sort();
    fs::create_dir_all(folder.join("nvcc"))?;
    for source in &sources {
        let path = folder.join("nvcc").join(source).with_extension("ptx");
        let mut command = Command::new(home.join("bin/nvcc"));
        // In that folder, because PTX can contain the path of its source as it was given.
        command.current_dir(&folder).args([
            "--ptx",
            "-O3",
            "--gpu-architecture=compute_90",
            "--output-file",
            "-",
        ]);
        let output = command.arg(Path::new("cuda").join(source)).output()?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{}: {}", source.display(), said.trim()).into());
        }
        let image = placeless(String::from_utf8(output.stdout)?);
        keep(&path, image.as_bytes(), check)?;
    }
    if images(&folder.join("nvcc"))?.len() != sources.len() {
        return Err(format!("{FOLDER}/nvcc has images of sources that are gone; remove them").into());
    }
    println!("{FOLDER}: {} images of nvcc", sources.len());
    Ok(())
}

/// Writes an image, or fails where a check finds another one there.
pub(crate) fn keep(path: &Path, image: &[u8], check: bool) -> Outcome {
    if fs::read(path).is_ok_and(|there| there == image) {
        return Ok(());
    }
    if check {
        let path = path.display();
        return Err(format!("{path} is not what nvcc makes; write it by `cargo xtask prebuilt`").into());
    }
    fs::write(path, image)?;
    println!("wrote {}", path.strip_prefix(workspace()).unwrap_or(path).display());
    Ok(())
}

/// The image that nvcc would make in any folder: it names what is internal to a source by a hash of the absolute path.
fn placeless(image: String) -> String {
    const INTERNAL: &str = "_INTERNAL_";
    let hash = image.split(INTERNAL).nth(1).and_then(|rest| rest.split('_').next());
    match hash {
        Some(hash) => image.replace(hash, &"0".repeat(hash.len())),
        None => image,
    }
}

//! Compiles the kernels of the interpreter's tests to PTX with nvcc of CUDA 13.0. The same kernels compiled
//! with NVRTC 12.0 are among the ordinary prebuilt images.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::run::{IMAGE_WRITER, Outcome, entries, files_with, stem, workspace, write_or_compare};

pub(crate) const FOLDER: &str = "kernel-registry-ptx/tests/corpus";

/// Writes `nvcc/*.ptx`, or with `check` fails if a committed image is out of date.
pub(crate) fn corpus(home: &Path, check: bool) -> Outcome {
    let folder = workspace().join(FOLDER);
    let sources = entries(&folder.join("cuda"))?;
    fs::create_dir_all(folder.join("nvcc"))?;
    for source in &sources {
        // Relative to the folder, because PTX can contain the source's path as given.
        let source = source.strip_prefix(&folder)?;
        let path = folder.join("nvcc").join(stem(source)).with_extension("ptx");
        let mut command = Command::new(home.join("bin/nvcc"));
        command.current_dir(&folder).args(["--ptx", "-O3", "--gpu-architecture=compute_90"]);
        let output = command.args(["--output-file", "-"]).arg(source).output()?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{}: {}", source.display(), said.trim()).into());
        }
        let image = without_path_hash(String::from_utf8(output.stdout)?);
        write_or_compare(&path, image.as_bytes(), check, IMAGE_WRITER)?;
    }
    if files_with("ptx", &folder.join("nvcc"))?.len() != sources.len() {
        return Err(format!("{FOLDER}/nvcc has images of sources that are gone; remove them").into());
    }
    println!("{FOLDER}: {} images of nvcc", sources.len());
    Ok(())
}

/// Makes an image independent of the folder, because nvcc hashes the source's absolute path into internal
/// names.
fn without_path_hash(image: String) -> String {
    const INTERNAL: &str = "_INTERNAL_";
    let hash = image.split(INTERNAL).nth(1).and_then(|rest| rest.split('_').next());
    match hash {
        Some(hash) => image.replace(hash, &"0".repeat(hash.len())),
        None => image,
    }
}

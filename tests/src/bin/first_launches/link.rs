//! Compiles kernels that launch kernels to relocatable code, and links the code with the toolkit's device
//! library.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use kernel_registry_build::{Available, available};

use crate::package::{Outcome, Package, write};

/// Returns the path of nvcc, or why it isn't available.
pub(crate) fn nvcc() -> Result<PathBuf, String> {
    match available() {
        Ok(Available::Compiler { name, file: Some(file) }) if name.starts_with("nvcc") => Ok(file),
        Ok(Available::Compiler { name, .. }) => {
            Err(format!("the compiler is {name}, which cannot link kernels that launch kernels"))
        }
        Ok(Available::Without { why }) => Err(why),
        Err(error) => Err(error.to_string()),
    }
}

/// Writes the images of the package: linked machine code for sm_90, and PTX for the simulated driver.
pub(crate) fn link(nvcc: &Path, package: &Package) -> Outcome {
    let folder = package.folder.join("linked");
    let (code, text, image) = ("code.cubin", "text.ptx", "image.fatbin");
    for source in &package.linked {
        let run = |program: &Path, arguments: &[&str]| {
            let output = Command::new(program).current_dir(&folder).args(arguments).output()?;
            if output.status.success() {
                return Ok(());
            }
            let errors = String::from_utf8_lossy(&output.stderr);
            Outcome::Err(format!("{} of `{}` failed:\n{errors}", program.display(), source.path()).into())
        };
        let path = package.folder.join(source.path());
        let path = path.to_str().ok_or("the target directory has a name that is not UTF-8")?;
        run(nvcc, &["-rdc=true", "-dlink", "-cubin", "-arch=sm_90", path, "-lcudadevrt", "-o", code])?;
        run(nvcc, &["-rdc=true", "-ptx", "-arch=compute_90", path, "-o", text])?;
        let images = [code, text].map(|file| {
            let kind = if file == code { "elf" } else { "ptx" };
            format!("--image3=kind={kind},sm=90,file={file}")
        });
        let fatbinary = nvcc.with_file_name(format!("fatbinary{}", std::env::consts::EXE_SUFFIX));
        run(&fatbinary, &["--64", &format!("--create={image}"), &images[0], &images[1]])?;
        write(&package.folder.join(source.image()), &fs::read(folder.join(image))?)?;
    }
    Ok(())
}

//! Makes the census's images of kernels that launch kernels. These need the device linker and a library of
//! the toolkit, which build scripts don't use, so the images are committed: machine code, and PTX for the
//! simulated driver.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::run::{IMAGE_WRITER, Outcome, files_with, run, target, workspace, write_or_compare};

const FOLDER: &str = "tests/census/device-launch";

/// Architectures of the machine code. Linked code doesn't run on later generations.
const ARCHS: [u32; 4] = [80, 90, 100, 120];

/// Writes an image for each source, or with `check` fails if a committed image is out of date.
pub(crate) fn device_launch(home: &Path, check: bool) -> Outcome {
    let folder = workspace().join(FOLDER);
    let sources = files_with("cu", &folder)?;
    for source in &sources {
        write_or_compare(&source.with_extension("fatbin"), &image(home, source)?, check, IMAGE_WRITER)?;
    }
    println!("{FOLDER}: {} images of nvcc and nvlink", sources.len());
    Ok(())
}

/// Compiles a source to the same image on every machine. nvcc puts hashes of paths and host headers into
/// symbol names when it makes machine code, but not when it makes PTX, so the assembler and the device linker
/// start from PTX.
fn image(home: &Path, source: &Path) -> Outcome<Vec<u8>> {
    let scratch = target().join("device-launch");
    fs::create_dir_all(&scratch)?;
    let at = |name: &str| scratch.join(name);
    let tool = |name: &str| Command::new(home.join("bin").join(name));

    let (text, oldest) = (at("text.ptx"), ARCHS[0]);
    run(tool("nvcc")
        .args(["-O3", "--relocatable-device-code=true", "--ptx"])
        .arg(format!("--gpu-architecture=compute_{oldest}"))
        .arg("--output-file")
        .arg(&text)
        .arg(source))?;

    let (relocatable, result) = (at("relocatable.cubin"), at("image.fatbin"));
    let mut fatbinary = tool("fatbinary");
    fatbinary.args(["-64", "--compress-all", "--compress-mode=size"]).arg("--create").arg(&result);
    for arch in ARCHS {
        let linked = at(&format!("{arch}.cubin"));
        run(tool("ptxas")
            .args(["-O3", "--compile-only"])
            .arg(format!("--gpu-name=sm_{arch}"))
            .arg("--output-file")
            .arg(&relocatable)
            .arg(&text))?;
        // nvlink writes its options into the output, but not the paths of its inputs, so the library is
        // passed as an input.
        run(tool("nvlink")
            .arg(format!("--arch=sm_{arch}"))
            .arg("--output-file")
            .arg(&linked)
            .arg(&relocatable)
            .arg(home.join("lib/libcudadevrt.a")))?;
        fatbinary.arg(format!("--image3=kind=elf,sm={arch},file={}", linked.display()));
    }
    fatbinary.arg(format!("--image3=kind=ptx,sm={oldest},file={}", text.display()));
    run(&mut fatbinary)?;
    Ok(fs::read(result)?)
}

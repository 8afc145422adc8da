//! The census's images of kernels that launch kernels. Those need a device linker and a library of the toolkit, which a build
//! script does not use: so the images are committed, machine code beside the PTX that the simulated driver reads.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::corpus::keep;
use crate::run::{Outcome, run, workspace};

const FOLDER: &str = "tests/census/device-launch";

/// Linked machine code runs on no later generation.
const ARCHS: [u32; 4] = [80, 90, 100, 120];

/// Writes an image for each source, or fails where one is not what its source becomes.
pub(crate) fn device_launch(home: &Path, check: bool) -> Outcome {
    let folder = workspace().join(FOLDER);
    let mut count = 0;
    for entry in fs::read_dir(&folder)? {
        let source = entry?.path();
        if source.extension() != Some(OsStr::new("cu")) {
            continue;
        }
        keep(&source.with_extension("fatbin"), &image(home, &source)?, check)?;
        count += 1;
    }
    println!("{FOLDER}: {count} images of nvcc and nvlink");
    Ok(())
}

/// Where sources are compiled: nvcc hashes paths into names of its code.
const SCRATCH: &str = "/tmp/kernel-registry-device-launch";

/// The headers that they include, beside their folder.
const HEADERS: [&str; 2] = ["cuda/done.cuh", "cuda/frame.cuh"];

/// What becomes of a source, the same on every machine.
fn image(home: &Path, original: &Path) -> Outcome<Vec<u8>> {
    let (scratch, folder) = (Path::new(SCRATCH), workspace().join(FOLDER));
    let at = |name: &str| scratch.join("device-launch").join(name);
    fs::create_dir_all(at(""))?;
    fs::create_dir_all(scratch.join("cuda"))?;
    for header in HEADERS {
        fs::copy(folder.join("..").join(header), scratch.join(header))?;
    }
    let source = at("source.cu");
    fs::copy(original, &source)?;
    let nvcc = |arguments: &[&str]| {
        let mut nvcc = Command::new(home.join("bin/nvcc"));
        nvcc.args(["-O3", "--relocatable-device-code=true"]).args(arguments);
        nvcc
    };
    let mut fatbinary = Command::new(home.join("bin/fatbinary"));
    fatbinary.args(["-64", "--compress-all", "--compress-mode=size"]).arg("--create").arg(at("image"));
    for arch in ARCHS {
        let (object, code) = (at("object.o"), at(&format!("{arch}.cubin")));
        let gpu = format!("--gpu-architecture=sm_{arch}");
        run(nvcc(&[&gpu, "--device-c", "--output-file"]).arg(&object).arg(&source))?;
        run(nvcc(&[&gpu, "--device-link", "--cubin", "--output-file"])
            .arg(&code)
            .arg(&object)
            .arg("-lcudadevrt"))?;
        fatbinary.arg(format!("--image3=kind=elf,sm={arch},file={}", code.display()));
    }
    let (text, oldest) = (at("text.ptx"), ARCHS[0]);
    run(nvcc(&[&format!("--gpu-architecture=compute_{oldest}"), "--ptx", "--output-file"])
        .arg(&text)
        .arg(&source))?;
    fatbinary.arg(format!("--image3=kind=ptx,sm={oldest},file={}", text.display()));
    run(&mut fatbinary)?;
    Ok(fs::read(at("image"))?)
}

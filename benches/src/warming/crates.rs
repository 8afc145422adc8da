//! Writes the generated programs of the benchmark `warm`: a thousand kernels as PTX, and as machine code.

use std::env;
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::{IMAGES, KERNELS, LARGE_IMAGES};
use crate::Result;
use crate::workshop::{File, Package, Workshop, repository};

/// Multiplications in a kernel. Each takes 16 bytes on current devices.
const STEPS: usize = 220;

/// Writes the program whose images the driver compiles.
pub fn text(workshop: &Workshop) -> Result<Package> {
    package(workshop, "warm-text", "ptx", texts(IMAGES))
}

/// Writes the program with the same kernels in few, large images.
pub fn large_text(workshop: &Workshop) -> Result<Package> {
    package(workshop, "warm-large-text", "ptx", texts(LARGE_IMAGES))
}

fn texts(images: usize) -> Vec<File> {
    (0..images).map(|image| (image_file(image, "ptx"), ptx(image, images).into_bytes())).collect()
}

/// Writes the program whose images are machine code for this architecture: 90 for sm_90.
pub fn machine(workshop: &Workshop, arch: u32) -> Result<Package> {
    let folder = workshop.folder().join("ptx");
    fs::create_dir_all(&folder)?;
    let assemble = |image: usize| {
        let (source, result) = (folder.join("image.ptx"), folder.join("image.cubin"));
        fs::write(&source, ptx(image, IMAGES))?;
        let mut ptxas = Command::new(ptxas());
        ptxas.arg(format!("--gpu-name=sm_{arch}")).arg("--output-file").arg(&result).arg(&source);
        let output = ptxas.output().map_err(|error| {
            format!("`ptxas` was not started: {error}; set CUDA_HOME to where a CUDA toolkit is")
        })?;
        if !output.status.success() {
            return Err(format!("`ptxas` failed:\n{}", String::from_utf8_lossy(&output.stderr)).into());
        }
        Ok((image_file(image, "cubin"), fs::read(&result)?))
    };
    package(workshop, "warm-machine", "cubin", (0..IMAGES).map(assemble).collect::<Result<_>>()?)
}

fn ptxas() -> PathBuf {
    env::var_os("CUDA_HOME").map_or("ptxas".into(), |home| PathBuf::from(home).join("bin").join("ptxas"))
}

fn package(
    workshop: &Workshop,
    name: &'static str,
    extension: &str,
    mut files: Vec<File>,
) -> Result<Package> {
    let mut main = String::new();
    let images = files.len();
    for image in 0..images {
        let _ =
            writeln!(main, "#[kernel_registry::gpu_kernel(image = \"{}\")]", image_file(image, extension));
        let _ = writeln!(main, "pub mod i{image:02} {{");
        for kernel in 0..KERNELS / images {
            let _ = writeln!(main, "    pub unsafe fn k{image:02}_{kernel:03}(out: *mut f32, n: u32);");
        }
        main.push_str("}\n");
    }
    main.push_str("\nfn main() -> std::process::ExitCode {\n    benches::warming::program::main()\n}\n");
    files.push(("src/main.rs".to_owned(), main.into_bytes()));

    // In single quotes, because TOML treats backslashes in double quotes as escapes.
    let path = |name| format!("{name} = {{ path = '{}' }}", repository().join(name).display());
    workshop.package(name, &format!("{}\n{}", path("benches"), path("kernel-registry")), files)
}

fn image_file(image: usize, extension: &str) -> String {
    format!("images/i{image:02}.{extension}")
}

/// Returns image number `image` of `images`. All images differ, so loading one doesn't put another into the
/// driver's cache.
fn ptx(image: usize, images: usize) -> String {
    let each = KERNELS / images;
    let mut text = ".version 7.0\n.target sm_75\n.address_size 64\n".to_owned();
    for kernel in 0..each {
        let _ = writeln!(
            text,
            "\n.visible .entry k{image:02}_{kernel:03}(.param .u64 out, .param .u32 n)\n{{\n\
             .reg .f32 a, b;\n.reg .u32 count;\n.reg .u64 to;\n\
             ld.param.u32 count, [n];\nld.param.u64 to, [out];\ncvta.to.global.u64 to, to;\n\
             cvt.rn.f32.u32 a, count;\nld.global.f32 b, [to];"
        );
        for step in 0..STEPS {
            let (from, to) = if step % 2 == 0 { ("b", "a") } else { ("a", "b") };
            let factor = 0.5 + ((image * each + kernel) * STEPS + step) as f32 / (1 << 18) as f32;
            let _ = writeln!(text, "fma.rn.f32 {to}, {to}, 0f{:08X}, {from};", factor.to_bits());
        }
        text.push_str("st.global.f32 [to], a;\nret;\n}\n");
    }
    text
}

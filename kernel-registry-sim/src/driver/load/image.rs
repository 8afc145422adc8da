//! Reads images: chooses the PTX for a device, decodes it, and describes its kernels.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use kernel_registry_cuda::CudaVersion;
use kernel_registry_image::{Entry, ImageKind, Needs, VariantKind};
use kernel_registry_ptx::Program;

use crate::driver::result::Code;

/// A loaded image.
pub(crate) struct Image {
    /// The size of the image file in bytes.
    pub(crate) bytes: usize,
    pub(crate) program: Arc<Program>,
    pub(crate) kernels: Vec<Kernel>,
    /// Bytes of PTX that a real driver would compile: 0 if the image has machine code for the device.
    pub(crate) compiled: usize,
    /// The version of the PTX language, such as 80 for 8.0.
    pub(crate) ptx_version: u32,
}

/// A kernel of an image.
pub(crate) struct Kernel {
    pub(crate) name: String,
    /// The name in the source: `reduce<float, 128u>`.
    pub(crate) source_name: String,
    /// Offset and size of each parameter.
    pub(crate) parameters: Vec<(usize, usize)>,
    pub(crate) max_threads: u32,
    /// The cluster size that launches must have, if the kernel fixes it.
    pub(crate) cluster: Option<[u32; 3]>,
    pub(crate) needs: Needs,
    /// Bytes of stack that a thread needs, including the frames of kernels that the kernel launches.
    pub(crate) frame: u32,
    /// The frame size that the driver's attribute reports, without the frames of kernels that the kernel launches.
    pub(crate) local: u32,
    /// Bytes of static shared memory of a block.
    pub(crate) shared: u32,
}

/// The reason why an image was refused, with the text for the JIT compiler's log.
pub(crate) struct Refused {
    pub(crate) code: Code,
    pub(crate) log: String,
}

impl Refused {
    fn new(code: Code, log: impl fmt::Display) -> Self {
        Refused { code, log: log.to_string() }
    }
}

impl Image {
    /// Reads an image for an architecture and a driver version.
    pub(crate) fn read(bytes: &[u8], arch: u32, version: i32) -> Result<Self, Refused> {
        let invalid = |error: kernel_registry_image::Error| Refused::new(Code::INVALID_IMAGE, error);
        let image = kernel_registry_image::read(bytes).map_err(|error| {
            // Any bytes that are neither an ELF file nor a fatbin are taken for PTX.
            let code = if bytes.starts_with(b"\x7fELF") { Code::INVALID_IMAGE } else { Code::INVALID_PTX };
            Refused::new(code, error)
        })?;
        let texts = match image.kind {
            ImageKind::Ptx => vec![String::from_utf8_lossy(bytes).into_owned()],
            ImageKind::Cubin => Vec::new(),
            ImageKind::Fatbin => kernel_registry_image::ptx_of_fatbin(bytes).map_err(invalid)?,
        };
        // Chooses the PTX for the newest architecture that the device can run, as the real driver does.
        let fitting = texts.iter().filter_map(|text| {
            let variant = kernel_registry_image::read(text.as_bytes()).ok()?.variants.into_iter().next()?;
            variant.runs_on((arch / 10, arch % 10)).then_some((variant, text))
        });
        let Some((variant, text)) = fitting.max_by_key(|(variant, _)| variant.target.sm) else {
            return Err(Refused::new(Code::NO_BINARY_FOR_GPU, without_ptx(&image, arch)));
        };
        let VariantKind::Ptx { version: (major, minor) } = variant.kind else {
            return Err(Refused::new(Code::INVALID_PTX, "it is no PTX"));
        };
        let newest = CudaVersion::from_number(version.unsigned_abs()).newest_ptx();
        if (u16::from(major), u16::from(minor)) > newest {
            let words = format!("PTX {major}.{minor} is newer than the driver; compile for an older CUDA");
            return Err(Refused::new(Code::UNSUPPORTED_PTX_VERSION, words));
        }
        let program = Program::load(text).map_err(|error| Refused::new(Code::INVALID_PTX, error))?;
        let mut kernels =
            variant.entries.iter().map(|entry| Kernel::new(entry, &program)).collect::<Vec<_>>();
        let frames: Vec<_> = kernels.iter().map(|kernel| launched_frame(kernel, &kernels, text)).collect();
        for (kernel, frame) in kernels.iter_mut().zip(frames) {
            kernel.frame = kernel.frame.max(frame);
        }
        let ptx_version = u32::from(major) * 10 + u32::from(minor);
        let has_code = image
            .variants
            .iter()
            .any(|variant| variant.kind == VariantKind::Cubin && variant.runs_on((arch / 10, arch % 10)));
        let compiled = if has_code { 0 } else { text.len() };
        Ok(Image { bytes: bytes.len(), compiled, program: Arc::new(program), kernels, ptx_version })
    }

    /// Returns about how many registers a thread of a kernel takes.
    pub(crate) fn registers(&self, kernel: usize) -> u32 {
        self.program.registers(&self.kernels[kernel].name).unwrap_or(0)
    }

    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.kernels.iter().position(|kernel| kernel.name == name)
    }
}

/// Returns the reason for refusing an image without PTX for the architecture, with the names of some kernels of the
/// image.
fn without_ptx(image: &kernel_registry_image::Image, arch: u32) -> String {
    let entries = || image.variants.iter().flat_map(|variant| &variant.entries);
    let names: BTreeSet<_> = entries().map(|entry| format!("`{}`", entry.name())).collect();
    let some: Vec<_> = names.iter().take(3).map(String::as_str).collect();
    let more = if names.len() > some.len() { " .." } else { "" };
    let of = if some.is_empty() { String::new() } else { format!(" of {}{more}", some.join(", ")) };
    let is_code = image.variants.iter().all(|variant| variant.kind == VariantKind::Cubin);
    let what = if is_code { "only machine code" } else { "none for it" };
    format!(
        "the simulated device sm_{arch} executes PTX, and the image has {what}{of}; embed PTX too, as with \
         `nvcc -gencode arch=compute_75,code=compute_75`"
    )
}

/// Returns the largest frame among the kernels that a kernel launches. The PTX of the kernel names them.
fn launched_frame(kernel: &Kernel, all: &[Kernel], text: &str) -> u32 {
    if !kernel.needs.device_launch {
        return 0;
    }
    let body = text.split_once(&format!(".entry {}(", kernel.name)).map_or("", |(_, rest)| rest);
    let body = body.split(".entry ").next().unwrap_or_default();
    let named = all.iter().filter(|other| body.contains(&format!(" {};", other.name)));
    named.map(|other| other.frame).max().unwrap_or(0)
}

impl Kernel {
    fn new(entry: &Entry, program: &Program) -> Self {
        let parameter =
            |param: &kernel_registry_image::ParamLayout| (param.offset as usize, param.size as usize);
        // For a kernel with recursive calls, the driver counts only the kernel's own frame.
        let frame = match program.is_recursive(&entry.symbol) {
            Some(true) => saturate(program.own_frame(&entry.symbol)),
            _ => saturate(program.frame(&entry.symbol)),
        };
        Kernel {
            name: entry.symbol.clone(),
            source_name: entry.name().to_owned(),
            parameters: entry.params.iter().map(parameter).collect(),
            max_threads: entry.limits.max_threads.unwrap_or(1024).min(1024),
            cluster: entry.limits.cluster,
            needs: entry.needs,
            frame,
            local: frame,
            shared: saturate(program.shared(&entry.symbol)),
        }
    }
}

/// Converts a number of bytes. A number that does not fit becomes the largest one, which exceeds the memory of any
/// device.
fn saturate(bytes: Option<u64>) -> u32 {
    u32::try_from(bytes.unwrap_or(0)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_image_are_taken_for_ptx() {
        let refused = Image::read(b"no image", 90, 13_000).err().unwrap();
        assert_eq!(refused.code, Code::INVALID_PTX);
    }

    #[test]
    fn a_cubin_alone_says_what_to_embed() {
        let cubin = include_bytes!("../../../../kernel-registry-image/tests/images/blas1.sm_90.cubin");
        let refused = Image::read(cubin, 90, 13_000).err().unwrap();
        assert_eq!(refused.code, Code::NO_BINARY_FOR_GPU);
        assert!(refused.log.contains("embed PTX"), "{}", refused.log);
    }
}

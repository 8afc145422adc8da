//! Describes records and images for the document.

use std::collections::BTreeSet;

use kernel_registry_format::{self as format, KernelRecord, Needs, SliceLength, StackFrames};
use kernel_registry_image::{self as image, Entry, ParamLayout, Target};

use super::unread::UnreadVariant;
use super::{
    Declaration, Frames, Image, ImageKind, ImageParam, Limits, Param, Place, RecordedImage, Resources,
    Variant, VariantKind,
};
use crate::binary::Contents;
use crate::binary::declared_image::DeclaredImage;

impl Image {
    /// Describes an image in a file of its own. `in_binary` completes the description of an image in a binary.
    pub(crate) fn new(file: String, bytes: u64, image: &image::Image) -> Self {
        let entries = image.variants.iter().flat_map(|variant| &variant.entries);
        Image {
            binary: None,
            package: None,
            version: None,
            file,
            kind: Some(image.kind.into()),
            bytes,
            kernels: entries.map(|entry| entry.symbol.as_str()).collect::<BTreeSet<_>>().len(),
            variants: image.variants.len(),
            unread: UnreadVariant::in_image(image),
        }
    }

    pub(crate) fn in_binary(self, binary: &Contents<'_>, package: &str, version: &str) -> Self {
        let binary = Some(binary.path.display().to_string());
        Image { binary, package: Some(package.to_owned()), version: Some(version.to_owned()), ..self }
    }
}

impl From<image::ImageKind> for ImageKind {
    fn from(kind: image::ImageKind) -> Self {
        match kind {
            image::ImageKind::Ptx => ImageKind::Ptx,
            image::ImageKind::Cubin => ImageKind::Cubin,
            image::ImageKind::Fatbin => ImageKind::Fatbin,
        }
    }
}

impl Place {
    pub(crate) fn new(binary: &std::path::Path, kernel: &KernelRecord<'_>) -> Self {
        Place {
            binary: binary.display().to_string(),
            path: kernel.path.to_owned(),
            package: Some(kernel.package.to_owned()),
            version: Some(kernel.version.to_owned()),
            file: kernel.file.to_owned(),
            line: kernel.line,
            column: kernel.column,
        }
    }
}

impl Declaration {
    pub(crate) fn new(binary: &Contents<'_>, kernel: &KernelRecord<'_>) -> Self {
        let image = kernel.image.map(|image| RecordedImage {
            file: image.file.to_owned(),
            bytes: image.len,
            variants: image.variants.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect(),
            baked: {
                let targets = DeclaredImage::from_kernel(kernel).and_then(|image| binary.baked.get(&image));
                targets.into_iter().flatten().map(Target::to_string).collect()
            },
        });
        Declaration {
            place: Place::new(&binary.path, kernel),
            symbol: kernel.symbol.to_owned(),
            summary: kernel.summary.to_owned(),
            signature: kernel.signature().to_string(),
            params: kernel.params.iter().map(Param::from).collect(),
            min_arch: kernel.min_arch,
            block: kernel.block,
            shared: kernel.shared,
            stack: kernel.stack,
            frames: kernel.frames.into(),
            needs: words(kernel.needs),
            image,
            copy: hex(kernel.copy),
        }
    }
}

/// Writes a number as hexadecimal text, because not every JSON reader can hold a 64-bit number.
pub(crate) fn hex(copy: u64) -> String {
    format!("{copy:016x}")
}

fn words(needs: Needs) -> Vec<String> {
    needs.words().map(str::to_owned).collect()
}

impl From<format::Param<'_>> for Param {
    fn from(param: format::Param<'_>) -> Self {
        Param {
            name: param.name.to_owned(),
            ty: param.ty.to_owned(),
            pass: param.pass.as_str().to_owned(),
            nullable: param.nullable,
            length: param.length.map(SliceLength::as_str).map(str::to_owned),
            direction: param.direction().as_str().to_owned(),
            size: param.size,
            align: param.align,
            element_size: Some(param.element_size),
            element_align: param.element_align,
        }
    }
}

impl From<StackFrames> for Frames {
    fn from(StackFrames { recursive, launched }: StackFrames) -> Self {
        Frames { recursive, launched }
    }
}

impl ImageParam {
    pub(crate) fn new(param: &ParamLayout, ptx: Option<String>) -> Self {
        let ParamLayout { offset, size, align, .. } = *param;
        ImageParam { offset, size, align, ptx }
    }
}

impl Variant {
    pub(crate) fn new(variant: &image::Variant, entry: &Entry) -> Self {
        let (kind, ptx) = match variant.kind {
            image::VariantKind::Ptx { version: (major, minor) } => {
                (VariantKind::Ptx, Some(format!("{major}.{minor}")))
            }
            image::VariantKind::Cubin => (VariantKind::Cubin, None),
        };
        let image::Limits { max_threads, required_threads, min_blocks, cluster, max_cluster, .. } =
            entry.limits;
        let resources = |of: image::Resources| Resources {
            registers: of.registers,
            static_shared: of.static_shared,
            reserved_shared: of.reserved_shared,
            constants: of.constants,
            local_frame: of.local_frame,
            stack: of.stack,
        };
        Variant {
            kind,
            target: variant.target.to_string(),
            ptx,
            toolkit: variant.toolkit.clone(),
            resources: entry.resources.map(resources),
            limits: Limits { max_threads, required_threads, min_blocks, cluster, max_cluster },
            needs: words(entry.needs),
            frames: entry.frames.into(),
            code_bytes: Some(entry.code_size),
        }
    }
}

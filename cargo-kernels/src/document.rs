//! The kernels of binaries and images as one document. `list` and `show` write it as text and as JSON, and `diff` reads the JSON.
//! docs/list-json.md and docs/show-json.md describe the JSON: change these pages first.
//!
//! Members that are not always needed have defaults, because files of earlier versions lack some.

mod describe;
pub(crate) mod unread;

pub(crate) use describe::hex;

use kernel_registry_image::Signature;
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::Value;

use unread::{Unread, UnreadVariant};

/// The version of the JSON. Every change that could break a reader raises it.
pub(crate) const SCHEMA: u32 = 2;

/// The output of `show`.
#[derive(Serialize, Deserialize)]
pub(crate) struct Document {
    #[serde(default)]
    pub(crate) schema: u32,
    #[serde(default)]
    summary: Summary,
    /// The images of the kernels, each once.
    #[serde(default)]
    pub(crate) images: Vec<Image>,
    pub(crate) kernels: Vec<Kernel>,
}

#[derive(Default, Serialize, Deserialize)]
struct Summary {
    kernels: usize,
    images: usize,
    unread: usize,
}

/// An image, which is in a binary or is a file of its own.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Image {
    /// The binary that contains the image. `None` for a file of its own, as are package and version.
    binary: Option<String>,
    #[serde(rename = "crate")]
    pub(crate) package: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) file: String,
    kind: Option<ImageKind>,
    bytes: u64,
    kernels: usize,
    variants: usize,
    pub(crate) unread: Vec<UnreadVariant>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ImageKind {
    Ptx,
    Cubin,
    Fatbin,
}

#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum Kernel {
    Declared(Box<DeclaredKernel>),
    Undeclared(ImageKernel),
}

/// A declared kernel, with its image if the binary has it.
#[derive(Serialize, Deserialize)]
pub(crate) struct DeclaredKernel {
    #[serde(flatten)]
    pub(crate) declaration: Declaration,
    pub(crate) cuda: Option<String>,
    /// The types of its parameters in PTX, if its symbol does not tell those of C++.
    #[serde(default)]
    pub(crate) ptx_types: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) image_kind: Option<ImageKind>,
    /// Whether only one image in the binary fits.
    #[serde(default)]
    pub(crate) certain: bool,
    pub(crate) variants: Vec<Variant>,
    /// Which variants have the kernel, if others lack it and the declaration does not say so.
    #[serde(default)]
    pub(crate) partial: Option<String>,
}

/// A kernel as its record in a binary describes it.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Declaration {
    #[serde(flatten)]
    pub(crate) place: Place,
    pub(crate) symbol: String,
    pub(crate) summary: String,
    pub(crate) signature: String,
    pub(crate) params: Vec<Param>,
    pub(crate) min_arch: Option<u32>,
    pub(crate) block: Option<[u32; 3]>,
    pub(crate) shared: Option<u32>,
    pub(crate) stack: Option<u32>,
    pub(crate) frames: Frames,
    pub(crate) needs: Vec<String>,
    pub(crate) image: Option<RecordedImage>,
    pub(crate) copy: String,
}

/// Where a kernel is declared.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Place {
    pub(crate) binary: String,
    pub(crate) path: String,
    #[serde(rename = "crate")]
    pub(crate) package: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) file: String,
    pub(crate) line: u32,
    column: u32,
}

/// A parameter as it is declared.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Param {
    pub(crate) name: String,
    #[serde(rename = "type")]
    pub(crate) ty: String,
    pass: String,
    nullable: bool,
    pub(crate) length: Option<String>,
    direction: String,
    pub(crate) size: u32,
    align: u32,
    pub(crate) element_size: Option<u32>,
    element_align: u32,
}

/// An image as a kernel's record describes it.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct RecordedImage {
    pub(crate) file: String,
    pub(crate) bytes: u64,
    variants: Vec<String>,
    /// The architectures of its code in the file of baked code.
    pub(crate) baked: Vec<String>,
}

/// A kernel of an image that is in no binary, or that nvcc linked into one.
#[derive(Serialize, Deserialize)]
pub(crate) struct ImageKernel {
    pub(crate) file: String,
    pub(crate) symbol: String,
    pub(crate) cuda: Option<String>,
    #[serde(default)]
    pub(crate) image_kind: Option<ImageKind>,
    pub(crate) image_bytes: Option<u64>,
    pub(crate) params: Vec<ImageParam>,
    pub(crate) variants: Vec<Variant>,
}

/// A parameter as an image describes it.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ImageParam {
    offset: u32,
    pub(crate) size: u32,
    align: Option<u32>,
    /// The parameter's type in PTX.
    pub(crate) ptx: Option<String>,
}

/// A kernel in one variant of its image.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Variant {
    pub(crate) kind: VariantKind,
    /// The architecture, such as `sm_90a`.
    pub(crate) target: String,
    pub(crate) ptx: Option<String>,
    pub(crate) toolkit: Option<String>,
    pub(crate) resources: Option<Resources>,
    pub(crate) limits: Limits,
    pub(crate) needs: Vec<String>,
    pub(crate) frames: Frames,
    pub(crate) code_bytes: Option<u32>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum VariantKind {
    #[default]
    Ptx,
    Cubin,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Resources {
    pub(crate) registers: u32,
    pub(crate) static_shared: u32,
    pub(crate) reserved_shared: u32,
    pub(crate) constants: u32,
    pub(crate) local_frame: u32,
    pub(crate) stack: Option<u32>,
}

/// Limits for launches.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Limits {
    pub(crate) max_threads: Option<u32>,
    pub(crate) required_threads: Option<[u32; 3]>,
    pub(crate) min_blocks: Option<u32>,
    pub(crate) cluster: Option<[u32; 3]>,
    pub(crate) max_cluster: Option<u32>,
}

/// Stack beyond what the driver reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Frames {
    pub(crate) recursive: Option<u32>,
    pub(crate) launched: Option<u32>,
}

impl Document {
    pub(crate) fn new(kernels: Vec<Kernel>, images: Vec<Image>) -> Self {
        let unread = images.iter().map(|image| image.unread.len()).sum();
        let summary = Summary { kernels: kernels.len(), images: images.len(), unread };
        Document { schema: SCHEMA, summary, images, kernels }
    }

    /// Returns the variants of the images that could not be read.
    pub(crate) fn unread(&self) -> Unread {
        let mut unread = Unread::default();
        self.images.iter().for_each(|image| unread.add(&image.file, &image.unread));
        unread
    }
}

impl<'de> Deserialize<'de> for Kernel {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let kernel = match value["path"].is_string() {
            true => serde_json::from_value(value).map(Kernel::Declared),
            false => serde_json::from_value(value).map(Kernel::Undeclared),
        };
        kernel.map_err(de::Error::custom)
    }
}

impl ImageKernel {
    /// Returns the name in C++, with template arguments and without parameters, or else the symbol.
    pub(crate) fn name(&self) -> String {
        Signature::parse(&self.symbol).map_or_else(|| self.symbol.clone(), |signature| signature.name)
    }
}

impl Variant {
    /// Returns the name of the variant: `sm_90` or `sm_75 PTX`.
    pub(crate) fn name(&self) -> String {
        match self.kind {
            VariantKind::Cubin => self.target.clone(),
            VariantKind::Ptx => format!("{} PTX", self.target),
        }
    }
}

//! Says what a preload has: for which GPUs, of which files, and whether those are still as recorded.

mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Metadata};
use std::io::Write;
use std::path::{Path, PathBuf};

use kernel_registry_command::terminal;
use kernel_registry_files::{Baked, NotUsed};
use kernel_registry_image::read as read_image;
use serde::{Serialize, Serializer};
use serde_json::json;

use super::cli::Show;
use super::failure::Failure;
use super::preload::{content, read};
use super::trust::absolute;
use crate::kept::{self, Cached};
use crate::preload::{Origin, Preload, Wanted, baked_file, images};

const SCHEMA: u32 = 1;

/// What a preload has.
#[derive(Serialize)]
struct Contents {
    schema: u32,
    tool: &'static str,
    #[serde(serialize_with = "lossy")]
    preload: PathBuf,
    /// The size of the preload and of everything beside it.
    bytes: u64,
    devices: Vec<Device>,
    files: Vec<ImagesOfFile>,
    nvrtc: Vec<Compiled>,
    ptx: usize,
    machine_code: Vec<MachineCode>,
    /// Why the file of machine code isn't used, if there is one.
    machine_code_unused: Option<String>,
    stack: u64,
    printf: u64,
    heap: u64,
}

#[derive(Serialize)]
struct Device {
    compute_capability: String,
    name: String,
}

/// The images that a preload names of a file, or of all its copies.
#[derive(Serialize)]
struct ImagesOfFile {
    /// The file, or the folder of the copies.
    #[serde(serialize_with = "lossy")]
    path: PathBuf,
    are_copies: bool,
    images: usize,
    kernels: usize,
    /// The number of images that aren't there as they were recorded.
    changed: usize,
}

/// A kept result of NVRTC.
#[derive(Serialize)]
struct Compiled {
    name: String,
    bytes: u64,
    arch: Option<String>,
    /// Why it isn't used.
    unused: Option<String>,
}

/// The machine code of PTX for one architecture, by one compiler.
#[derive(Serialize)]
struct MachineCode {
    arch: String,
    compiler: String,
    images: usize,
    bytes: u64,
}

/// Prints what a preload has.
pub(crate) fn show(options: &Show) -> Result<(), Failure> {
    let contents = Contents::read(&options.preload)?;
    let text = if options.labels {
        contents.labels()
    } else if options.json {
        serde_json::to_string_pretty(&contents).unwrap_or_default() + "\n"
    } else {
        contents.to_string()
    };
    Ok(terminal::print(|out| write!(out, "{text}"))?)
}

impl Contents {
    fn read(path: &Path) -> Result<Self, Failure> {
        let (preload, path) = (read(path)?, absolute(path)?);
        let folder = images(&path);
        let (machine_code, machine_code_unused) = match Baked::open(&baked_file(&path)) {
            Ok(baked) => (machine_code(&baked), None),
            Err(NotUsed::Unreadable(why)) if why.kind() == std::io::ErrorKind::NotFound => (Vec::new(), None),
            Err(NotUsed::Unreadable(why)) => (Vec::new(), Some(why.to_string())),
            Err(NotUsed::Damaged(why)) => (Vec::new(), Some(why.to_string())),
        };
        Ok(Contents {
            schema: SCHEMA,
            tool: concat!("kernel-audit ", env!("CARGO_PKG_VERSION")),
            bytes: size(&path) + size(&baked_file(&path)) + size_of_folder(&folder),
            devices: { preload.devices.iter() }
                .map(|its| Device {
                    compute_capability: its.compute_capability.clone(),
                    name: its.name.clone(),
                })
                .collect(),
            files: files(&preload, &folder),
            nvrtc: nvrtc(&preload),
            ptx: preload.ptx.len(),
            machine_code,
            machine_code_unused,
            stack: preload.sizes.stack,
            printf: preload.sizes.printf,
            heap: preload.sizes.heap,
            preload: path,
        })
    }

    /// Returns options that label a container with what the preload is for, as registries of kernel caches read it.
    fn labels(&self) -> String {
        let devices = self.devices.iter().map(|device| device.compute_capability.replace('.', ""));
        let codes = self.machine_code.iter().map(|code| &*code.arch);
        let codes = codes.chain(self.nvrtc.iter().filter_map(|compiled| compiled.arch.as_deref()));
        let number = |arch: &str| arch.chars().filter(char::is_ascii_digit).collect();
        let all: BTreeSet<String> = devices.chain(codes.map(number)).collect();
        let target = |arch: &String| json!({ "backend": "cuda", "arch": arch, "warp_size": 32 });
        let summary = json!({ "targets": all.iter().map(target).collect::<Vec<_>>() });
        let images: usize = self.files.iter().map(|file| file.images).sum();
        let entries =
            images + self.nvrtc.len() + self.machine_code.iter().map(|code| code.images).sum::<usize>();
        [
            ("io.kserve.km/cache-type", "kernel-audit".to_owned()),
            ("model.cache.image/entry-count", entries.to_string()),
            ("model.cache.image/cache-size-bytes", self.bytes.to_string()),
            ("model.cache.image/summary", summary.to_string()),
        ]
        .map(|(name, value)| format!("--label={name}={value}\n"))
        .concat()
    }
}

/// Returns the images of a preload by file. All copies count as one file.
fn files(preload: &Preload, folder: &Path) -> Vec<ImagesOfFile> {
    let mut files: BTreeMap<(bool, &Path), ImagesOfFile> = BTreeMap::new();
    for (origin, Wanted { kernels, .. }) in &preload.images {
        let is_copy = origin.is_copy();
        let path = if is_copy { folder } else { Path::new(&origin.path) };
        let empty =
            || ImagesOfFile { path: path.to_owned(), are_copies: is_copy, images: 0, kernels: 0, changed: 0 };
        let file = files.entry((is_copy, path)).or_insert_with(empty);
        file.images += 1;
        file.kernels += kernels.len();
        file.changed += usize::from(has_changed(origin));
    }
    files.into_values().collect()
}

fn has_changed(origin: &Origin) -> bool {
    content(Path::new(&origin.path), origin).is_none()
}

fn nvrtc(preload: &Preload) -> Vec<Compiled> {
    let compiled = preload.compiled.iter().map(|(key, compiled)| {
        let result = kept::read(&compiled.folder, key, Some(&compiled.digest));
        Compiled {
            name: compiled.name.clone(),
            bytes: result.as_ref().map_or(0, Cached::size),
            arch: result.as_ref().ok().and_then(architecture),
            unused: result.err().map(|why| why.to_string()),
        }
    });
    compiled.collect()
}

/// Returns the architecture that a result is for: that of its machine code, or else of its PTX.
fn architecture(result: &Cached) -> Option<String> {
    let images = result.parts.iter().rev().filter_map(|part| read_image(&part.bytes).ok());
    let mut targets = images.filter_map(|image| Some(image.variants.first()?.target));
    targets.next().map(|target| target.to_string())
}

fn machine_code(baked: &Baked) -> Vec<MachineCode> {
    let mut all: BTreeMap<(String, String), MachineCode> = BTreeMap::new();
    for entry in baked.entries() {
        let (arch, compiler) = (entry.arch.to_owned(), entry.compiler.to_owned());
        let empty = MachineCode { arch: arch.clone(), compiler: compiler.clone(), images: 0, bytes: 0 };
        let code = all.entry((arch, compiler)).or_insert(empty);
        code.images += 1;
        code.bytes += entry.len;
    }
    all.into_values().collect()
}

/// Serializes a path, also one that isn't UTF-8.
fn lossy<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}

fn size(file: &Path) -> u64 {
    fs::metadata(file).as_ref().map_or(0, Metadata::len)
}

fn size_of_folder(folder: &Path) -> u64 {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| size(&entry.path())).sum()
}

//! Generates the crates: a thousand kernels with `#[gpu_kernel]`, and the same kernels by hand, with and
//! without launch functions. Each of these crates also exists without kernels. Another crate has sixty
//! kernels of one image.

use std::ops::Range;

use super::{Each, KERNELS, Kernels, MODULES};
use crate::Result;
use crate::workshop::{File, Package, Workshop, repository};

/// Writes the crates to compare. Each module has the kernels of one image.
pub fn compared(workshop: &Workshop) -> Result<Each<Kernels<Package>>> {
    let annotated = |name, modules| {
        let mut files = files(modules, KERNELS / MODULES, annotated_module);
        files.push(main(ANNOTATED_MAIN, modules));
        workshop.package(name, &kernel_registry(), files)
    };
    let by_hand = |name, modules, module| {
        let mut files = files(modules, KERNELS / MODULES, module);
        files.extend([main(BY_HAND_MAIN, modules), ("src/kernel.rs".to_owned(), BY_HAND_TYPES.into())]);
        workshop.package(name, INVENTORY, files)
    };
    Ok(Each {
        annotated: Kernels {
            with: annotated("annotated", MODULES)?,
            without: annotated("annotated-none", 0)?,
        },
        by_hand: Kernels {
            with: by_hand("by-hand", MODULES, module_by_hand)?,
            without: by_hand("by-hand-none", 0, module_by_hand)?,
        },
        bare: Kernels {
            with: by_hand("bare", MODULES, bare_module)?,
            without: by_hand("bare-none", 0, bare_module)?,
        },
    })
}

/// Generates a crate with this many kernels of one image. Each kernel has a module, and the image ends with
/// `text`.
pub fn sharing(workshop: &Workshop, kernels: usize, text: &str) -> Result<Package> {
    let module = |module| (module_file(module), annotated_module("x.ptx", module..module + 1).into_bytes());
    let mut files: Vec<File> = (0..kernels).map(module).collect();
    files
        .extend([main(ANNOTATED_MAIN, kernels), ("x.ptx".to_owned(), (ptx(0..kernels) + text).into_bytes())]);
    workshop.package("sharing", &kernel_registry(), files)
}

/// Returns the name of a module's file.
pub fn module_file(module: usize) -> String {
    format!("src/m{module:02}.rs")
}

/// Returns the files of modules with this many kernels each, and the modules' images.
fn files(modules: usize, kernels: usize, text: fn(&str, Range<usize>) -> String) -> Vec<File> {
    let files = |module: usize| {
        let (image, numbers) = (format!("m{module:02}.ptx"), module * kernels..(module + 1) * kernels);
        let module = (module_file(module), text(&image, numbers.clone()).into_bytes());
        [module, (image, ptx(numbers).into_bytes())]
    };
    (0..modules).flat_map(files).collect()
}

fn main(text: &str, modules: usize) -> File {
    let declarations: String = (0..modules).map(|module| format!("mod m{module:02};\n")).collect();
    ("src/main.rs".to_owned(), (declarations + text).into_bytes())
}

fn kernel_registry() -> String {
    // In single quotes, because TOML treats backslashes in double quotes as escapes.
    format!("kernel-registry = {{ path = '{}' }}", repository().join("kernel-registry").display())
}

/// A program that registers kernels by hand launches them with cudarc, so it links cudarc too.
const INVENTORY: &str = r#"inventory = "0.3"
cudarc = { version = "0.19", default-features = false, features = [
    "std", "driver", "nvrtc", "fallback-dynamic-loading", "cuda-version-from-build-system", "fallback-latest",
] }"#;

/// The main function. With the task `idle`, the program ends at once, so that its run time is the cost of
/// registration in every program.
const ANNOTATED_MAIN: &str = r#"
fn main() {
    if std::env::args().nth(1).is_none_or(|argument| argument != "idle") {
        println!("{}", kernel_registry::kernels().expect("the registry is sound").len());
    }
}
"#;

fn annotated_module(image: &str, numbers: Range<usize>) -> String {
    let kernel = |number| {
        format!(
            r#"
/// y = a*x + y, number {number}.
#[gpu_kernel(image = "{image}", block = 256)]
pub unsafe fn k{number:04}(n: u32, a: f32, x: &[f32], y: &mut [f32]);
"#
        )
    };
    "use kernel_registry::gpu_kernel;\n".to_owned() + &numbers.map(kernel).collect::<String>()
}

const BY_HAND_MAIN: &str = r#"mod kernel;

use cudarc as _;

fn main() {
    if std::env::args().nth(1).is_none_or(|argument| argument != "idle") {
        println!("{}", inventory::iter::<kernel::Kernel>().count());
    }
}
"#;

/// Returns a module as one would write it without the attribute: every field of a `KernelInfo`, and a typed
/// launch function for each kernel, but no record.
fn module_by_hand(image: &str, numbers: Range<usize>) -> String {
    let launch = |number| {
        format!(
            r#"
/// y = a*x + y, number {number}.
#[allow(dead_code)]
pub unsafe fn k{number:04}(
    stream: &CudaStream,
    function: &CudaFunction,
    config: LaunchConfig,
    n: u32,
    a: f32,
    x: &CudaSlice<f32>,
    y: &mut CudaSlice<f32>,
) -> Result<(), DriverError> {{
    unsafe {{ stream.launch_builder(function).arg(&n).arg(&a).arg(x).arg(y).launch(config) }}?;
    Ok(())
}}
"#
        )
    };
    let uses = "use cudarc::driver::{CudaFunction, CudaSlice, CudaStream, DriverError, LaunchConfig, PushKernelArg};\n";
    uses.to_owned() + &bare_module(image, numbers.clone()) + &numbers.map(launch).collect::<String>()
}

/// Returns such a module without launch functions.
fn bare_module(image: &str, numbers: Range<usize>) -> String {
    let head = format!(
        r#"use crate::kernel::{{Image, Kernel, Param}};

const fn image() -> &'static [u8] {{
    include_bytes!("../{image}")
}}
"#
    );
    let kernel = |number| {
        format!(
            r#"
inventory::submit! {{
    Kernel {{
        path: concat!(module_path!(), "::k{number:04}"),
        symbol: "_Z5k{number:04}jfPKfPf",
        package: env!("CARGO_PKG_NAME"),
        version: env!("CARGO_PKG_VERSION"),
        file: file!(),
        line: line!(),
        column: column!(),
        summary: "y = a*x + y, number {number}.",
        params: &[
            Param::value::<u32>("n", "u32"),
            Param::value::<f32>("a", "f32"),
            Param::slice::<f32>("x", "&[f32]"),
            Param::slice_mut::<f32>("y", "&mut [f32]"),
        ],
        min_arch: None,
        block: Some([256, 1, 1]),
        shared: None,
        image: Some(Image {{ file: "{image}", len: image().len() as u64 }}),
        bytes: image,
    }}
}}
"#
        )
    };
    head + &numbers.map(kernel).collect::<String>()
}

/// The struct that corresponds to `KernelInfo`. Its fields are never read, just like those of `KernelInfo` in
/// the other crates.
const BY_HAND_TYPES: &str = r#"#![allow(dead_code)]

pub struct Kernel {
    pub path: &'static str,
    pub symbol: &'static str,
    pub package: &'static str,
    pub version: &'static str,
    pub file: &'static str,
    pub line: u32,
    pub column: u32,
    pub summary: &'static str,
    pub params: &'static [Param],
    pub min_arch: Option<u32>,
    pub block: Option<[u32; 3]>,
    pub shared: Option<u32>,
    pub image: Option<Image>,
    pub bytes: fn() -> &'static [u8],
}

inventory::collect!(Kernel);

pub struct Image {
    pub file: &'static str,
    pub len: u64,
}

pub struct Param {
    pub name: &'static str,
    pub ty: &'static str,
    pub pass: Pass,
    pub size: u32,
    pub align: u32,
    pub element_size: u32,
    pub element_align: u32,
}

pub enum Pass {
    Value,
    Slice,
    SliceMut,
}

impl Param {
    pub const fn value<T>(name: &'static str, ty: &'static str) -> Self {
        let (size, align) = (size_of::<T>() as u32, align_of::<T>() as u32);
        Param { name, ty, pass: Pass::Value, size, align, element_size: size, element_align: align }
    }

    pub const fn slice<T>(name: &'static str, ty: &'static str) -> Self {
        Self::address::<T>(name, ty, Pass::Slice)
    }

    pub const fn slice_mut<T>(name: &'static str, ty: &'static str) -> Self {
        Self::address::<T>(name, ty, Pass::SliceMut)
    }

    const fn address<T>(name: &'static str, ty: &'static str, pass: Pass) -> Self {
        let (element_size, element_align) = (size_of::<T>() as u32, align_of::<T>() as u32);
        Param { name, ty, pass, size: 8, align: 8, element_size, element_align }
    }
}
"#;

/// Returns an image with the kernels of these numbers, under nvcc's names for them. The kernels do nothing.
fn ptx(numbers: Range<usize>) -> String {
    let kernel = |number| {
        format!(
            ".visible .entry _Z5k{number:04}jfPKfPf(\n\t.param .u32 n,\n\t.param .f32 a,\n\t.param .u64 x,\n\t.param .u64 y\n)\n\
             {{\n\tret;\n}}\n\n"
        )
    };
    ".version 7.0\n.target sm_60\n.address_size 64\n\n".to_owned() + &numbers.map(kernel).collect::<String>()
}

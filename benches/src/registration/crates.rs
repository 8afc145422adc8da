//! The generated crates: a thousand annotated kernels, the same by hand, both without kernels, and sixty of one image.

use super::{Each, KERNELS, Kernels, MODULES};
use crate::Result;
use crate::workshop::{File, Package, Workshop, repository};

/// Writes the compared crates.
pub fn compared(workshop: &Workshop) -> Result<Each<Kernels<Package>>> {
    let annotated = |name, modules| {
        let mut files = self::modules(modules, KERNELS / MODULES, ANNOTATED_HEAD, annotated_kernel);
        files.extend([main(ANNOTATED_MAIN, modules), ("x.ptx".to_owned(), PTX.into())]);
        workshop.package(name, &kernel_registry(), files)
    };
    let by_hand = |name, modules| {
        let mut files = self::modules(modules, KERNELS / MODULES, BY_HAND_HEAD, kernel_by_hand);
        files.extend([main(BY_HAND_MAIN, modules), ("x.ptx".to_owned(), PTX.into())]);
        files.push(("src/kernel.rs".to_owned(), BY_HAND_TYPES.into()));
        workshop.package(name, INVENTORY, files)
    };
    Ok(Each {
        annotated: Kernels {
            with: annotated("annotated", MODULES)?,
            without: annotated("annotated-none", 0)?,
        },
        by_hand: Kernels { with: by_hand("by-hand", MODULES)?, without: by_hand("by-hand-none", 0)? },
    })
}

/// A crate with this many kernels of one image, each in a module of its own.
pub fn sharing(workshop: &Workshop, kernels: usize, image: Vec<u8>) -> Result<Package> {
    let mut files = modules(kernels, 1, ANNOTATED_HEAD, annotated_kernel);
    files.extend([main(ANNOTATED_MAIN, kernels), ("x.ptx".to_owned(), image)]);
    workshop.package("sharing", &kernel_registry(), files)
}

/// The name of a module's file.
pub fn module_file(module: usize) -> String {
    format!("src/m{module:02}.rs")
}

fn modules(modules: usize, kernels: usize, head: &str, kernel: fn(usize) -> String) -> Vec<File> {
    let module = |module: usize| {
        let bodies = (0..kernels).map(|index| kernel(module * kernels + index + 1));
        let text = bodies.fold(head.to_owned(), |text, body| text + "\n" + &body);
        (module_file(module), text.into_bytes())
    };
    (0..modules).map(module).collect()
}

fn main(text: &str, modules: usize) -> File {
    let declarations: String = (0..modules).map(|module| format!("mod m{module:02};\n")).collect();
    ("src/main.rs".to_owned(), (declarations + text).into_bytes())
}

fn kernel_registry() -> String {
    // In single quotes, because to TOML a backslash in double ones is an escape.
    format!("kernel-registry = {{ path = '{}' }}", repository().join("kernel-registry").display())
}

const INVENTORY: &str = "inventory = \"0.3\"";

/// Asked to idle, the program ends at once: what it did by then is what registration costs every program.
const ANNOTATED_MAIN: &str = r#"
fn main() {
    if std::env::args().nth(1).is_none_or(|argument| argument != "idle") {
        println!("{}", kernel_registry::kernels().expect("the registry is sound").len());
    }
}
"#;

const ANNOTATED_HEAD: &str = "use kernel_registry::gpu_kernel;\n";

fn annotated_kernel(number: usize) -> String {
    format!(
        r#"/// y = a*x + y, number {number}.
#[gpu_kernel(image = "x.ptx", name = "saxpy", block = 256)]
pub unsafe fn k{number:04}(n: u32, a: f32, x: &[f32], y: &mut [f32]);
"#
    )
}

const BY_HAND_MAIN: &str = r#"mod kernel;

fn main() {
    if std::env::args().nth(1).is_none_or(|argument| argument != "idle") {
        println!("{}", inventory::iter::<kernel::Kernel>().count());
    }
}
"#;

const BY_HAND_HEAD: &str = "use crate::kernel::{Image, Kernel, Param, image};\n";

/// What a person would write without the attribute: every field that a `KernelInfo` has, and no record.
fn kernel_by_hand(number: usize) -> String {
    format!(
        r#"inventory::submit! {{
    Kernel {{
        path: concat!(module_path!(), "::k{number:04}"),
        symbol: "k{number:04}",
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
        image: Some(Image {{ file: "x.ptx", len: image().len() as u64 }}),
        bytes: image,
    }}
}}
"#
    )
}

/// The equal struct. Nothing reads its fields here, as nothing reads those of the annotated kernels.
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

pub const fn image() -> &'static [u8] {
    include_bytes!("../x.ptx")
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

/// The frame of an image: nobody looks further into it yet.
const PTX: &str = ".version 7.0\n.target sm_60\n.address_size 64\n\
    .visible .entry saxpy(.param .u32 n, .param .f32 a, .param .u64 x, .param .u64 y) { ret; }\n";

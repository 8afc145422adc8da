//! Tests `cargo kernels declare` with libraries of templates: stable names, structs that files share, and edits that people make to
//! a generated file.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use tests::{cargo_kernels_command, scratch_folder};

const HEAD: &str = ".version 8.0\n.target sm_75\n";

fn declare(folder: &Path, args: &[&str]) -> Output {
    let mut command = cargo_kernels_command();
    command.current_dir(folder).env("KERNEL_REGISTRY_COMPILER", "prebuilt");
    command.arg("declare").args(args).output().unwrap()
}

/// Runs `declare`, which has to succeed, and returns its standard error.
fn declared(folder: &Path, args: &[&str]) -> String {
    let output = declare(folder, args);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{errors}{}", String::from_utf8_lossy(&output.stdout));
    errors
}

/// Creates a package with these files.
fn package(files: &[(&str, &str)]) -> PathBuf {
    let folder = scratch_folder();
    for (path, text) in [("Cargo.toml", "")].iter().chain(files) {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

fn ptx(entries: &[(&str, &str)]) -> String {
    let entry = |(symbol, params): &(&str, &str)| format!(".entry {symbol}({params}) {{ ret; }}\n");
    HEAD.to_owned() + &entries.iter().map(entry).collect::<String>()
}

/// Returns the names of the declarations in a file.
fn names(text: &str) -> Vec<&str> {
    let functions = text.split("pub unsafe fn ").skip(1);
    functions.map(|rest| rest.split(['(', '<']).next().unwrap()).collect()
}

#[test]
fn declarations_are_the_same_from_every_folder() {
    let image = |hash: &str| {
        ptx(&[
            (&format!("_Z5applyIXadL_ZN31_INTERNAL_{hash}_4_a_cu__Z1fv3incEfEEfEvPT0_"), ".param .u64 x"),
            (&format!("_Z5applyIXadL_ZN31_INTERNAL_{hash}_4_a_cu__Z1fv3decEfEEfEvPT0_"), ".param .u64 x"),
            (&format!("_ZN33_GLOBAL__N__{hash}_4_a_cu__Z1fv4packIJiiEEEvPf"), ".param .u64 x"),
            (&format!("_ZN33_GLOBAL__N__{hash}_4_a_cu__Z1fv4packIJiiEEEvPd"), ".param .u64 x"),
        ])
    };
    let folder = package(&[("here.ptx", &image("ac454b6f")), ("there.ptx", &image("742c5b26"))]);
    declared(&folder, &["here.ptx", "--image", "x.ptx", "--output", "x.rs"]);
    let text = fs::read_to_string(folder.join("x.rs")).unwrap();
    assert!(!text.contains("ac454b6f"), "{text}");
    assert!(text.contains("name = \"apply<&inc(float), float>\""), "{text}");
    assert!(text.contains("pub unsafe fn apply_inc_float(p0: &mut [f32]);"), "{text}");
    declared(&folder, &["there.ptx", "--image", "x.ptx", "--check", "x.rs"]);
}

#[test]
fn enumerations_are_constants_and_no_name_is_a_number_in_a_row() {
    let long = "long_argument_of_a_template_that_makes_its_name_longer_than_names_are";
    let argument = format!("N{}{long}{}{long}E", long.len(), long.len());
    let kernels: Vec<(String, &str)> = vec![
        ("_Z6attendILN2ns4KindE0EEvPf".to_owned(), ".param .u64 x"),
        ("_Z6attendILN2ns4KindE1EEvPf".to_owned(), ".param .u64 x"),
        ("_ZN2ns3actIfXadL_ZNS_4siluIfEET_S2_EEEEvPS2_".to_owned(), ".param .u64 x"),
        ("_ZN2ns3actIfXadL_ZNS_4geluIfEET_S2_EEEEvPS2_".to_owned(), ".param .u64 x"),
        (format!("_Z3runI{argument}iEvPi"), ".param .u64 x"),
        (format!("_Z3runI{argument}fEvPf"), ".param .u64 x"),
        (format!("_Z3runI{argument}dEvPd"), ".param .u64 x"),
    ];
    let image = |kernels: &[(String, &str)]| {
        ptx(&kernels.iter().map(|(symbol, params)| (symbol.as_str(), *params)).collect::<Vec<_>>())
    };
    let folder = package(&[("all.ptx", &image(&kernels)), ("fewer.ptx", &image(&kernels[..6]))]);
    let text = |image: &str| {
        let output = declare(&folder, &[image, "--image", "x.ptx"]);
        String::from_utf8(output.stdout).unwrap()
    };
    let (all, fewer) = (text("all.ptx"), text("fewer.ptx"));
    let attend = "instances(<0>, <1>))]\npub unsafe fn attend<const N: i32>(p0: &mut [f32]);";
    assert!(all.contains(attend), "{all}");
    assert!(names(&all).contains(&"act_float_silu_float"), "{all}");
    assert!(names(&all).contains(&"act_float_gelu_float"), "{all}");
    assert_eq!(names(&all).iter().filter(|name| name.starts_with("run_")).count(), 3, "{all}");
    // One more kernel does not change the name of another kernel.
    assert!(names(&fewer).iter().all(|name| names(&all).contains(name)), "{all}{fewer}");
    assert!(names(&all).iter().all(|name| name.len() <= 80), "{all}");
}

#[test]
fn files_of_a_folder_share_their_structs() {
    let by_value = ptx(&[("_Z5valueN2ns5ShapeE", ".param .align 4 .b8 s[12]")]);
    let pointer = ptx(&[("_Z7pointerPN2ns5ShapeEPN2ns5OtherE", ".param .u64 s,\n.param .u64 o")]);
    let one = ptx(&[("_Z3one4Both", ".param .align 4 .b8 s[4]")]);
    let two = ptx(&[("_Z3two4Both", ".param .align 4 .b8 s[8]")]);
    let folder = package(&[
        ("images/value.ptx", &by_value),
        ("images/deep/pointer.ptx", &pointer),
        ("images/one.ptx", &one),
        ("images/two.ptx", &two),
    ]);
    declared(&folder, &["images", "--output", "src"]);
    let text = |path: &str| fs::read_to_string(folder.join("src").join(path)).unwrap();
    let structs = text("structs.rs");
    assert!(structs.contains("#[repr(C, align(4))]\npub struct Shape(pub [u8; 12]);"), "{structs}");
    assert!(structs.contains("pub struct Other(pub [u8; 0]);"), "{structs}");
    assert!(
        text("mod.rs")
            .ends_with("pub mod deep;\npub mod one;\npub mod structs;\npub mod two;\npub mod value;\n")
    );
    assert!(text("value.rs").contains("\npub use super::structs::Shape;\n"), "{}", text("value.rs"));
    let deep = text("deep/pointer.rs");
    assert!(deep.contains("\npub use super::super::structs::{Other, Shape};\n"), "{deep}");
    assert!(deep.contains("pub unsafe fn pointer(p0: &mut [Shape], p1: *mut Other);"), "{deep}");
    // Two structs of one name and different sizes stay in their files.
    assert!(text("one.rs").contains("pub struct Both(pub [u8; 4]);") && !structs.contains("Both"));
    assert!(text("two.rs").contains("pub struct Both(pub [u8; 8]);"));
    declared(&folder, &["images", "--check", "src"]);
}

/// A generated file with edits that people made.
const EDITED: &str = "\
//! The kernels of `x.ptx`.
//!
//! Mine.

// Written by `cargo kernels declare`.

use kernel_registry::{KernelParam, gpu_kernel};
use std::fmt;

/// C++'s `Shape`: its size is known, and its fields are not.
#[derive(Clone, Copy, KernelParam)]
#[repr(C)]
pub struct Shape {
    pub rows: i32,
    pub columns: i32,
}

// The fast one.
/// Adds in place.
///
/// `add(float*, const float*, Shape)`
///
/// Needs a warm cache.
#[allow(dead_code)]
#[gpu_kernel(image = \"old.ptx\", name = \"add\", block = BLOCK, stack = 16 * 1024)]
pub(crate) unsafe fn add_in_place(sum: *mut f32, x: Option<&[f32]>, shape: Shape);

/// `old(int)`
#[gpu_kernel(image = \"x.ptx\", block = 32)]
pub unsafe fn old(p0: i32);

#[gpu_kernel(image = \"x.ptx\", instances(<f32>), shared = 4 * size_of::<T>())]
pub unsafe fn fill<T>(out: &mut [T], value: T);

/// `raw`, whose name carries no types.
#[gpu_kernel(image = \"x.ptx\")]
pub unsafe fn raw(out: &mut [f32], n: i32);

/// The block of all.
pub const BLOCK: u32 = 128;

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, \"{}; // {}\", self.rows, self.columns)
    }
}
";

#[test]
fn edits_to_a_generated_file_are_kept() {
    let image = ptx(&[
        ("_Z3addPfPKf5Shape", ".param .u64 o,\n.param .u64 x,\n.param .align 4 .b8 s[8]"),
        ("_Z4fillIfEvPT_S0_", ".param .u64 o,\n.param .f32 v"),
        ("_Z4fillIdEvPT_S0_", ".param .u64 o,\n.param .f64 v"),
        ("raw", ".param .u64 o,\n.param .u32 n"),
        ("more", ".param .u32 n"),
    ]);
    let folder = package(&[("x.ptx", &image), ("x.rs", EDITED)]);
    let said = declared(&folder, &["x.ptx", "--output", "x.rs"]);
    assert_eq!(said, "warning: `old` is gone, and with it what was added to its declaration\n");
    let text = fs::read_to_string(folder.join("x.rs")).unwrap();
    for kept in [
        "//! The kernels of `x.ptx`.\n//!\n//! Mine.\n\n",
        "use std::fmt;\n",
        "pub struct Shape {\n    pub rows: i32,\n    pub columns: i32,\n}\n",
        "\n// The fast one.\n/// Adds in place.\n///\n/// `add(float*, const float*, Shape)`\n///\n/// Needs a warm cache.\n\
         #[allow(dead_code)]\n#[gpu_kernel(image = \"x.ptx\", name = \"add\", block = BLOCK, stack = 16 * 1024)]\n\
         pub(crate) unsafe fn add_in_place(sum: *mut f32, x: Option<&[f32]>, shape: Shape);\n",
        "#[gpu_kernel(image = \"x.ptx\", instances(<f32>, <f64>), shared = 4 * size_of::<T>())]\n\
         pub unsafe fn fill<T>(out: &mut [T], value: T);\n",
        "pub unsafe fn raw(out: &mut [f32], n: i32);\n",
        "pub unsafe fn more(p0: u32);\n",
        "/// The block of all.\npub const BLOCK: u32 = 128;\n",
        "impl fmt::Display for Shape {\n",
    ] {
        assert!(text.contains(kept), "{kept}\nis not in\n{text}");
    }
    assert!(!text.contains("fn old"), "{text}");
    declared(&folder, &["x.ptx", "--check", "x.rs"]);
    declared(&folder, &["x.ptx", "--output", "x.rs"]);
    assert_eq!(fs::read_to_string(folder.join("x.rs")).unwrap(), text, "a second run changes nothing");

    // An edit that contradicts the image is not kept.
    fs::write(folder.join("x.ptx"), image.replace("_Z3addPfPKf5Shape", "_Z3addPdPKd5Shape")).unwrap();
    declared(&folder, &["x.ptx", "--output", "x.rs"]);
    let text = fs::read_to_string(folder.join("x.rs")).unwrap();
    assert!(text.contains("fn add_in_place(sum: &mut [f64], x: &[f64], shape: Shape);"), "{text}");
    assert!(text.contains("block = BLOCK, stack = 16 * 1024)]"), "{text}");

    fs::write(folder.join("x.rs"), "fn half(").unwrap();
    let output = declare(&folder, &["x.ptx", "--output", "x.rs"]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("`x.rs` is not Rust, so what was added to it cannot be kept"), "{errors}");
}

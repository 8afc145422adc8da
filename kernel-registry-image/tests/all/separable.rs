//! Tests which PTX modules are separable, which means that their kernels can be compiled separately.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use kernel_registry_cuda::ptx::{Kernel, cut, kernels};
use kernel_registry_image::read;

use crate::common::image;

const HEAD: &str = ".version 8.0\n.target sm_80\n.address_size 64\n";
const KERNELS: &str = ".visible .entry a() { ret; }\n.weak .entry b() { ret; }\n";

fn is_separable(declarations: &str, kernels: &str) -> bool {
    read(format!("{HEAD}{declarations}\n{kernels}").as_bytes()).unwrap().is_separable()
}

/// Returns whether a module is separable if it has this declaration, a kernel that refers to the variable
/// `v`, and another kernel.
fn with_v(declaration: &str) -> bool {
    is_separable(declaration, ".visible .entry a() { mov.u64 %rd1, v; ret; }\n.visible .entry b() { ret; }")
}

#[test]
fn functions_shared_memory_and_lines_are_no_obstacle() {
    for declarations in [
        "",
        ".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);",
        ".func helper() { ret; }\n.weak .func other() { call.uni helper, (); ret; }",
        ".extern .shared .align 16 .b8 dynamic[];\n.shared .align 4 .b8 tile[128];",
        ".file 1 \"a.cu\", 1, 2\n.section .debug_str { $L__info_string0: .b8 95, 0 }",
        ".pragma \"nounroll\";",
    ] {
        assert!(is_separable(declarations, KERNELS), "{declarations}");
    }
    let calls = ".visible .entry a() { call.uni helper, (); ret; }\n.visible .entry b() { call.uni helper, (); ret; }";
    assert!(is_separable(".func helper() { ret; }", calls));
}

#[test]
fn private_variables_that_no_kernel_names_are_no_obstacle() {
    assert!(is_separable(
        ".global .align 4 .u32 WARP = 32;\n.const .align 4 .b8 v[8] = {1, 2, 3, 4, 5, 6, 7, 8};",
        KERNELS
    ));
    assert!(is_separable(".global .align 1 .b8 begin[1];", KERNELS));
    assert!(!is_separable(".global .align 1 .b8 v[1048576];", KERNELS), "every piece would have it");
}

#[test]
fn texts_of_printf_are_no_obstacle() {
    let prints = |kernel: &str, text: &str| {
        format!(".visible .entry {kernel}() {{ mov.u64 %rd1, {text}; cvta.global.u64 %rd2, %rd1; ret; }}\n")
    };
    for name in ["$str", "$str$12", "__unnamed_3", "__cudart_i2opi_f"] {
        let both = prints("a", name) + &prints("b", name);
        assert!(is_separable(&format!(".global .align 1 .b8 {name}[3] = {{37, 117, 0}};"), &both), "{name}");
        assert!(!is_separable(&format!(".visible .global .align 1 .b8 {name}[3];"), &both), "{name}");
    }
}

#[test]
fn variables_that_could_be_shared_keep_kernels_together() {
    for variable in [
        ".global .align 4 .u32 v;",
        ".global .align 4 .u32 v = 7;",
        ".const .align 4 .f32 v;",
        ".const .align 4 .b8 v[8] = {1, 2, 3, 4, 5, 6, 7, 8};",
        ".global .align 4 .u32 unused, v;",
        ".global .v4 .f32 v;",
    ] {
        assert!(!with_v(variable), "{variable}");
    }
    for variable in [
        ".visible .global .align 4 .u32 v;",
        ".visible .const .align 4 .b8 v[8];",
        ".extern .global .align 4 .u32 v;",
        ".weak .global .align 4 .u32 v;",
        ".common .global .align 4 .u32 v;",
        ".global .attribute(.managed) .align 4 .u32 v;",
        ".global .align 8 .u64 w; .global .align 8 .u64 v = w;",
        ".global .align 8 .u64 v[1] = {generic(w)};",
    ] {
        assert!(!is_separable(variable, KERNELS), "{variable}");
    }
    let inside = ".visible .entry a() { .global .u32 v; ret; }\n.visible .entry b() { ret; }";
    assert!(!is_separable("", inside));
}

/// Returns the variable of an image with these declarations and a kernel that refers to `v`.
fn variable(declarations: &str) -> Option<String> {
    let kernel = ".visible .entry a() { mov.u64 %rd1, v; ret; }";
    read(format!("{HEAD}{declarations}\n{kernel}").as_bytes()).unwrap().variable().map(str::to_owned)
}

#[test]
fn variables_of_ptx_are_named() {
    for (declaration, name) in [
        (".visible .global .align 4 .u32 counter = 5;", "counter"),
        (".global .align 4 .u32 unused; .global .align 4 .u32 v = 7;", "v"),
        (".visible .const .align 4 .b8 weights[8];", "weights"),
        (".weak .global .align 1 .b8 $str[3];", "$str"),
        (".global .align 8 .u64 table[1] = {generic(w)};", "table"),
        (".global .texref v;", ".texref"),
    ] {
        assert_eq!(variable(declaration).as_deref(), Some(name), "{declaration}");
    }
    // An array that is too large to repeat in every piece still keeps nothing from one launch to the next.
    for harmless in
        ["", ".global .align 1 .b8 begin[1048576];", ".global .align 1 .b8 $str[3] = {37, 117, 0};"]
    {
        assert_eq!(variable(harmless), None, "{harmless}");
    }
}

#[test]
fn sections_with_variables_of_machine_code_are_named() {
    for (name, section) in [
        ("blas1.sm_90.cubin", None),
        ("half.sm_75.cubin", None),
        // The text of a `printf` looks like any other variable there.
        ("diagnose.sm_90.cubin", Some(".nv.global.init")),
        ("cluster.sm_90a.cuda12.cubin", Some(".nv.global.init")),
    ] {
        assert_eq!(read(&image(name)).unwrap().variable(), section, "{name}");
    }
}

#[test]
fn textures_keep_kernels_together() {
    for declaration in [
        ".global .texref v;",
        ".global .surfref v;",
        ".global .samplerref v = { filter_mode = nearest };",
        ".tex .u64 v;",
    ] {
        assert!(!is_separable(declaration, KERNELS), "{declaration}");
    }
}

#[test]
fn addresses_of_functions_keep_kernels_together() {
    let table = ".func f() { ret; }\n.global .align 8 .u64 table[1] = {f};";
    assert!(!is_separable(table, KERNELS));
    let taken = ".visible .entry a() { mov.u64 %rd1, f; ret; }\n.visible .entry b() { ret; }";
    assert!(!is_separable(".func f() { ret; }", taken));
    let through =
        ".visible .entry a() { call (r), %rd1, (x), prototype; ret; }\n.visible .entry b() { ret; }";
    assert!(!is_separable("", through));
    let launches =
        ".visible .entry a() { call (r), cudaLaunchDeviceV2, (x, y); ret; }\n.visible .entry b() { ret; }";
    assert!(!is_separable(
        ".extern .func (.param .b32 r) cudaLaunchDeviceV2 (.param .b64 a, .param .b64 b);",
        launches
    ));
    let of_kernel = ".visible .entry a() { ret; }\n.visible .entry b() { mov.u64 %rd1, a; ret; }";
    assert!(!is_separable("", of_kernel));
}

#[test]
fn unknown_forms_keep_kernels_together() {
    for declarations in [
        ".section .debug_info { .b64 $L__func_begin0 }",
        "@@DWARF .section .debug_info, \"\", @progbits",
        ".alias a, b;",
        ".file 1 \"C:\\\\a.cu\"",
        ".visible .entry declared();",
    ] {
        assert!(!is_separable(declarations, KERNELS), "{declarations}");
    }
    let two = format!("{HEAD}{KERNELS}{HEAD}{KERNELS}");
    assert!(!read(two.as_bytes()).unwrap().is_separable(), "two modules");
    let ended = format!("{HEAD}{KERNELS}\0.entry c() {{ ret; }}");
    assert!(!read(ended.as_bytes()).unwrap().is_separable(), "the driver does not see the last one");
}

#[test]
fn only_text_is_separable() {
    for (name, bytes) in crate::common::images().into_iter().filter(|(name, _)| !name.ends_with(".ptx")) {
        assert!(read(&bytes).is_ok_and(|image| !image.is_separable()), "{name}");
    }
}

/// A damaged module either isn't separable, or its pieces have the same kernels as the module.
#[test]
fn damaged_modules() {
    let step = if cfg!(debug_assertions) { 997 } else { 7 };
    for name in ["diagnose.nvcc13.ptx", "reduce.nvrtc12.ptx"] {
        let mut bytes = image(name);
        let mut count = 0;
        for at in (0..bytes.len()).step_by(step) {
            for byte in *b"{}();\"/*.\\\n\0\xe9" {
                let was = std::mem::replace(&mut bytes[at], byte);
                if let Ok(image) = read(&bytes)
                    && image.is_separable()
                {
                    count += 1;
                    let expected = image.variants.into_iter().next().unwrap().entries;
                    let all: Vec<_> = kernels(&bytes).map(Result::unwrap).collect();
                    for (number, entry) in expected.iter().enumerate() {
                        let piece = cut(&bytes, &all, |other| other == number).collect::<Vec<_>>().concat();
                        let entries = read(&piece).unwrap().variants.remove(0).entries;
                        assert_eq!(entries, std::slice::from_ref(entry), "{name} with {byte} at {at}");
                    }
                }
                bytes[at] = was;
            }
        }
        assert!(count > 0);
    }
}

/// Returns the PTX of the repository, and of the folder in the variable `PTX`.
fn texts() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folders = [
        "kernels/prebuilt",
        "tests/census/prebuilt",
        "kernel-registry-image/tests/images",
        "kernel-registry-ptx/tests/corpus/nvcc",
        "kernel-registry-ptx/tests/corpus/prebuilt",
    ];
    let mut folders: Vec<_> = folders.iter().map(|folder| root.join(folder)).collect();
    folders.extend(env::var_os("PTX").map(PathBuf::from));
    let files =
        folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap()).map(|file| file.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|extension| extension == "ptx")).collect()
}

/// Checks that every piece of a separable module is a module, and that each kernel is in one piece. Assembles
/// each piece if the variable `PTXAS` names an assembler.
#[test]
fn pieces_are_modules() {
    let (mut count, mut whole) = (0, Vec::new());
    for path in texts() {
        let bytes = fs::read(&path).unwrap();
        let image = read(&bytes).unwrap();
        if !image.is_separable() {
            whole.push(path.file_name().unwrap().to_owned());
            continue;
        }
        count += 1;
        let all: Vec<Kernel<'_>> = kernels(&bytes).map(Result::unwrap).collect();
        let pieces = all.len().min(5);
        let mut entries = Vec::new();
        for piece in 0..pieces {
            let text = cut(&bytes, &all, |number| number % pieces == piece).collect::<Vec<_>>().concat();
            entries.extend(read(&text).unwrap().variants.remove(0).entries);
            compile(&path, &text);
        }
        let mut expected = image.variants.into_iter().next().unwrap().entries;
        for list in [&mut entries, &mut expected] {
            list.sort_by(|a, b| a.symbol.cmp(&b.symbol));
        }
        assert_eq!(entries, expected, "{}", path.display());
    }
    println!("{count} modules were cut, and these were not: {whole:?}");
    assert!(count > whole.len());
}

fn compile(path: &Path, text: &[u8]) {
    let Some(ptxas) = env::var_os("PTXAS") else { return };
    let folder = env::temp_dir().join(format!("kernel-registry-pieces-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("piece.ptx"), text).unwrap();
    let image = read(text).unwrap();
    let target = image.variants[0].target.to_string();
    // The oldest target of this assembler.
    let target = if target.as_str() < "sm_75" { "sm_75" } else { &target };
    let output = Command::new(ptxas)
        .args([&format!("-arch={target}"), "-O0", "-o", "/dev/null"])
        .arg(folder.join("piece.ptx"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}: {}", path.display(), String::from_utf8_lossy(&output.stderr));
    fs::remove_dir_all(&folder).unwrap();
}

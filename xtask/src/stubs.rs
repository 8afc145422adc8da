//! Makes stubs of NVIDIA's libraries and of nvcc, for programs that are only linked or only checked.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use cargo_metadata::{MetadataCommand, Package};

use crate::run::{Outcome, succeeds};

/// One of NVIDIA's libraries.
struct Library {
    /// The name in the file name `lib<name>.so`.
    name: &'static str,
    soname: &'static str,
    /// cudarc's bindings, whose functions begin with `prefix`.
    bindings: &'static str,
    prefix: &'static str,
    /// C code of functions that don't fail.
    working: &'static str,
}

const LIBRARIES: [Library; 5] = [
    Library {
        name: "cuda",
        soname: "libcuda.so.1",
        bindings: "src/driver/sys/mod.rs",
        prefix: "cu",
        working: "",
    },
    Library {
        name: "nvrtc",
        soname: "libnvrtc.so.13",
        bindings: "src/nvrtc/sys/mod.rs",
        prefix: "nvrtc",
        working: "",
    },
    // candle creates a cuBLAS handle and a cuRAND generator for each device, even if nothing uses them.
    Library {
        name: "cublas",
        soname: "libcublas.so",
        bindings: "src/cublas/sys/mod.rs",
        prefix: "cublas",
        working: "int cublasCreate_v2(void **handle) { *handle = handle; return 0; }
int cublasDestroy_v2(void *handle) { return 0; }
int cublasSetStream_v2(void *handle, void *stream) { return 0; }
",
    },
    Library {
        name: "cublasLt",
        soname: "libcublasLt.so",
        bindings: "src/cublaslt/sys/mod.rs",
        prefix: "cublasLt",
        working: "",
    },
    Library {
        name: "curand",
        soname: "libcurand.so",
        bindings: "src/curand/sys/mod.rs",
        prefix: "curand",
        working: "int curandCreateGenerator(void **generator, int type) { *generator = generator; return 0; }
int curandDestroyGenerator(void *generator) { return 0; }
int curandSetPseudoRandomGeneratorSeed(void *generator, unsigned long long seed) { return 0; }
int curandSetStream(void *generator, void *stream) { return 0; }
",
    },
];

/// Makes a folder of stubs of NVIDIA's libraries, like the driver's in NVIDIA's toolkit. Each function
/// returns an error, except those that candle needs. The functions are those of the cudarc that the package
/// in `of` is built with.
pub(crate) fn libraries(folder: &Path, of: &Path) -> Outcome {
    fs::create_dir_all(folder)?;
    let cudarc = package("cudarc", of)?;
    for Library { name, soname, bindings, prefix, working } in LIBRARIES {
        let text = fs::read_to_string(cudarc.manifest_path.with_file_name(bindings))?;
        let mut functions = functions(&text, "pub unsafe fn ");
        let works = |function: &&str| working.contains(&format!("int {function}("));
        functions.retain(|function| function.starts_with(prefix) && *function != "culib" && !works(function));
        compile(folder, name, &functions, working)?;
        let (soname, object) = (format!("-Wl,-soname,{soname}"), format!("{name}.o"));
        make(folder, "cc", &["-shared", &soname, &object, "-o", &format!("lib{name}.so")])?;
    }
    Ok(())
}

/// Makes the stubs that a program with `static-linking` needs in addition to the driver's library.
pub(crate) fn static_libraries(folder: &Path) -> Outcome {
    make(folder, "ar", &["crs", "libnvrtc_static.a", "nvrtc.o"])?;
    let others = ["stdc++", "cudart_static", "nvptxcompiler_static", "nvrtc-builtins_static"];
    others.iter().try_for_each(|name| empty_library(folder, name))
}

/// Makes a library without functions.
pub(crate) fn empty_library(folder: &Path, name: &str) -> Outcome {
    make(folder, "ar", &["crs", &format!("lib{name}.a")])
}

/// Makes a static library of the functions in these declarations, each of which returns an error.
pub(crate) fn static_library(folder: &Path, name: &str, declarations: &str) -> Outcome {
    compile(folder, name, &functions(declarations, "pub fn "), "")?;
    make(folder, "ar", &["crs", &format!("lib{name}.a"), &format!("{name}.o")])
}

/// Returns the names that follow these words.
fn functions<'a>(text: &'a str, words: &str) -> Vec<&'a str> {
    let mut names: Vec<_> = text.split(words).skip(1).filter_map(|rest| rest.split('(').next()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Compiles functions that return an error, and the working ones.
fn compile(folder: &Path, name: &str, functions: &[&str], working: &str) -> Outcome {
    let stubs: String = functions.iter().map(|name| format!("int {name}(void) {{ return 34; }}\n")).collect();
    let source = format!("{name}.c");
    fs::write(folder.join(&source), stubs + working)?;
    make(folder, "cc", &["-fPIC", "-c", &source, "-o", &format!("{name}.o")])
}

fn make(folder: &Path, program: &str, args: &[&str]) -> Outcome {
    succeeds(Command::new(program).args(args).current_dir(folder))
}

/// Returns the dependency with this name that the package in this folder is built with.
pub(crate) fn package(name: &str, folder: &Path) -> Outcome<Package> {
    let metadata = MetadataCommand::new().current_dir(folder).exec()?;
    let found = metadata.packages.into_iter().find(|package| package.name.as_str() == name);
    found.ok_or_else(|| format!("{name} is not among the dependencies of {}", folder.display()).into())
}

/// A script that replaces nvcc. It answers as nvcc does, and makes empty files, because candle's build script
/// writes their names into its sources.
const NVCC: &str = r#"#!/bin/sh
case "$1" in
--version) printf 'nvcc\n\n\nCuda compilation tools, release RELEASE, VRELEASE.0\n' ;;
--list-gpu-code) echo sm_80 ;;
esac
for argument; do
    case "$before" in
    -o) : >"$argument" ;;
    --output-directory) folder=$argument ;;
    esac
    before=$argument
done
[ -z "$folder" ] || : >"$folder/$(basename "$before" .cu).ptx"
"#;

/// Makes a stub of nvcc of this release.
pub(crate) fn nvcc(folder: &Path, release: &str) -> Outcome {
    script(folder, &NVCC.replace("RELEASE", release))
}

/// A script that only lets nvcc make PTX, and uses STUBS as the static library, because compiling the
/// library's sources takes most of the time.
const NVCC_FOR_PTX: &str = r#"#!/bin/sh
case " $* " in
*' -c '*) ;;
*' --lib '*) cp 'STUBS' "$3" ;;
*) exec 'NVCC' "$@" ;;
esac
"#;

/// Makes an nvcc that only compiles to PTX. `stubs` is the static library that it makes of all other code.
pub(crate) fn nvcc_for_ptx(folder: &Path, nvcc: &Path, stubs: &Path) -> Outcome {
    let script_text = NVCC_FOR_PTX.replace("STUBS", &stubs.display().to_string());
    script(folder, &script_text.replace("NVCC", &nvcc.display().to_string()))
}

fn script(folder: &Path, text: &str) -> Outcome {
    fs::create_dir_all(folder)?;
    let nvcc = folder.join("nvcc");
    fs::write(&nvcc, text)?;
    Ok(fs::set_permissions(&nvcc, Permissions::from_mode(0o755))?)
}

/// Returns a `PATH` that starts with this folder.
pub(crate) fn first_on_path(folder: &Path) -> Outcome<String> {
    Ok(format!("{}:{}", folder.display(), std::env::var("PATH")?))
}

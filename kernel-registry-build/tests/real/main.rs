//! Compiles the sample sources with the real compilers, if `CUDA_HOME` names them.
//!
//! `REQUIRE_CUDA=1` makes it an error if a test is left out. `NVRTC_12_0` names the library of CUDA 12.0, or
//! its folder.
#![cfg(unix)]

#[path = "../common/mod.rs"]
mod common;
mod prebuilt;

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Package, refusal, samples};
use kernel_registry_build::{Build, Report};
use kernel_registry_cuda::fatbin::{self, Entry, Kind, flag};
use kernel_registry_image::{Signature, Variant, VariantKind, read};

const FATBIN: &[u8] = &[0x50, 0xed, 0x55, 0xba];

const BROKEN: &str = "__global__ void broken(unsigned int n, float* y) {
    const unsigned int i = threadIdx.x;
    if (i < n) y[i] = missing(i) * 2.0f;
}
";

/// Returns the path that a variable names. Without the variable, the test is left out.
fn place(variable: &str) -> Option<PathBuf> {
    let place = env::var_os(variable).filter(|place| !place.is_empty());
    if place.is_none() {
        let missing = format!("`{variable}` is not set");
        let required = env::var_os("REQUIRE_CUDA").is_some_and(|value| !value.is_empty());
        assert!(!required, "{missing}, and `REQUIRE_CUDA` is");
        // Bypasses the test harness, which would hide the line.
        let _ =
            std::io::Write::write_all(&mut std::io::stderr(), format!("LEFT OUT: {missing}\n").as_bytes());
    }
    place.map(PathBuf::from)
}

fn build(package: &Package, cuda: &Path, compiler: &str) -> Build {
    package
        .build()
        .env("PATH", env::var_os("PATH").unwrap_or_default())
        .env("CUDA_HOME", cuda)
        .env("KERNEL_REGISTRY_COMPILER", compiler)
}

/// Returns a package with the sample sources.
fn with_samples() -> Package {
    let package = Package::new(&[]);
    for entry in fs::read_dir(samples().join("cuda")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        package.write(&format!("cuda/{name}"), &fs::read_to_string(&path).unwrap());
    }
    package
}

fn begins_with(report: &Report, start: &[u8]) {
    for image in &report.images {
        let bytes = fs::read(image.file.as_ref().expect(&image.origin)).unwrap();
        assert!(bytes.starts_with(start), "{} of {}", image.source, image.origin);
    }
}

/// Returns the architectures of an image's variants.
fn targets(image: &[u8]) -> String {
    let variants = read(image).unwrap().variants;
    assert!(variants.iter().all(|variant| !variant.entries.is_empty()));
    let name = |variant: &Variant| match variant.kind {
        VariantKind::Cubin => variant.target.to_string(),
        VariantKind::Ptx { .. } => variant.target.to_string().replace("sm_", "compute_"),
    };
    variants.iter().map(name).collect::<Vec<_>>().join(" ")
}

#[test]
fn nvcc_compiles_every_sample() {
    let Some(cuda) = place("CUDA_HOME") else { return };
    let package = with_samples();
    let build = build(&package, &cuda, "nvcc");
    let report = build.try_compile().unwrap();
    begins_with(&report, FATBIN);
    assert!(report.images[0].origin.starts_with("nvcc "), "{}", report.images[0].origin);
    assert_eq!((report.compiled, report.warnings.len()), (report.images.len(), 0));
    assert!(report.watched.contains(&package.folder().join("cuda/block_sum.cuh")));
    assert!(!report.watched.iter().any(|path| path.ends_with("cuda_runtime.h")));
    assert_eq!(build.try_compile().unwrap().compiled, 0);
    package.write("cuda/block_sum.cuh", &format!("{}\n// edited\n", text(&package, "cuda/block_sum.cuh")));
    let users =
        report.images.iter().filter(|image| text(&package, &image.source).contains("\"block_sum.cuh\""));
    assert_eq!(build.try_compile().unwrap().compiled, users.count());
}

#[test]
fn nvrtc_compiles_every_sample() {
    let Some(cuda) = place("CUDA_HOME") else { return };
    let package = with_samples();
    let build = build(&package, &cuda, "nvrtc");
    let report = build.try_compile().unwrap();
    begins_with(&report, FATBIN);
    assert!(report.images[0].origin.starts_with("NVRTC "), "{}", report.images[0].origin);
    assert_eq!((report.compiled, report.warnings.len()), (report.images.len(), 0));
    for image in &report.images {
        let of_cluster = image.source.ends_with("cluster.cu");
        let expected = if of_cluster { "sm_90 compute_90" } else { "sm_80 sm_90 compute_75" };
        assert_eq!(targets(&fs::read(image.file.as_ref().unwrap()).unwrap()), expected, "{}", image.source);
    }
    assert_eq!(build.try_compile().unwrap().compiled, 0);
    package.write("cuda/block_sum.cuh", &format!("{}\n// edited\n", text(&package, "cuda/block_sum.cuh")));
    assert!((1..report.compiled).contains(&build.try_compile().unwrap().compiled));
}

const PLAIN: &str =
    "__global__ void k(float* y, unsigned int n) { if (threadIdx.x < n) y[threadIdx.x] *= 2.0f; }\n";

#[test]
fn nvrtc_makes_the_machine_code_that_nvcc_makes() {
    let Some(cuda) = place("CUDA_HOME") else { return };
    let package = Package::new(&[("cuda/a.cu", PLAIN)]);
    let image =
        |build: &Build| fs::read(build.try_compile().unwrap().images[0].file.as_ref().unwrap()).unwrap();
    let asked = ["sm_75", "sm_90a", "sm_100f", "sm_120"];
    let with =
        |compiler: &str| asked.iter().fold(build(&package, &cuda, compiler), |build, arch| build.arch(*arch));
    for more in [None, Some("compute_80")] {
        let of = |compiler: &str| more.iter().fold(with(compiler), |build, ptx| build.ptx(*ptx));
        let nvrtc = image(&of("nvrtc"));
        let nvcc = image(&of("nvcc").flag("--no-compress"));
        assert_eq!(targets(&nvrtc), format!("sm_75 sm_90a sm_100f sm_120 {}", more.unwrap_or("compute_75")));
        // nvcc puts PTX before machine code for the same architecture.
        let heads = |bytes: &[u8]| -> Vec<String> {
            let entries = fatbin::entries(bytes).map(Result::unwrap);
            let head = |one: Entry<'_>| {
                format!("{} {:?} {:?} {:x} {}", one.sm, one.kind, one.version, one.flags, one.packed_len)
            };
            let mut heads: Vec<String> = entries.map(head).collect();
            heads.sort();
            heads
        };
        assert_eq!(heads(&nvrtc), heads(&nvcc));
    }
    assert_eq!(packed_by_fatbinary(&package, &cuda, &image(&with("nvrtc"))), 4);
    // PTX alone stays text.
    assert_eq!(targets(&image(&build(&package, &cuda, "nvrtc").ptx("compute_80"))), "compute_80");
    assert!(package.index().contains("cuda__a.cu.ptx"), "{}", package.index());
    let two = build(&package, &cuda, "nvrtc").ptx("compute_80").ptx("compute_90");
    assert_eq!(targets(&image(&two)), "compute_80 compute_90");
    assert_eq!(two.clone().flag("-Xptxas=-v").try_compile().unwrap().warnings, [""; 0]);
    let said = with("nvrtc").flag("-Xptxas").flag("-v").try_compile().unwrap().warnings;
    assert!(said.iter().any(|line| line.contains("'sm_90a'")), "{said:?}");
}

/// Compares the machine code at the start of a fatbin with what NVIDIA's tool writes for the same cubins.
/// Returns the number of cubins.
fn packed_by_fatbinary(package: &Package, cuda: &Path, ours: &[u8]) -> usize {
    let folder = package.folder();
    let packed = folder.join("theirs.fatbin");
    let mut tool = Command::new(cuda.join("bin/fatbinary"));
    tool.args(["-64", "-compress=false"]).arg(format!("--create={}", packed.display()));
    let cubins: Vec<Entry<'_>> =
        fatbin::entries(ours).map(Result::unwrap).filter(|one| one.kind == Kind::Cubin).collect();
    for Entry { sm, flags, payload, .. } in &cubins {
        let file = folder.join(format!("{sm}.cubin"));
        fs::write(&file, payload).unwrap();
        let suffix = if flags & flag::ARCH != 0 {
            "a"
        } else if flags & flag::FAMILY != 0 {
            "f"
        } else {
            ""
        };
        tool.arg(format!("--image3=kind=elf,sm={sm}{suffix},file={}", file.display()));
    }
    assert!(tool.status().unwrap().success());
    let theirs = fs::read(packed).unwrap();
    // The container's header has the length of all entries.
    assert!(ours[..8] == theirs[..8] && ours[16..].starts_with(&theirs[16..]));
    cubins.len()
}

/// A source that includes headers of every wheel, directly or through other headers.
const OF_WHEELS: &str =
    "#include <cuda_fp16.h>\n#include <mma.h>\n#include <cooperative_groups.h>\n__global__ void k() {}\n";

#[test]
fn nvrtc_finds_the_headers_of_all_wheels() {
    let (Some(cuda), Some(nvrtc)) = (place("CUDA_HOME"), place("NVRTC_12_0")) else { return };
    let library = if nvrtc.is_dir() { nvrtc.as_path() } else { nvrtc.parent().unwrap() };
    let nvidia = library.parent().unwrap().parent().unwrap();
    let package = Package::new(&[("cuda/a.cu", OF_WHEELS)]);
    let report = build(&package, &cuda, "nvrtc").try_compile().unwrap();
    assert!(report.images[0].file.is_some(), "{:?}", report.images);
    // Each wheel of CUDA 12 installs into a separate folder.
    let venv = package.folder().join("venv/lib/python3.11/site-packages");
    fs::create_dir_all(venv.join("nvidia")).unwrap();
    let with = |wheels: &[&str]| {
        for wheel in wheels {
            std::os::unix::fs::symlink(nvidia.join(wheel), venv.join("nvidia").join(wheel)).unwrap();
        }
        let build = build(&package, Path::new(""), "nvrtc").env("PATH", "/usr/bin:/bin").ptx("compute_75");
        build.env("VIRTUAL_ENV", package.folder().join("venv")).try_compile().unwrap().images[0]
            .origin
            .clone()
    };
    assert!(with(&["cuda_nvrtc"]).contains("cuda_fp16.h"));
    let said = with(&["cuda_runtime"]);
    assert!(said.contains("`crt/mma.h`") && said.contains("nvidia-cuda-nvcc-cu12==12.0.*"), "{said}");
    assert_eq!(with(&["cuda_nvcc"]), "NVRTC 12.0");
}

#[test]
fn machine_code_that_nvrtc_cannot_make_is_a_warning() {
    let Some(nvrtc) = place("NVRTC_12_0") else { return };
    let library = if nvrtc.is_dir() { nvrtc.as_path() } else { nvrtc.parent().unwrap() };
    let package = Package::new(&[("cuda/a.cu", PLAIN)]);
    let build =
        build(&package, library.parent().unwrap(), "nvrtc").arch("sm_80").arch("sm_100").ptx("compute_75");
    for compiled in [1, 0] {
        let report = build.try_compile().unwrap();
        assert_eq!(report.compiled, compiled);
        assert_eq!(
            report.warnings,
            [
                "cuda/a.cu: there is no machine code for sm_100, which NVRTC 12.0 does not know: install one that does, \
              or leave sm_100 out and let the driver compile the PTX"
            ]
        );
        assert_eq!(targets(&fs::read(report.images[0].file.as_ref().unwrap()).unwrap()), "sm_80 compute_75");
    }
}

#[test]
fn nvrtc_of_cuda_12_0_compiles_every_sample_whose_headers_it_has() {
    let Some(nvrtc) = place("NVRTC_12_0") else { return };
    let library = if nvrtc.is_dir() { nvrtc.as_path() } else { nvrtc.parent().unwrap() };
    let package = with_samples();
    let report = build(&package, library.parent().unwrap(), "nvrtc").try_compile().unwrap();
    let (there, missing): (Vec<_>, Vec<_>) = report.images.iter().partition(|image| image.file.is_some());
    assert!(there.iter().all(|image| image.origin == "NVRTC 12.0") && there.len() >= 10);
    for image in missing {
        assert_eq!(image.source, "cuda/half.cu");
        assert!(
            image.origin.starts_with("it includes `cuda_fp16.h`, which NVRTC does not have (`pip install \"nvidia-cuda-runtime-cu12==12.0.*\"` has it), "),
            "{image:?}"
        );
    }
}

/// A source that uses all of the device header, with values of several alignments.
const RESIDENT: &str = "#include <kernel_registry.cuh>
struct Wide { double x[3]; };
struct Narrow { char x[5]; };
template <typename T>
__global__ void consume(kernel_registry::Control* control, kernel_registry::Queue<T>* queue, T* out) {
    __shared__ T value;
    kernel_registry::Stay stay(control);
    if (!stay.wait_for_blocks()) return;
    kernel_registry::Consumer<T> values(stay, queue);
    kernel_registry::Consumer<T> others(stay, queue, kernel_registry::Stay::block() / 2);
    while (others.next(&value)) out[1] = value;
    while (stay.goes_on() && values.next(&value)) {
        if (kernel_registry::Stay::is_leader()) out[0] = value;
    }
    const kernel_registry::Deadline deadline(1000);
    stay.wait_until([&] { return deadline.passed(); });
}
template __global__ void consume(kernel_registry::Control*, kernel_registry::Queue<Wide>*, Wide*);
template __global__ void consume(kernel_registry::Control*, kernel_registry::Queue<Narrow>*, Narrow*);
";

#[test]
fn the_device_header_compiles_for_every_architecture_and_standard() {
    let (Some(cuda), Some(old)) = (place("CUDA_HOME"), place("NVRTC_12_0")) else { return };
    let old = if old.is_dir() { old.as_path() } else { old.parent().unwrap() };
    let package = Package::new(&[("cuda/stays.cu", RESIDENT)]);
    // CUDA 13 compiles for sm_75 and newer only, CUDA 12.0 also for older architectures.
    let nvcc = build(&package, &cuda, "nvcc").arch("sm_75").arch("sm_80").arch("sm_90a").arch("sm_120");
    let nvrtc = |cuda: &Path, arch: &str| build(&package, cuda, "nvrtc").ptx(arch);
    let mut builds = vec![nvcc.clone(), nvcc.clone().flag("-rdc=true"), nvcc.flag("-Werror=all-warnings")];
    let archs = ["compute_60", "compute_70", "compute_75", "compute_90"];
    builds.extend(archs.map(|arch| nvrtc(old.parent().unwrap(), arch)));
    builds.extend(["compute_75", "compute_90", "compute_100"].map(|arch| nvrtc(&cuda, arch)));
    for standard in [None, Some("c++14"), Some("c++17"), Some("c++20")] {
        for build in &builds {
            let build = standard.iter().fold(build.clone(), |build, standard| build.std(*standard));
            let report = build.try_compile().unwrap_or_else(|error| panic!("{build:?}: {error}"));
            assert_eq!((report.compiled, &report.warnings[..]), (1, &[][..]), "{build:?}");
            let bytes = fs::read(report.images[0].file.as_ref().unwrap()).unwrap();
            for variant in read(&bytes).unwrap().variants {
                assert_eq!(variant.entries.len(), 2, "{build:?}");
            }
        }
    }
}

#[test]
fn nvcc_tells_which_headers_it_read() {
    let Some(cuda) = place("CUDA_HOME") else { return };
    let headers = ["cuda/ä h.cuh", "cuda/a\\b.cuh", "cuda/only90.cuh", "include/lib.h", "system/s.h"];
    let source = "#include \"ä h.cuh\"\n#include \"a\\b.cuh\"\n#include <lib.h>\n#include <s.h>\n#include <cassert>\n\
                  #if __CUDA_ARCH__ >= 900\n#include \"only90.cuh\"\n#endif\n\
                  #ifdef ABSENT\n#include \"absent.cuh\"\n#endif\n#line 40 \"nowhere.cu\"\n__global__ void k() {}\n";
    let package = Package::new(&[("cuda/a b.cu", source), ("cuda/absent.cuh", "")]);
    headers.iter().for_each(|header| package.write(header, ""));
    let build = build(&package, &cuda, "nvcc").include("include").flag("-isystem").flag("system");
    let mut watched = build.try_compile().unwrap().watched;
    // Leaves out the folder itself, and nvcc.
    watched.retain(|path| path.is_file() && path.starts_with(package.folder()));
    let mut expected = headers.map(|header| package.folder().join(header)).to_vec();
    expected.push(package.folder().join("cuda/a b.cu"));
    expected.sort();
    assert_eq!(watched, expected);
    for header in headers {
        package.write(header, "// other\n");
        assert_eq!(build.try_compile().unwrap().compiled, 1, "{header}");
    }
    assert_eq!(build.try_compile().unwrap().compiled, 0);
}

/// The facts that declarations are compared with. The key is the source and the symbol of a kernel; the value
/// is its signature, with offset and size of each parameter.
type Facts = BTreeMap<(String, String), (Option<Signature>, Vec<(u32, u32)>)>;

/// Returns the facts of all images. All variants of an image have to agree.
fn facts(build: &Build) -> Facts {
    let mut facts = Facts::new();
    for image in build.try_compile().unwrap().images {
        let bytes = fs::read(image.file.as_ref().expect(&image.origin)).unwrap();
        for entry in read(&bytes).unwrap().variants.into_iter().flat_map(|variant| variant.entries) {
            let params = entry.params.iter().map(|param| (param.offset, param.size)).collect();
            let fact = (entry.signature, params);
            let key = (image.source.clone(), entry.symbol);
            let there = facts.entry(key.clone()).or_insert_with(|| fact.clone());
            assert_eq!(*there, fact, "{key:?} of {}", image.origin);
        }
    }
    facts
}

#[test]
fn all_compilers_give_the_samples_the_same_signatures_and_parameters() {
    let (Some(cuda), Some(nvrtc)) = (place("CUDA_HOME"), place("NVRTC_12_0")) else { return };
    let old = if nvrtc.is_dir() { nvrtc.as_path() } else { nvrtc.parent().unwrap() };
    let package = with_samples();
    let nvcc = facts(&build(&package, &cuda, "nvcc"));
    assert!(nvcc.len() >= 20, "{nvcc:?}");
    assert!(nvcc.values().all(|(signature, params)| signature.is_some() && !params.is_empty()), "{nvcc:?}");
    assert_eq!(facts(&build(&package, &cuda, "nvrtc")), nvcc, "NVRTC of CUDA 13");
    assert_eq!(facts(&build(&package, old.parent().unwrap(), "nvrtc")), nvcc, "NVRTC of CUDA 12.0");
}

#[test]
fn the_toolkit_of_a_python_environment_is_found() {
    let Some(cuda) = place("CUDA_HOME") else { return };
    let package = Package::new(&[("cuda/a.cu", "__global__ void a() {}\n")]);
    let nvidia = package.folder().join("venv/lib/python3.11/site-packages/nvidia");
    fs::create_dir_all(&nvidia).unwrap();
    std::os::unix::fs::symlink(cuda, nvidia.join("cu13")).unwrap();
    for (compiler, image) in [("nvcc", "cuda__a.cu.fatbin"), ("nvrtc", "cuda__a.cu.fatbin")] {
        let build = build(&package, Path::new(""), compiler).env("PATH", "/usr/bin:/bin");
        build.env("VIRTUAL_ENV", package.folder().join("venv")).try_compile().unwrap();
        assert!(package.index().contains(image), "{}", package.index());
    }
}

fn text(package: &Package, path: &str) -> String {
    fs::read_to_string(package.folder().join(path)).unwrap()
}

#[test]
fn errors_of_both_have_file_and_line() {
    let Some(cuda) = place("CUDA_HOME") else { return };
    let package = Package::new(&[("cuda/broken.cu", BROKEN)]);
    for (compiler, name) in [("nvcc", "nvcc "), ("nvrtc", "NVRTC ")] {
        let said = refusal(&build(&package, &cuda, compiler));
        assert!(
            said.starts_with("cuda/broken.cu(3): error: identifier \"missing\" is undefined\n"),
            "{said}"
        );
        let (before, last) = said.rsplit_once('\n').unwrap();
        assert!(last.starts_with(name) && last.ends_with(" found errors in cuda/broken.cu"), "{said}");
        // NVRTC prints the caret since CUDA 13.
        assert!(compiler != "nvcc" || before.contains("                        ^\n"), "{said}");
        let said = refusal(&build(&package, &cuda, compiler).arch("sm_42"));
        assert!(said.contains(" does not know an architecture that was asked for ("), "{said}");
        let said = refusal(&build(&package, &cuda, compiler).flag("--bogus"));
        assert!(said.contains("bogus") && said.ends_with(" found errors in cuda/broken.cu"), "{said}");
    }
}

#[test]
fn warnings_of_both_come_once() {
    let Some(cuda) = place("CUDA_HOME") else { return };
    let package = Package::new(&[(
        "cuda/w.cu",
        "__global__ void k(float* y) {\n    int unused = 3;\n    y[0] = 1;\n}\n",
    )]);
    for compiler in ["nvcc", "nvrtc"] {
        let warnings = build(&package, &cuda, compiler).try_compile().unwrap().warnings;
        let first = "cuda/w.cu(2): warning #177-D: variable \"unused\" was declared but never referenced";
        assert_eq!(warnings[0], first, "{warnings:?}");
        assert_eq!(warnings.iter().filter(|line| line.contains("warning")).count(), 1, "{warnings:?}");
    }
}

/// The recommended wheel doesn't have headers of the host.
#[test]
fn a_header_of_the_host_has_its_own_remedy() {
    let Some(nvrtc) = place("NVRTC_12_0") else { return };
    let library = if nvrtc.is_dir() { nvrtc.as_path() } else { nvrtc.parent().unwrap() };
    let package =
        Package::new(&[("cuda/a.cu", "#include <cstdio>\n__global__ void k() { printf(\"k\\n\"); }\n")]);
    let build = || build(&package, library.parent().unwrap(), "nvrtc");
    let said = refusal(&build().env("PROFILE", "release"));
    let remedy = "it includes `cstdio`, which NVRTC does not have (put `#ifndef __CUDACC_RTC__` around it, as kernels need no header for `printf`";
    assert!(said.contains(remedy) && !said.contains("pip install"), "{said}");
    let warnings = build().try_compile().unwrap().warnings;
    assert!(warnings[0].contains(remedy) && !warnings[0].contains("pip install"), "{warnings:?}");
    package.write(
        "cuda/a.cu",
        "#ifndef __CUDACC_RTC__\n#include <cstdio>\n#endif\n__global__ void k() { printf(\"k\\n\"); }\n",
    );
    assert!(build().try_compile().unwrap().images[0].file.is_some());
}

#[test]
fn an_error_of_the_last_stage_and_a_missing_header() {
    let Some(cuda) = place("CUDA_HOME") else { return };
    let package = Package::new(&[(
        "cuda/extern.cu",
        "__device__ void elsewhere(float&);\n__global__ void k(float* y) { elsewhere(*y); }\n",
    )]);
    let said = refusal(&build(&package, &cuda, "nvcc"));
    assert!(
        said.contains("Unresolved extern function '_Z9elsewheref'") || said.contains("_Z9elsewhereRf"),
        "{said}"
    );
    assert!(said.ends_with(" found errors in cuda/extern.cu"), "{said}");

    let package = Package::new(&[("cuda/host.cu", "#include <vector>\n__global__ void k() {}\n")]);
    build(&package, &cuda, "nvcc").try_compile().unwrap();
    build(&package, &cuda, "nvrtc").try_compile().unwrap();
    let index = package.index();
    assert!(
        index.contains(
            "\t-\tit includes `vector`, which NVRTC does not have (put `#ifndef __CUDACC_RTC__` around it"
        ),
        "{index}"
    );
    package.write("cuda/host.cu", "#include \"absent.cuh\"\n");
    for compiler in ["nvcc", "nvrtc"] {
        let said = refusal(&build(&package, &cuda, compiler));
        assert!(said.contains("absent.cuh") && said.ends_with(" found errors in cuda/host.cu"), "{said}");
    }
}

//! Makes, checks and uses prebuilt images with the real compilers.

use std::fs;
use std::path::PathBuf;
use std::slice;

use kernel_registry_build::{Build, Error, check_prebuilt, write_prebuilt};

use crate::common::{Package, refusal};
use crate::{begins_with, build, place, text, with_samples};

#[test]
fn drift_says_what_drifted() {
    let (Some(cuda), Some(nvrtc)) = (place("CUDA_HOME"), place("NVRTC_12_0")) else { return };
    let package = Package::new(&[
        ("cuda/a.cu", "#include \"h.cuh\"\n__global__ void a(int* x) { *x = ONE; }\n"),
        ("cuda/b.cu", "__global__ void b(int* x) { *x = 2; }\n"),
        ("cuda/h.cuh", "#define ONE 1\n"),
    ]);
    let build = build(&package, &cuda, "nvcc");
    write_prebuilt(&package.folder(), slice::from_ref(&build), Some(&nvrtc)).unwrap();
    let check = |build: &Build| check_prebuilt(&package.folder(), slice::from_ref(build), Some(&nvrtc));
    // Changes a file, checks the images, and restores the file.
    let said = |path: &str, new: &str| {
        let old = text(&package, path);
        package.write(path, new);
        let said = check(&build).unwrap_err().to_string();
        package.write(path, &old);
        check(&build).unwrap();
        said.replace("prebuilt images do not match their sources: ", "").replace("; make them again", "")
    };
    assert_eq!(
        said("cuda/b.cu", "__global__ void b() {}\n"),
        "cuda/b.cu (`cuda/b.cu` changed since it was made)"
    );
    assert_eq!(said("cuda/h.cuh", "#define ONE 11\n"), "cuda/a.cu (`cuda/h.cuh` changed since it was made)");
    assert_eq!(
        said("prebuilt/cuda__b.cu.ptx", "// someone else's\n"),
        "prebuilt/cuda__b.cu.ptx (it is not what its source compiles to)"
    );
    let a_alone: String =
        text(&package, "prebuilt/index").lines().take(5).map(|line| line.to_owned() + "\n").collect();
    assert_eq!(said("prebuilt/index", &a_alone), "cuda/b.cu (there is no prebuilt image)");
    let more = text(&package, "prebuilt/index") + "cuda/gone.cu\tcuda/gone.cu\t00\n";
    assert_eq!(said("prebuilt/index", &more), "prebuilt/index (it differs)");
    let other = check(&build.clone().define("N", "2")).unwrap_err().to_string();
    assert_eq!(other.matches("(the options have changed)").count(), 1, "{other}");
    assert!(other.contains(": cuda/a.cu, cuda/b.cu ("), "{other}");
}

#[test]
fn images_of_headers_outside_have_the_same_index_everywhere() {
    let (Some(cuda), Some(nvrtc)) = (place("CUDA_HOME"), place("NVRTC_12_0")) else { return };
    let source = "#include \"../../shared/s.cuh\"\n#include <lib.h>\n#include NEAR\n#include <cuda_fp16.h>\n#include <two.h>\n\
                  __global__ void k(int* x) { *x = SHARED + LIB + NEAR_ONE + ONE_OF_TWO; }\n";
    let made = || {
        let package = Package::new(&[
            ("cuda/a.cu", source),
            ("../shared/s.cuh", "#define SHARED 1\n#define NEAR \"near.h\"\n"),
            ("../installed/lib.h", "#include \"more.h\"\n"),
            ("../installed/more.h", "#define LIB 1\n"),
            ("cuda/near.h", "#define NEAR_ONE 1\n"),
            ("cuda/two.h", "#error not this one\n"),
            ("flags/two.h", "#define ONE_OF_TWO 1\n"),
        ]);
        let installed = package.folder().with_file_name("installed");
        let with = |build: Build| build.include(&installed).flag("-Iflags");
        write_prebuilt(&package.folder(), &[with(build(&package, &cuda, "nvcc"))], Some(&nvrtc)).unwrap();
        let report = with(package.bare()).env("PROFILE", "release").try_compile().unwrap();
        assert_eq!((report.warnings.len(), &*report.images[0].origin), (0, "prebuilt"));
        package
    };
    let index = text(&made(), "prebuilt/index");
    let names: Vec<&str> = index.lines().skip(1).map(|line| line.split('\t').nth(1).unwrap()).collect();
    let expected = [
        "../shared/s.cuh",
        "<lib.h>",
        "<more.h>",
        "cuda/a.cu",
        "cuda/near.h",
        "flags/two.h",
        "options",
        "image",
    ];
    assert_eq!(names, expected);
    assert_eq!(text(&made(), "prebuilt/index"), index);
}

#[test]
fn templates_that_include_half_precision_have_an_image_that_can_be_checked() {
    let (Some(cuda), Some(nvrtc)) = (place("CUDA_HOME"), place("NVRTC_12_0")) else { return };
    let package = Package::new(&[(
        "cuda/t.cu",
        "#include <cuda_fp16.h>\ntemplate <class T> __global__ void t(T* x) { x[0] = x[1]; }\n\
         template __global__ void t<__half>(__half*);\n",
    )]);
    write_prebuilt(&package.folder(), &[build(&package, &cuda, "nvcc")], Some(&nvrtc)).unwrap();
    let ptx = text(&package, "prebuilt/cuda__t.cu.ptx");
    assert!(ptx.contains(".entry _Z1tI6__halfEvPT_") && !ptx.contains("_INTERNAL_"), "{ptx}");
}

#[test]
fn prebuilt_images_are_made_checked_and_used() {
    let (Some(cuda), Some(nvrtc)) = (place("CUDA_HOME"), place("NVRTC_12_0")) else { return };
    let package = with_samples();
    let (folder, builds) = (package.folder(), [build(&package, &cuda, "nvcc")]);
    let count = write_prebuilt(&folder, &builds, Some(&nvrtc)).unwrap().len();
    assert_eq!(write_prebuilt(&folder, &builds, Some(&nvrtc)).unwrap(), Vec::<PathBuf>::new());
    check_prebuilt(&folder, &builds, Some(&nvrtc)).unwrap();

    let release = package.bare().env("PROFILE", "release");
    let report = release.try_compile().unwrap();
    begins_with(&report, b"//");
    assert_eq!(report.images.len() + 1, count);
    for image in &report.images {
        let ptx = fs::read_to_string(image.file.as_ref().unwrap()).unwrap();
        assert!(ptx.contains(".version 8.0"), "{}", image.source);
        assert!(!ptx.contains("nv6target"), "{}", image.source);
    }
    check_prebuilt(&folder, &Build::recorded(package.out()).unwrap(), Some(&nvrtc)).unwrap();
    let halves = [0, 1].map(|half| {
        let files = report.images.iter().skip(half).step_by(2).map(|image| &image.source);
        builds[0].clone().files(files)
    });
    check_prebuilt(&folder, &halves, Some(&nvrtc)).unwrap();

    // Another folder must yield the same images.
    let other = with_samples();
    write_prebuilt(&other.folder(), &builds, Some(&nvrtc)).unwrap();
    for image in &report.images {
        let name =
            format!("prebuilt/{}", image.file.as_ref().unwrap().file_name().unwrap().to_str().unwrap());
        assert_eq!(text(&package, &name), text(&other, &name), "{name}");
    }

    package
        .write("cuda/spin.cu", &text(&package, "cuda/spin.cu").replace("__global__", "/* x */ __global__"));
    let said = check_prebuilt(&folder, &builds, Some(&nvrtc)).unwrap_err().to_string();
    assert_eq!(
        said,
        "prebuilt images do not match their sources: cuda/spin.cu (`cuda/spin.cu` changed since it \
         was made); make them again"
    );
    assert!(refusal(&release).starts_with("no image for cuda/spin.cu (`KERNEL_REGISTRY_COMPILER` is `prebuilt`, and its prebuilt image is stale: `cuda/spin.cu` changed since it was made): "));

    fs::remove_file(folder.join("cuda/spin.cu")).unwrap();
    assert!(
        check_prebuilt(&folder, &builds, Some(&nvrtc))
            .unwrap_err()
            .to_string()
            .contains("(no source belongs to it)")
    );
    let too_new = write_prebuilt(&folder, &builds, Some(&cuda));
    assert!(
        matches!(&too_new, Err(Error::TooNew { compiler }) if compiler.starts_with("NVRTC 13.")),
        "{too_new:?}"
    );
}

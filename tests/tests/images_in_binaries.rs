//! Tests that a binary contains each image once, and that a changed image file is noticed.

use std::fs;
use std::path::Path;
use std::process::Command;

use tests::{Build, LTO, cargo, copied, lines, package, scratch_folder};

/// Builds the fixture, and counts how often the executable contains the image bytes that it prints.
fn copies(args: &[&str], flags: &str) -> usize {
    let executable = Build { args, flags }.executable("one-image");
    let printed = lines(&mut Command::new(&executable));
    assert_eq!(printed[0], "60");
    let part: Vec<u8> =
        printed[1].trim_matches(['[', ']']).split(", ").map(|byte| byte.parse().unwrap()).collect();
    assert_eq!(part.len(), 32);
    let file = fs::read(executable).unwrap();
    file.windows(part.len()).filter(|window| *window == part).count()
}

#[test]
fn sixty_kernels_of_one_image_hold_it_once_in_debug() {
    let folder = scratch_folder();
    assert_eq!(copies(&[], &format!("-Cincremental={}", folder.display())), 1);
}

#[test]
fn sixty_kernels_of_one_image_hold_it_once_in_debug_without_incremental_compilation() {
    assert_eq!(copies(&[], ""), 1);
}

#[test]
fn sixty_kernels_of_one_image_hold_it_once_in_release() {
    assert_eq!(copies(&[], "-Copt-level=3"), 1);
}

#[test]
fn sixty_kernels_of_one_image_hold_it_once_with_lto() {
    assert_eq!(copies(&LTO, ""), 1);
}

#[test]
fn a_changed_image_is_noticed() {
    let package = package(
        "#[kernel_registry::gpu_kernel(image = \"saxpy.ptx\")]\n\
         unsafe fn n(n: u32);\n\
         fn main() { println!(\"{}\", n::INFO.image().unwrap().bytes().len()); }\n",
    );
    let run = || lines(cargo().args(["run", "--quiet"]).current_dir(&package));
    let image = copied(Path::new("images/saxpy.ptx"), &package);
    let length = fs::metadata(&image).unwrap().len();
    assert_eq!(run(), [length.to_string()]);

    let longer = [fs::read(&image).unwrap(), b"// more\n".to_vec()].concat();
    fs::write(&image, longer).unwrap();
    assert_eq!(run(), [(length + 8).to_string()]);

    // The compiler also compares the declaration with the changed image again.
    let other = fs::read_to_string(&image).unwrap().replace(".param .u32 n_param_0", ".param .u64 n_param_0");
    fs::write(&image, other).unwrap();
    let output = cargo().arg("check").current_dir(&package).output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("`n` is `u32` here, and an integer or pointer of 8 bytes in `n`"), "{message}");

    // A file that is no image any more is an error.
    fs::write(&image, "no image any more").unwrap();
    let output = cargo().arg("check").current_dir(&package).output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("error: `saxpy.ptx` is neither PTX, nor a cubin, nor a fatbin"), "{message}");
}

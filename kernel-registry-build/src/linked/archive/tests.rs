//! Tests with objects of the C compiler `cc`, which Rust needs for linking anyway.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::*;

const CODE: &str = "void __cudaRegisterFunction(void*); void* __cudaRegisterFatBinary(void*);\n\
                    void start(void* x) { __cudaRegisterFunction(__cudaRegisterFatBinary(x)); }\n";

fn run(command: &mut Command) {
    let output = command.output().expect("a C compiler and `ar` are there: Rust links with them");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Makes a static library of this C source, with these options of the compiler and of `ar`.
fn library(source: &str, options: &[&str], ar: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("a.c"), source).unwrap();
    run(Command::new("cc").current_dir(&folder).args(["-c", "-fPIC", "a.c", "-o", "a.o"]).args(options));
    run(Command::new("ar").current_dir(&folder).args([ar, "a.a", "a.o"]));
    fs::read(at("a.a")).unwrap()
}

fn contains(bytes: &[u8], name: &str) -> bool {
    bytes.windows(name.len()).any(|window| window == name.as_bytes())
}

/// Links the library with kernel-registry's functions alone.
fn links(library: &[u8], folder: &Path) {
    let main = "int n; void kernel_registry_linked(void* x) { n++; } void* kernel_registry_linkfat(void* x) { n++; return x; }\n\
                void start(void*); int main() { start(0); return n != 2; }\n";
    fs::write(folder.join("main.c"), main).unwrap();
    fs::write(folder.join("a.a"), library).unwrap();
    run(Command::new("cc").current_dir(folder).args(["main.c", "a.a", "-o", "main"]));
    run(&mut Command::new(folder.join("main")));
}

#[test]
fn the_functions_are_replaced_once() {
    let mut bytes = library(CODE, &[], "rcs");
    let length = bytes.len();
    assert_eq!(rename(&mut bytes), Ok(2));
    assert_eq!(bytes.len(), length);
    for (theirs, ours) in REGISTER.iter().zip(OURS) {
        assert!(!contains(&bytes, theirs) && contains(&bytes, ours), "{ours}");
    }
    links(&bytes, tempfile::tempdir().unwrap().path());
    let renamed = bytes.clone();
    assert_eq!(rename(&mut bytes), Ok(0));
    assert_eq!(bytes, renamed);
}

#[test]
fn a_library_without_kernels_is_an_error() {
    assert_eq!(rename(&mut library("int x;", &[], "rcs")), Err(Refused::NoKernels));
    // The library defines the function, but doesn't call it.
    let defined = "void __cudaRegisterFunction(void) {}";
    assert_eq!(rename(&mut library(defined, &[], "rcs")), Err(Refused::NoKernels));
}

#[test]
fn what_is_not_an_archive_of_objects_is_refused() {
    assert_eq!(rename(&mut b"#!/bin/sh".to_vec()), Err(Refused::NotAnArchive));
    assert_eq!(rename(&mut library(CODE, &[], "rcsT")), Err(Refused::Thin));
    let member = "a.o".to_owned();
    assert_eq!(rename(&mut library(CODE, &["-flto"], "rcs")), Err(Refused::Intermediate { member }));
}

#[test]
fn a_longer_name_that_ends_with_the_functions_name_is_kept() {
    let other = format!("{CODE}void my__cudaRegisterFunction(void) {{}}");
    let mut bytes = library(&other, &[], "rcs");
    let before = bytes.clone();
    // Assemblers may store the shorter name as the tail of the longer one.
    match rename(&mut bytes) {
        Ok(2) => assert!(contains(&bytes, "my__cudaRegisterFunction")),
        refused => {
            assert_eq!(refused, Err(Refused::SharedName { member: "a.o".to_owned() }));
            assert_eq!(bytes, before);
        }
    }
}

#[test]
fn no_damage_makes_it_panic() {
    let whole = library(CODE, &[], "rcs");
    for length in 0..whole.len() {
        let _ = rename(&mut whole[..length].to_vec());
    }
    for at in 0..whole.len() {
        for bits in [0x01, 0x80, 0xff] {
            let mut damaged = whole.clone();
            damaged[at] ^= bits;
            let _ = rename(&mut damaged);
        }
    }
}

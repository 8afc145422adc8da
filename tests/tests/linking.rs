//! Tests with several linkers and options that all kernels are left after linking.
//!
//! The fixture `joined` has kernels of its own and of two crates. However it is built, it must keep the kernels' records, which `cargo
//! kernels list` reads, and the kernels' registrations, which the executable prints.

use std::fs;
use std::path::Path;
use std::process::Command;

use tests::{BFD, Build, FAT, LTO, MOLD, cargo_kernels, copied, left_out, lines, listed, scratch_folder};

const TWIN_A: [&str; 4] =
    ["twin_a::gamma::one", "twin_a::gamma::two", "twin_a::nested::beta", "twin_a::saxpy"];
const TWIN_B: [&str; 2] = ["twin_b::nested::beta", "twin_b::saxpy"];

fn all() -> Vec<&'static str> {
    [&["joined::own"][..], &TWIN_A, &TWIN_B].concat()
}

/// Checks that the executable keeps all kernels: when it runs, on disk, and after `strip`.
fn keeps_all(args: &[&str], flags: &str) {
    let executable = Build { args, flags }.executable("joined");
    for (flag, mark) in [("=lld", "Linker: LLD"), ("=mold", "(compatible with GNU ld)")] {
        let asked = flags.contains(&format!("-fuse-ld{flag}"));
        let other = flags.contains("-fuse-ld") && !asked;
        let used = contains(&fs::read(&executable).unwrap(), mark.as_bytes());
        assert!(used || !asked, "{flags:?} did not link with{flag}");
        assert!(!used || !other, "{flags:?} linked with{flag}");
    }
    assert_eq!(lines(&mut Command::new(&executable)), all(), "registrations with {args:?} {flags:?}");
    assert_eq!(listed(&executable), all(), "records with {args:?} {flags:?}");

    let copy = copied(&executable, &scratch_folder());
    lines(Command::new("strip").arg("-s").arg(&copy));
    assert_eq!(lines(&mut Command::new(&copy)), all(), "registrations after `strip -s`");
    assert_eq!(listed(&copy), all(), "records after `strip -s`");
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// Returns arguments that set an option of the profile for the packages that have kernels.
fn of_packages(profile: &str, option: &str) -> Vec<String> {
    let one = |package| ["--config".to_owned(), format!("profile.{profile}.package.{package}.{option}")];
    ["joined", "twin-a", "twin-b"].into_iter().flat_map(one).collect()
}

/// Returns arguments that compile each of these packages in `units` codegen units: one unit gives the largest object files, and 256
/// units give the smallest.
fn in_units(profile: &str, units: u32) -> Vec<String> {
    of_packages(profile, &format!("codegen-units={units}"))
}

#[test]
fn a_dev_build_keeps_all_kernels() {
    let units = in_units("dev", 256);
    let flags = format!("-Cincremental={}", scratch_folder().display());
    keeps_all(&units.iter().map(String::as_str).collect::<Vec<_>>(), &flags);
}

#[test]
fn a_dev_build_in_one_unit_keeps_all_kernels() {
    keeps_all(&in_units("dev", 1).iter().map(String::as_str).collect::<Vec<_>>(), "");
}

#[test]
fn a_release_keeps_all_kernels() {
    keeps_all(&["--release"], "");
}

#[test]
fn thin_lto_keeps_all_kernels() {
    keeps_all(&LTO, "");
}

#[test]
fn fat_lto_keeps_all_kernels() {
    keeps_all(&LTO, FAT);
}

#[test]
fn fat_lto_in_one_unit_stripped_and_aborting_keeps_all_kernels() {
    let packages = [in_units("release", 1), of_packages("release", "opt-level='z'")].concat();
    let args = [&LTO[..], &packages.iter().map(String::as_str).collect::<Vec<_>>()].concat();
    keeps_all(&args, &format!("{FAT} -Cstrip=symbols -Cpanic=abort"));
}

#[test]
fn a_release_in_one_unit_keeps_all_kernels() {
    let units = in_units("release", 1);
    keeps_all(&[&["--release"], &units.iter().map(String::as_str).collect::<Vec<_>>()[..]].concat(), "");
}

#[test]
fn a_stripped_release_keeps_all_kernels() {
    keeps_all(&["--release"], "-Cstrip=symbols");
}

#[test]
fn bfd_keeps_all_kernels_when_it_collects_garbage() {
    keeps_all(&["--release"], &format!("{BFD} -Clink-arg=-Wl,--gc-sections"));
}

#[test]
fn bfd_with_fat_lto_keeps_all_kernels() {
    keeps_all(&LTO, &format!("{BFD} {FAT}"));
}

#[test]
fn lld_keeps_all_kernels_when_it_collects_garbage_and_folds_identical_code() {
    keeps_all(&["--release"], "-Clink-arg=-fuse-ld=lld -Clink-arg=-Wl,--gc-sections,--icf=all");
}

#[test]
fn lld_keeps_all_kernels_with_start_stop_gc() {
    keeps_all(&["--release"], "-Clink-arg=-fuse-ld=lld -Clink-arg=-Wl,--gc-sections,-z,start-stop-gc");
}

#[test]
fn mold_keeps_all_kernels() {
    let found = Command::new("mold").arg("--version").output().is_ok();
    if !found {
        return left_out("mold is not installed", "REQUIRE_MOLD");
    }
    keeps_all(&["--release"], MOLD);
}

#[test]
fn a_shared_library_keeps_its_own_and_its_host_does_not_see_them() {
    let plugin = Build::default().file("plugin", "so");
    let host = Build::default().executable("host");
    assert_eq!(listed(&plugin), TWIN_B);
    assert_eq!(listed(&host), TWIN_A);
    // The host does not see the plugin's kernels; the plugin itself does.
    assert_eq!(lines(Command::new(host).arg(&plugin)), ["4 4 2"]);
}

#[test]
fn a_dependency_that_is_never_named_is_lost_and_naming_it_is_the_remedy() {
    let files = Build::default().build("unnamed");
    let file = |name: &str| files.iter().find(|file| file.file_stem().unwrap() == name).unwrap();
    assert_eq!(lines(&mut Command::new(file("unnamed"))), [""; 0]);
    let output = cargo_kernels(["list".as_ref(), file("unnamed").as_os_str()]);
    assert_eq!(output.status.code(), Some(7));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("`kernel_registry::link_kernels!` names one"), "{message}");

    // The program names `twin_b` and `middle`, and `middle` names `twin_a`.
    let remedied = [&TWIN_A[..], &TWIN_B].concat();
    assert_eq!(lines(&mut Command::new(file("remedied"))), remedied);
    assert_eq!(listed(file("remedied")), remedied);
}

#[test]
fn a_static_library_loses_all_without_whole_archive() {
    let archive = Build::default().file("archive", "a");
    assert_eq!(listed(&archive), TWIN_A, "the archive itself has them");
    let link = |inputs: &[&str]| {
        let executable = scratch_folder().join("archive");
        let main = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/archive/main.c");
        let mut cc = Command::new("cc");
        cc.arg("-o").arg(&executable).arg(main).args(inputs).args(["-lpthread", "-ldl", "-lm", "-lgcc_s"]);
        lines(&mut cc);
        executable
    };
    let path = archive.to_str().unwrap();

    let lost = link(&[path]);
    assert_eq!(lines(&mut Command::new(&lost)), ["0"]);
    assert_eq!(cargo_kernels(["list".as_ref(), lost.as_os_str()]).status.code(), Some(7));

    let kept = link(&["-Wl,--whole-archive", path, "-Wl,--no-whole-archive"]);
    assert_eq!(lines(&mut Command::new(&kept)), ["4"]);
    assert_eq!(listed(&kept), TWIN_A);
}

#[test]
fn a_program_without_kernels_is_not_a_program_without_the_library() {
    let none = Build::default().executable("none");
    assert_eq!(lines(&mut Command::new(&none)), ["0"]);
    let output = cargo_kernels(["list".as_ref(), none.as_os_str()]);
    assert_eq!(output.status.code(), Some(7));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("holds kernel-registry 0.1.0 (rustc "), "{message}");
}

#[test]
fn initialisers_that_a_linker_dropped_are_an_error_in_words() {
    let broken = Build::default().executable("joined");
    let mut bytes = fs::read(&broken).unwrap();
    remove_initialisers(&mut bytes);
    fs::write(&broken, bytes).unwrap();

    let output = Command::new(&broken).output().unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
    let message = String::from_utf8(output.stderr).unwrap();
    let (first, lost) = message.split_once('\n').unwrap();
    assert_eq!(
        first,
        "the binary holds 7 kernels, but only 0 registered themselves at start: \
         the linker dropped initialisers of `.init_array` (mold 1.0.3 does); use another linker"
    );
    assert_eq!(lost.lines().count(), 7);
    assert!(
        lost.contains("lost: `twin_b::saxpy` at tests/fixtures/twin-b/src/lib.rs:6 (twin-b 4.5.6)"),
        "{lost}"
    );
    // The records on disk are unchanged.
    assert_eq!(listed(&broken), all());
}

/// Stops the loader from running initialisers, as if the linker had dropped them.
fn remove_initialisers(bytes: &mut [u8]) {
    use object::elf::{DT_INIT_ARRAYSZ, Dyn64, FileHeader64};
    use object::read::elf::{Dyn, FileHeader, SectionHeader};

    let data = &*bytes;
    let header = FileHeader64::<object::Endianness>::parse(data).unwrap();
    let endian = header.endian().unwrap();
    let sections = header.sections(endian, data).unwrap();
    let (_, dynamic) =
        sections.iter().enumerate().find(|(_, s)| s.sh_type(endian) == object::elf::SHT_DYNAMIC).unwrap();
    let start = dynamic.sh_offset(endian) as usize;
    let entries: &[Dyn64<_>] = dynamic.data_as_array(endian, data).unwrap();
    let index = entries.iter().position(|entry| entry.d_tag(endian) == DT_INIT_ARRAYSZ).unwrap();
    let value = start + index * size_of::<Dyn64<object::Endianness>>() + 8;
    bytes[value..value + 8].fill(0);
}

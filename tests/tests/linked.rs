//! Tests kernels that nvcc linked. They register themselves with a fake of CUDA's runtime library.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use kernel_registry_format::section::version;
use object::{Object, ObjectSection};
use serde_json::Value;
use tests::guide::page;
use tests::{BFD, Build, MOLD, are_documented, cargo_kernels, file, left_out, lines};

/// Returns the executable of the fixture.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| Build::default().executable("nvcc-linked"))
}

/// Runs the fixture with this argument, and returns the lines that it prints.
fn printed(argument: &str) -> Vec<String> {
    lines(Command::new(program()).arg(argument))
}

/// Runs `cargo kernels`, and returns its standard output.
fn command(args: &[&str], file: &Path) -> String {
    let args = args.iter().map(OsStr::new).chain([file.as_os_str()]);
    String::from_utf8(cargo_kernels(args).stdout).unwrap()
}

const TABLE: &str = "\
VARIANTS    REGISTERS  STACK  SHARED  NEEDS  KERNEL
compute_75  -          -      -       -      one(unsigned int*)
compute_75  -          -      -       -      fill<unsigned int, 7u>(unsigned int*)
compute_75  -          -      -       -      stay(8 B)
";

#[test]
fn the_command_lists_linked_kernels_and_says_whether_they_are_warmed() {
    let listed = command(&["list"], program());
    assert!(listed.contains("\n\n3 kernels that nvcc linked, which `warm_all` warms\n\n"), "{listed}");
    assert!(listed.contains("nvcc_linked::declared::one"), "{listed}");

    let without = not_handed_over(program());
    let listed = command(&["list"], &without);
    assert!(
        listed.contains(
            "3 kernels that nvcc linked, which no `warm_all` warms: call `kernel_registry_build::linked()`"
        ),
        "{listed}"
    );
    let checked = command(&["check"], &without);
    assert!(
        checked.contains("\nunwarmed: 3 kernels that nvcc linked, which no `warm_all` warms"),
        "{checked}"
    );

    // The guide has the same sentences with other numbers of kernels.
    let guide = page("docs/guide/linked.md");
    for said in [&*command(&["list"], program()), &*checked].iter().flat_map(|said| said.lines()) {
        if let Some((before, after)) = said.split_once("3 kernels that nvcc linked") {
            let mut lines = guide.lines().filter_map(|line| line.split_once(" kernels that nvcc linked"));
            let is_there = lines.any(|(start, end)| {
                end == after && start.trim_end_matches(|c: char| c.is_ascii_digit()) == before
            });
            assert!(is_there, "{said}");
        }
    }

    // A file without kernel-registry gets no sentence about warming.
    let alone = only_fatbins();
    let listed = command(&["list"], &alone);
    assert_eq!(listed, format!("{}: 3 kernels that nvcc linked\n\n{TABLE}", alone.display()));
    assert!(command(&["show", "fill"], &alone).starts_with("fill<unsigned int, 7u> in "));
    assert!(command(&["show"], &alone).ends_with("\n3 kernels of 1 image\n"));
}

/// Copies the executable, and changes it as if the linker had got no options.
fn not_handed_over(program: &Path) -> PathBuf {
    marked(program, b"Kernel-registry linked v1 program")
}

/// Copies the executable, and replaces the mark of `linked()`.
fn marked(program: &Path, new: &[u8; 33]) -> PathBuf {
    let mut bytes = fs::read(program).unwrap();
    let mark = b"kernel-registry linked v1 program";
    while let Some(at) = bytes.windows(mark.len()).position(|window| window == mark) {
        bytes[at..][..mark.len()].copy_from_slice(new);
    }
    file("without", &bytes)
}

#[test]
fn kernels_of_archives_alone_need_a_line_in_the_program() {
    let program = marked(&example("linked_only", ""), b"kernel-registry linked v1 archive");
    let args = ["check", "--deny", "unwarmed"].map(OsStr::new);
    let output = cargo_kernels(args.iter().chain([&program.as_os_str()]));
    let printed = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(10), "{printed}");
    let said = "unwarmed: 3 kernels that nvcc linked: `warm_all` warms those of libraries that call \
        `kernel_registry_build::linked_archive`, and the file does not tell whether there are others; call \
        `kernel_registry_build::linked()` in the program's build script, too, ";
    assert!(printed.starts_with(said), "{printed}");
}

/// Builds an example of the fixture's package.
fn example(name: &str, flags: &str) -> PathBuf {
    Build { args: &["--example", name], flags }.executable("nvcc-linked")
}

#[test]
fn a_program_that_declares_none_is_checked_and_shown() {
    let program = example("linked_only", "");
    assert_eq!(lines(&mut Command::new(&program)), ["4 host functions, 4 kernels"]);
    let check = |program: &Path| {
        cargo_kernels(["check", "--deny", "unwarmed"].map(OsStr::new).iter().chain([&program.as_os_str()]))
    };
    let output = check(&program);
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(
        printed,
        "3 kernels that nvcc linked, which `warm_all` warms\n0 declarations against 0 images: 0 mismatches, 0 missing, 0 unused\n"
    );

    let output = check(&not_handed_over(&program));
    let printed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(10), "{printed}");
    assert!(
        printed.starts_with("unwarmed: 3 kernels that nvcc linked, which no `warm_all` warms: call "),
        "{printed}"
    );

    let shown = command(&["show"], &program);
    assert!(shown.starts_with("one in ") && shown.ends_with("\n3 kernels of 1 image\n"), "{shown}");
    assert!(command(&["show", "fill"], &program).starts_with("fill<unsigned int, 7u> in "));
    let listed = command(&["list"], &program);
    assert!(
        listed.ends_with(TABLE) && listed.contains("3 kernels that nvcc linked, which `warm_all` warms"),
        "{listed}"
    );
}

#[test]
fn a_target_without_kernel_registry_links_too() {
    for flags in ["-Clink-arg=-fuse-ld=lld", BFD, MOLD] {
        if flags.ends_with("mold") && Command::new("mold").arg("--version").output().is_err() {
            return left_out("mold is not installed", "REQUIRE_MOLD");
        }
        assert_eq!(lines(&mut Command::new(example("without_registry", flags))), ["4 host functions"]);
        // An example that uses kernel-registry registers its kernels there.
        assert_eq!(lines(&mut Command::new(example("linked_only", flags))), ["4 host functions, 4 kernels"]);
    }
}

#[test]
fn declarations_are_checked_against_linked_kernels() {
    let checked = command(&["check"], program());
    let lines: Vec<_> = checked.lines().collect();
    assert_eq!(lines.len(), 4, "{checked}");
    assert!(lines[0].starts_with("mismatch: nvcc_linked::wrong::fill"), "{checked}");
    assert!(lines[1].starts_with("missing: nvcc_linked::wrong::nowhere"), "{checked}");
    assert!(!checked.contains("unwarmed"), "{checked}");
}

#[test]
fn the_json_is_as_documented() {
    let list: Value = serde_json::from_str(&command(&["list", "--json"], program())).unwrap();
    assert_eq!(list["binaries"][0]["linked_warmed"], "all");
    assert_eq!(list["linked"].as_array().unwrap().len(), 3);
    are_documented(&[&list, &list["binaries"][0]], include_str!("../../docs/list-json.md"));
    are_documented(&[&list["linked"][0]], include_str!("../../docs/show-json.md"));
}

/// Writes an object file that contains only the fatbins of the fixture.
fn only_fatbins() -> PathBuf {
    let bytes = fs::read(program()).unwrap();
    let elf = object::File::parse(&*bytes).unwrap();
    object_of(&[(".nv_fatbin", elf.section_by_name(".nv_fatbin").unwrap().data().unwrap())])
}

/// Writes an object file with these sections.
fn object_of(sections: &[(&str, &[u8])]) -> PathBuf {
    let source = |(number, (name, _)): (usize, &(&str, _))| {
        format!(".section {name},\"a\"\n.balign 8\n.incbin \"{number}\"\n")
    };
    let source = file("object.s", sections.iter().enumerate().map(source).collect::<String>().as_bytes());
    let folder = source.parent().unwrap();
    for (number, (_, bytes)) in sections.iter().enumerate() {
        fs::write(folder.join(number.to_string()), bytes).unwrap();
    }
    lines(Command::new("cc").current_dir(folder).args(["-c", "object.s", "-o", "object.o"]));
    folder.join("object.o")
}

#[test]
fn linked_kernels_that_the_driver_compiles_are_found() {
    let check = |file: &Path, archs: &[&str]| {
        let archs = archs.iter().flat_map(|arch| ["--arch", arch]);
        let args: Vec<_> = ["check", "--deny", "jit"].into_iter().chain(archs).collect();
        cargo_kernels(args.into_iter().map(OsStr::new).chain([file.as_os_str()]))
    };
    let said = |kernels: &str, devices: &str, then: &str| {
        format!("jit: nvcc linked {kernels} without machine code for {devices}, so {then}: ")
    };
    let compiles = "the driver compiles PTX";
    let denied = |file: &Path, archs: &[&str], expected: &str| {
        let output = check(file, archs);
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(printed.contains(expected), "{archs:?}: {printed}");
        assert!(printed.contains("1 compiled by the driver"), "{printed}");
        assert_eq!(output.status.code(), Some(10), "{printed}");
    };
    let passes = |file: &Path, archs: &[&str]| {
        let output = check(file, archs);
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && !printed.contains("jit:"), "{archs:?}: {printed}");
    };

    // The fixture has PTX of sm_75 only, which an sm_70 cannot take.
    let program = example("linked_only", "");
    denied(&program, &[], &said("3 kernels", "any GPU", compiles));
    denied(&program, &["sm_90"], &said("3 kernels", "sm_90", compiles));
    denied(&program, &["sm_70"], &said("3 kernels", "sm_70", "none runs there"));

    // A fatbin of nvcc's, with PTX of sm_75 and with code for sm_75 and sm_90a, beside the records of the fixture.
    let bytes = fs::read(&program).unwrap();
    let elf = object::File::parse(&*bytes).unwrap();
    let records = elf.sections().find(|part| part.name().ok().and_then(version).is_some()).unwrap();
    let fatbin = fs::read("fixtures/checked/images/reduce.fatbin").unwrap();
    let real = object_of(&[(records.name().unwrap(), records.data().unwrap()), (".nv_fatbin", &fatbin)]);
    passes(&real, &[]);
    passes(&real, &["sm_75", "sm_90"]);
    denied(&real, &["sm_90", "sm_80"], &said("3 kernels", "sm_80", compiles));
}

#[test]
fn linked_kernels_are_listed_and_found() {
    let place = "at tests/fixtures/nvcc-linked/src/main.rs";
    let package = "(nvcc-linked 0.1.0)";
    assert_eq!(
        printed("list"),
        [
            "fill<unsigned int, 7u>(p0: unsigned int*) _Z4fillIjLj7EEvPT_ true [] at code that nvcc linked",
            "newer() _Z5newerv true [\"unknown\"] at code that nvcc linked",
            &format!("one(x: &mut [u32]) _Z3onePj true [] {place}:12 {package}"),
            &format!("fill(x: &mut [u32], n: u32) fill<unsigned int, 7u> true [] {place}:18 {package}"),
            &format!("nowhere(x: &mut [u32]) nowhere true [] {place}:19 {package}"),
            "stay(p0: .u64) stay true [] at code that nvcc linked",
            "found _Z4fillIjLj7EEvPT_",
            "0 duplicates",
        ]
    );
}

#[test]
fn linked_kernels_are_warmed_and_launched_as_before() {
    let kernels = ["fill<unsigned int, 7u>", "nvcc_linked::declared::one", "stay"];
    let kernels = kernels.map(|name| format!("{name} linked by nvcc"));
    let others = ["unavailable: newer", "[1, 0]", "[7, 0]"].map(str::to_owned);
    assert_eq!(printed("warm"), [&kernels[..], &others].concat());
}

#[test]
fn a_declared_linked_kernel_is_launched_from_rust() {
    assert_eq!(printed("typed"), ["[1, 0]", "true"]);
}

#[test]
fn wrong_declarations_are_not_warmed() {
    let at = |line| format!("at tests/fixtures/nvcc-linked/src/main.rs:{line} (nvcc-linked 0.1.0)");
    assert_eq!(
        printed("wrong"),
        [
            format!(
                "kernel `nvcc_linked::wrong::fill` {}, the kernel that nvcc linked is `fill<unsigned int, 7u>(p0: unsigned int*)`: \
                 declare parameters of these sizes",
                at(18)
            ),
            format!(
                "kernel `nvcc_linked::wrong::nowhere` {}, nvcc linked no kernel `nowhere` into this program: call \
                 `kernel_registry_build::linked()` in its build script, or name the kernel's symbol by `name = \"..\"`, as \
                 `cargo kernels list` shows it",
                at(19)
            ),
        ]
    );
}

/// Without the feature nothing knows the parameters, so a launch could pass too few arguments.
#[test]
fn without_the_feature_nothing_is_launched_from_rust() {
    assert_eq!(printed("declared"), [""; 0]);
    assert_eq!(printed("dynamic"), ["kernel `stay`: it takes 1 arguments, and 0 were given"]);
    let without = Build { args: &["--no-default-features"], flags: "" }.executable("nvcc-linked");
    let printed = |argument: &str| lines(Command::new(&without).arg(argument));
    const UNREAD: &str = "the parameters of the kernel that nvcc linked were not read: turn on the feature `linked` of \
        kernel-registry in Cargo.toml, as in `kernel-registry = { .., features = [\"linked\"] }`";
    assert_eq!(
        printed("declared"),
        [format!(
            "kernel `nvcc_linked::declared::one` at tests/fixtures/nvcc-linked/src/main.rs:12 (nvcc-linked 0.1.0), {UNREAD}"
        )]
    );
    assert_eq!(printed("dynamic"), [format!("kernel `stay`: {UNREAD}")]);
}

#[test]
fn a_first_launch_waits_for_a_resident_kernel_only_if_it_is_cold() {
    assert_eq!(printed("cold"), ["waited for it"]);
    assert_eq!(printed("beside"), ["ran beside it"]);
}

#[test]
fn every_linker_hands_over_linked_kernels() {
    for flags in [BFD, "-Clink-arg=-fuse-ld=lld"] {
        let program = Build { args: &[], flags }.executable("nvcc-linked");
        let listed = lines(Command::new(&program).arg("list"));
        assert_eq!(listed.iter().filter(|line| line.contains(" true ")).count(), 6, "{flags}: {listed:?}");
    }
}

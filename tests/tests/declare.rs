//! Tests `cargo kernels declare`, which writes modules that declare the kernels of images. The fixture `declared` has such modules, and
//! the compiler compares them with the images.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use kernel_registry::kernels;
use tests::{cargo_kernels_command, fails, file, scratch_folder};

kernel_registry::link_kernels!(declared);

/// The modules of the fixture, each with the image whose kernels it declares.
const MODULES: [(&str, &str); 8] = [
    ("cluster", "kernel-registry-image/tests/images/cluster.sm_90.cubin"),
    ("named", "tests/fixtures/declared/images/named.ptx"),
    ("odd", "kernel-registry-image/tests/images/odd.nvcc13.ptx"),
    ("odd_code", "kernel-registry-image/tests/images/odd.sm_90.cubin"),
    ("particles", "kernels/prebuilt/cuda__particles.cu.ptx"),
    ("plain", "tests/fixtures/declared/images/plain.ptx"),
    ("reduce", "kernel-registry-image/tests/images/reduce.default.fatbin"),
    ("transpose", "kernels/prebuilt/cuda__transpose.cu.ptx"),
];

fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

fn declare(args: &[&str]) -> Output {
    let mut command = cargo_kernels_command();
    // With `prebuilt` no nvcc is used to read sources, even if one is installed.
    command.current_dir(workspace()).env("KERNEL_REGISTRY_COMPILER", "prebuilt");
    command.arg("declare").args(args).output().unwrap()
}

/// Returns the file of a module of the fixture, and the arguments with which the command writes the file.
fn module(name: &str, image: &str) -> (String, Vec<String>) {
    let mut args = vec![image.to_owned(), "--image".to_owned(), format!("../../../{image}")];
    let source = Path::new(image).with_extension("cu");
    if workspace().join(&source).exists() {
        args.extend(["--source".to_owned(), source.to_str().unwrap().to_owned()]);
    }
    (format!("tests/fixtures/declared/src/{name}.rs"), args)
}

#[test]
fn declare_writes_the_modules_of_the_fixture() {
    for (name, image) in MODULES {
        let (path, args) = module(name, image);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let output = declare(&[&args[..], &["--check", &path]].concat());
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        let old = fs::read(workspace().join(&path)).unwrap();
        let output = declare(&[&args[..], &["--output", &path]].concat());
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(fs::read(workspace().join(&path)).unwrap() == old, "{path} has changed");
    }
}

#[test]
fn the_declarations_register_every_kernel_of_their_images() {
    let of = |module: &str| {
        let start = format!("declared::{module}::");
        let all = kernels().unwrap().iter().filter(move |kernel| kernel.path().starts_with(&start));
        all.map(|kernel| kernel.symbol().to_owned()).collect::<Vec<_>>()
    };
    for (name, path) in MODULES {
        let image = kernel_registry_image::read(&fs::read(workspace().join(path)).unwrap()).unwrap();
        let mut there: Vec<_> = image
            .variants
            .iter()
            .flat_map(|variant| &variant.entries)
            .map(|entry| entry.symbol.clone())
            .collect();
        there.sort();
        there.dedup();
        let mut declared = of(name);
        declared.sort();
        assert_eq!(declared, there, "{path}");
    }
}

/// Returns all images below the workspace's folders of images.
fn images() -> Vec<PathBuf> {
    let folders = ["kernels/prebuilt", "kernel-registry-image/tests/images", "tests/census/prebuilt"];
    let files = folders.iter().flat_map(|folder| fs::read_dir(workspace().join(folder)).unwrap());
    let is_image = |path: &PathBuf| {
        path.extension()
            .is_some_and(|extension| ["ptx", "cubin", "fatbin"].iter().any(|kind| extension == *kind))
    };
    files.map(|file| file.unwrap().path()).filter(is_image).collect()
}

#[test]
fn every_sample_image_is_declared_and_a_second_run_changes_nothing() {
    let images = images();
    assert!(images.len() > 50, "{images:?}");
    let output = scratch_folder().join("module.rs");
    for image in images {
        let run = || {
            let args = [image.to_str().unwrap(), "--image", "x.image", "--output", output.to_str().unwrap()];
            let output = declare(&args);
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{}: {errors}", image.display());
            assert_eq!(errors, "", "{}", image.display());
        };
        // The file of another image is removed, because the command would keep its contents.
        let _ = fs::remove_file(&output);
        run();
        let first = fs::metadata(&output).unwrap().modified().unwrap();
        run();
        assert_eq!(fs::metadata(&output).unwrap().modified().unwrap(), first, "{}", image.display());
    }
}

#[test]
fn a_check_fails_once_the_image_has_changed() {
    const OLD: &str =
        ".version 8.0\n.target sm_75\n.entry _Z4wellif(.param .u32 n, .param .f32 a) { ret; }\n";
    const MORE: &str = ".entry _Z4morePf(.param .u64 x) { ret; }\n";
    let image = file("x.ptx", format!("{OLD}{MORE}").as_bytes());
    let module = image.with_extension("rs");
    let args = [image.to_str().unwrap(), "--image", "images/x.ptx"];
    let with = |option: &str| declare(&[&args[..], &[option, module.to_str().unwrap()]].concat());
    assert!(with("--output").status.success());
    assert!(with("--check").status.success());

    // The same declarations under other settings of rustfmt are no difference.
    let text = fs::read_to_string(&module).unwrap();
    fs::write(&module, text.replace("(p0: i32, p1: f32)", "(\n    p0: i32,\n    p1: f32,\n)")).unwrap();
    assert!(with("--check").status.success());

    fs::write(
        &image,
        OLD.replace("_Z4wellif", "_Z4wellid").replace(".f32", ".f64") + &MORE.replace("4more", "5spare"),
    )
    .unwrap();
    let output = with("--check");
    assert_eq!(
        String::from_utf8(output.stdout.clone()).unwrap(),
        "gone: kernel `more`\nnew: kernel `spare`\nchanged: kernel `well`\n"
    );
    let (file, image) = (module.display(), image.display());
    assert_eq!(
        fails(output, 10),
        format!(
            "`{file}` is out of date, 3 differences above: \
             run `cargo kernels declare {image} --image images/x.ptx --output {file}`"
        )
    );
}

#[test]
fn kernels_that_the_source_lacks_are_named() {
    let image = "tests/fixtures/declared/images/named.ptx";
    let output = declare(&[image, "--source", "tests/fixtures/declared/images/named.cu"]);
    assert!(output.status.success());
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "warning: macros and headers of `tests/fixtures/declared/images/named.cu` are not read, because no nvcc is used: \
         set `CUDA_HOME` to a CUDA toolkit\n\
         warning: the types of `other` are not known: `tests/fixtures/declared/images/named.cu` has no such kernel\n"
    );
    assert_eq!(fails(declare(&[image, "--source", "no.cu"]), 3), "there is no file `no.cu`");
}

/// A symbol whose types are fewer than the image's parameters, or have other sizes, is not believed.
#[test]
fn the_sizes_in_an_image_decide_and_not_the_names() {
    let output =
        declare(&["tests/compile-fail/ui/images/signatures.ptx", "--image", "images/signatures.ptx"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let longer = "\
/// `longer`, whose parameters are not of the types in its symbol.
///
/// Types are those of PTX: signs of integers and what pointers point to are not known.
#[gpu_kernel(image = \"images/signatures.ptx\")]
pub unsafe fn longer(p0: *mut core::ffi::c_void, p1: *mut core::ffi::c_void, p2: f32);
";
    let wider = "pub unsafe fn wider(p0: *mut core::ffi::c_void, p1: *mut core::ffi::c_void);\n";
    let pack = "pub unsafe fn pack<T, U>(p0: ArgFloat, p1: ArgInt, p2: U);\n";
    for expected in [longer, wider, pack] {
        assert!(text.contains(expected), "{text}");
    }
}

/// A line break in a symbol would end the comment that contains the symbol, and turn the rest into code.
#[test]
fn an_image_with_control_characters_in_a_symbol_is_refused() {
    const SYMBOL: &[u8] = b"_Z5saxpyjfPKfPf";
    const EVIL: &[u8] = b"k`\nmod evil {}\n";
    let image = fs::read(workspace().join("kernel-registry-image/tests/images/blas1.sm_75.cubin")).unwrap();
    let mut evil = Vec::new();
    let mut rest = image.as_slice();
    while let Some(at) = rest.windows(SYMBOL.len()).position(|bytes| bytes == SYMBOL) {
        evil.extend_from_slice(&rest[..at]);
        evil.extend_from_slice(EVIL);
        rest = &rest[at + SYMBOL.len()..];
    }
    evil.extend_from_slice(rest);
    let file = file("evil.cubin", &evil);
    let module = file.with_extension("rs");
    let output =
        declare(&[file.to_str().unwrap(), "--image", "evil.cubin", "--output", module.to_str().unwrap()]);
    let why = fails(output, 6);
    assert_eq!(fails(cargo_kernels_command().args(["show", "--all"]).arg(&file).output().unwrap(), 6), why);
    assert_eq!(
        why,
        format!(
            "`{}`: the symbol table: the name \"k`\\nmod evil {{}}\\n\" has control characters, which no \
             compiler writes: do not use this image before you know who made it",
            file.display()
        )
    );
    assert!(!module.exists());
}

#[test]
fn a_source_is_compiled_and_declared_by_its_path_in_the_package() {
    let output = declare(&["kernels/cuda/reduce.cu"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        "\
//! The kernels of `cuda/reduce.cu`.

// Written by `cargo kernels declare`. What you add to it is kept when you update it:
//     cargo kernels declare kernels/cuda/reduce.cu --output FILE

use kernel_registry::gpu_kernel;

/// The template `reduce`, such as `reduce<float, 128u>(const float*, float*, unsigned int)`.
///
/// For blocks of at most 256 threads.
#[gpu_kernel(file = \"cuda/reduce.cu\", instances(<f32, 128>, <f32, 256>, <f64, 256>))]
pub unsafe fn reduce<T, const BLOCK: u32>(x: &[T], out: &mut [T], n: u32);
"
    );
    let output = declare(&["kernels/cuda/spin.cu", "--image", "$OUT_DIR/spin.ptx"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("#[gpu_kernel(image = \"$OUT_DIR/spin.ptx\")]\npub unsafe fn set_flag("), "{text}");
}

#[test]
fn control_blocks_and_queues_are_types_of_the_library() {
    let output = declare(&["kernels/cuda/worker.cu"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let kernel = "pub unsafe fn worker(\n    \
                  control: *mut kernel_registry_resident::Control,\n    \
                  queue: *mut kernel_registry_resident::Queue<Task>,\n\
                  );\n";
    assert!(text.contains(kernel), "{text}");
}

#[test]
fn a_folder_becomes_a_tree_of_modules() {
    const KERNEL: &str = ".version 8.0\n.target sm_75\n.entry _Z1kf(.param .f32 a) { ret; }\n";
    let folder = scratch_folder();
    let write = |path: &str, text: &str| {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("Cargo.toml", "");
    write("images/plain.ptx", KERNEL);
    write("images/deep/loop.ptx", KERNEL);
    write("images/none.ptx", ".version 8.0\n.target sm_75\n");
    let declare = |option: &str| {
        let mut command = cargo_kernels_command();
        command.args(["declare", "images", option, "src/kernels"]).current_dir(&folder).output().unwrap()
    };
    let output = declare("--check");
    assert_eq!(
        String::from_utf8(output.stdout.clone()).unwrap(),
        "new: `deep/loop.rs`\nnew: `deep/mod.rs`\nnew: `mod.rs`\nnew: `plain.rs`\n"
    );
    let remedy = "run `cargo kernels declare images --output src/kernels`";
    assert_eq!(fails(output, 10), format!("`src/kernels` is out of date, 4 differences above: {remedy}"));
    assert!(declare("--output").status.success());
    assert!(declare("--check").status.success());
    let text = |path: &str| fs::read_to_string(folder.join("src/kernels").join(path)).unwrap();
    assert!(
        text("plain.rs").contains("#[gpu_kernel(image = \"images/plain.ptx\")]\npub unsafe fn k(p0: f32);")
    );
    assert!(text("mod.rs").ends_with("\npub mod deep;\npub mod plain;\n"), "{}", text("mod.rs"));
    assert!(text("deep/mod.rs").ends_with("\npub mod r#loop;\n"), "{}", text("deep/mod.rs"));

    // A file that somebody wrote by hand is kept.
    write("src/kernels/own.rs", "// By hand.\n");
    fs::remove_file(folder.join("images/deep/loop.ptx")).unwrap();
    write("images/plain.ptx", &KERNEL.replace("1kf", "1lf"));
    let said = String::from_utf8(declare("--check").stdout).unwrap();
    assert_eq!(
        said,
        "gone: `deep/loop.rs`\ngone: `deep/mod.rs`\nmod.rs: gone: pub mod deep\n\
         plain.rs: gone: kernel `k`\nplain.rs: new: kernel `l`\n"
    );
    assert!(declare("--output").status.success());
    assert!(!folder.join("src/kernels/deep/loop.rs").exists() && folder.join("src/kernels/own.rs").exists());

    write("images/plain/x.ptx", KERNEL);
    assert!(fails(declare("--output"), 1).starts_with("`images/plain` would be the same module as another "));
    let output = cargo_kernels_command().args(["declare", "images"]).current_dir(&folder).output().unwrap();
    assert_eq!(
        fails(output, 2),
        "`images` is a folder: say where its modules go, as in `--output src/kernels`"
    );
}

#[test]
fn a_refused_declaration_says_why() {
    let outside = tempfile::tempdir().unwrap();
    let path = outside.path().join("empty.ptx");
    fs::write(&path, ".version 8.0\n.target sm_75\n").unwrap();
    let path = path.to_str().unwrap();
    assert_eq!(
        fails(declare(&[path]), 1),
        format!(
            "`{path}` is in no package, where declarations could find it: put it into a folder with a Cargo.toml, or \
             say with `--image` what they call it"
        )
    );
    assert_eq!(
        fails(declare(&[path, "--image", "x.ptx"]), 7),
        format!("`{path}` holds no kernels to declare")
    );
    assert_eq!(fails(declare(&["nothing.ptx"]), 3), "there is no file `nothing.ptx`");
    assert_eq!(fails(declare(&["nothing.cu"]), 3), "there is no file `nothing.cu`");
    assert_eq!(fails(declare(&["Cargo.toml"]), 5).lines().count(), 1);
    let with_flags = fails(declare(&["kernels/cuda/spin.cu", "--", "-std=c++20"]), 9);
    assert!(with_flags.contains("the options have changed"), "{with_flags}");
    // There is neither a compiler nor a prebuilt image for this source.
    let message = fails(declare(&["tests/fixtures/declared/images/named.cu"]), 9);
    assert!(
        message.starts_with(
            "`tests/fixtures/declared/images/named.cu` could not be compiled to see its kernels: "
        ),
        "{message}"
    );
}

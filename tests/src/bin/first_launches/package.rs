//! Writes and builds the generated package: CUDA sources, declarations, and an executable that launches the
//! kernels.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

use fastrand::Rng;
use first_launches::Options;

use crate::cuda;
use crate::kernels::Kernel;

pub(crate) type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// A package in its own folder below cargo's target directory.
pub(crate) struct Package {
    name: String,
    pub(crate) folder: PathBuf,
    target: PathBuf,
    /// The sources whose kernels launch kernels.
    pub(crate) linked: Vec<Source>,
}

/// A CUDA source of the package.
pub(crate) struct Source {
    /// The file's name without its extension, such as `plain_00`.
    name: String,
    kind: Kind,
    kernels: Vec<Kernel>,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Plain,
    /// Kernels with clusters, which need sm_90.
    Cluster,
    /// Kernels that launch kernels, which need the device linker.
    Linked,
}

/// The number of kernels in a source: enough that starting compilers takes little of the time, and few enough
/// that the largest frame of a source is often small.
const TOGETHER: usize = 12;

impl Package {
    /// Writes the package. Unchanged files aren't written, so that cargo doesn't build them again.
    pub(crate) fn write(options: Options) -> Outcome<Self> {
        let program = env::current_exe()?;
        let target = program.ancestors().find(|folder| folder.join("CACHEDIR.TAG").is_file());
        let target =
            target.ok_or("this program is not in a target directory of cargo: start it with `cargo run`")?;
        let which = format!("{}-{}", options.seed, options.kernels);
        let folder = target.join("first-launches").join(&which);
        let mut random = Rng::with_seed(options.seed);
        let kernels: Vec<_> =
            (0..options.kernels).map(|number| Kernel::random(number, &mut random)).collect();
        let (plain, linked) = sources(kernels);

        let write = |path: &str, text: String| write(&folder.join(path), text.as_bytes());
        let name = format!("first-launches-{which}");
        write("Cargo.toml", manifest(&name))?;
        write("build.rs", BUILD.to_owned())?;
        write("src/main.rs", main(options, plain.iter().chain(&linked)))?;
        write("cuda/resident.cu", cuda::RESIDENT.to_owned())?;
        for source in plain.iter().chain(&linked) {
            write(&source.path(), source.text())?;
        }
        // The lock file selects this workspace's versions, which have already been downloaded.
        if !folder.join("Cargo.lock").exists() {
            fs::copy(workspace().join("Cargo.lock"), folder.join("Cargo.lock"))?;
        }
        Ok(Package { name, folder, target: target.to_owned(), linked })
    }

    /// Builds the package's executable with the profile of this executable, and returns its path.
    pub(crate) fn build(&self) -> Outcome<PathBuf> {
        let release = !cfg!(debug_assertions);
        let mut cargo = Command::new(env::var_os("CARGO").unwrap_or("cargo".into()));
        cargo.current_dir(&self.folder).args(["build", "--quiet"]).args(release.then_some("--release"));
        cargo.arg("--target-dir").arg(&self.target).env("KERNEL_REGISTRY_COMPILER", "nvcc");
        if !cargo.status()?.success() {
            return Err(format!("cargo could not build `{}`", self.folder.display()).into());
        }
        let profile = if release { "release" } else { "debug" };
        Ok(self.target.join(profile).join(format!("{}{}", self.name, env::consts::EXE_SUFFIX)))
    }
}

impl Source {
    /// Returns the source's path in the package.
    pub(crate) fn path(&self) -> String {
        // The package's build script compiles the sources in `cuda`; this executable compiles those in
        // `linked`.
        let folder = if self.kind == Kind::Linked { "linked" } else { "cuda" };
        format!("{folder}/{}.cu", self.name)
    }

    /// Returns the path of the source's image, if this executable compiles the source.
    pub(crate) fn image(&self) -> String {
        format!("linked/{}.fatbin", self.name)
    }

    fn text(&self) -> String {
        let directive = match self.kind {
            Kind::Cluster => "// kernel-registry: arch=sm_90 ptx=compute_90\n",
            Kind::Plain | Kind::Linked => "",
        };
        cuda::source(directive, &self.kernels.iter().collect::<Vec<_>>())
    }

    /// Returns the Rust module that declares the source's kernels.
    fn module(&self) -> String {
        let image = match self.kind {
            Kind::Linked => format!("image = \"{}\"", self.image()),
            Kind::Plain | Kind::Cluster => format!("file = \"{}\"", self.path()),
        };
        let arch = if self.kind == Kind::Plain { "" } else { ", arch = \">=90\"" };
        let declarations: String = self.kernels.iter().map(declaration).collect();
        format!("\n#[gpu_kernel({image}{arch})]\nmod {} {{\n{declarations}}}\n", self.name)
    }
}

fn declaration(kernel: &Kernel) -> String {
    let stack = kernel.declared_stack().map_or(String::new(), |bytes| format!(", stack = {bytes}"));
    let Kernel { block, static_shared, dynamic_shared, .. } = kernel;
    // Older devices have less shared memory.
    let arch = if static_shared + dynamic_shared > 48 << 10 { ", arch = \">=90\"" } else { "" };
    format!(
        "    /// {kernel}\n    #[gpu_kernel(block = {block}, shared = {dynamic_shared}{stack}{arch})]\n    \
         pub unsafe fn {}(done: *mut u32, n: u32, really: u32);\n",
        kernel.name()
    )
}

/// Returns a kernel's entry in the list of cases.
fn case(module: &str, kernel: &Kernel) -> String {
    let path = format!("{module}::{}::INFO", kernel.name());
    let Kernel { block, dynamic_shared, grid, cluster, .. } = kernel;
    let grid = cluster.map_or(*grid, |cluster| grid * cluster.blocks);
    let cluster = cluster.filter(|cluster| cluster.at_launch).map(|cluster| cluster.blocks);
    let (parent, recursive) = (kernel.child_frame.is_some(), kernel.recursion.is_some());
    format!(
        "    Case {{ kernel: {path}, grid: {grid}, block: {block}, shared: {dynamic_shared}, cluster: {cluster:?}, \
         parent: {parent}, recursive: {recursive}, traits: \"{kernel}\" }},\n"
    )
}

fn main<'a>(options: Options, sources: impl Iterator<Item = &'a Source> + Clone) -> String {
    let modules: String = sources.clone().map(Source::module).collect();
    let cases = sources.flat_map(|source| source.kernels.iter().map(|kernel| case(&source.name, kernel)));
    let cases: String = cases.collect();
    let Options { seed, kernels } = options;
    format!(
        "//! Generated for `{options}`.\n\n\
         use first_launches::{{Case, Options, Program}};\n\
         use kernel_registry::gpu_kernel;\n\n\
         /// Stays until the flag is set.\n\
         #[gpu_kernel(file = \"cuda/resident.cu\")]\n\
         pub unsafe fn stay(flag: *const u32, status: *mut u32, limit_ns: u64);\n\
         {modules}\n\
         static CASES: &[Case] = &[\n{cases}];\n\n\
         fn main() -> std::process::ExitCode {{\n    \
             let options = Options {{ seed: {seed}, kernels: {kernels} }};\n    \
             first_launches::run(&Program {{ cases: CASES, stay: stay::INFO, options }})\n\
         }}\n"
    )
}

const BUILD: &str = r#"fn main() {
    kernel_registry_build::Build::new().arch("sm_90").ptx("compute_75").compile();
}
"#;

fn manifest(name: &str) -> String {
    let workspace = workspace();
    let crates = |name: &str, folder: &str| {
        // In single quotes, because TOML treats backslashes in double quotes as escapes.
        format!("{name} = {{ path = '{}' }}\n", workspace.join(folder).display())
    };
    format!(
        "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[workspace]\n\n\
         [dependencies]\n{}{}\n[build-dependencies]\n{}\n{}[profile.release]\nstrip = false\n",
        crates("first-launches", "tests/first-launches"),
        crates("kernel-registry", "kernel-registry"),
        crates("kernel-registry-build", "kernel-registry-build"),
        tests::fast_simulation(),
    )
}

/// Splits the kernels into sources for the package's build script, and sources for the device linker.
fn sources(kernels: Vec<Kernel>) -> (Vec<Source>, Vec<Source>) {
    let (linked, others): (Vec<_>, Vec<_>) =
        kernels.into_iter().partition(|kernel| kernel.child_frame.is_some());
    let (clusters, plain): (Vec<_>, Vec<_>) = others.into_iter().partition(|kernel| kernel.cluster.is_some());
    let of_kind = |kind, name: &str, kernels: &[Kernel]| {
        let sources = kernels.chunks(TOGETHER).enumerate().map(|(number, kernels)| Source {
            name: format!("{name}_{number:02}"),
            kind,
            kernels: kernels.to_vec(),
        });
        sources.collect::<Vec<_>>()
    };
    let mut compiled = of_kind(Kind::Plain, "plain", &plain);
    compiled.extend(of_kind(Kind::Cluster, "cluster", &clusters));
    (compiled, of_kind(Kind::Linked, "linked", &linked))
}

/// Writes a file unless it already has these bytes.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Outcome {
    let about = |error: io::Error| format!("{}: {error}", path.display());
    if fs::read(path).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder).map_err(about)?;
    Ok(fs::write(path, bytes).map_err(about)?)
}

/// Returns the root of this workspace.
fn workspace() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().unwrap_or(tests).to_owned()
}

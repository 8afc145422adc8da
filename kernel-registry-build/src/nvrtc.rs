//! Compiles sources with the library NVRTC. The sources can't use headers of the host.

use std::collections::BTreeMap;
use std::env;
use std::ffi::CString;
use std::fs;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use kernel_registry_cuda::device_header;
use kernel_registry_cuda::fatbin::{self, Kind, Part};

use crate::arch::{Arch, Targets, no_machine_code};
use crate::environment::Environment;
use crate::includes::Includes;
use crate::job::{Compiled, Job};
use crate::nvrtc_library::{Answer, Library};
use crate::wheels::wheel_of;
use crate::{Error, Result, diagnostics, find, fingerprint};

/// Returns the file extension of an image for these targets.
pub(crate) fn extension(targets: &Targets) -> &'static str {
    if is_text(targets) { "ptx" } else { "fatbin" }
}

/// Returns whether an image is PTX for a single architecture. That needs no container, and warming can
/// compile it in pieces.
fn is_text(targets: &Targets) -> bool {
    targets.real().next().is_none() && targets.ptx().count() == 1
}

/// The namespace `nv::target` in mangled names of PTX.
const TARGET_NAMESPACE: &str = "2nv6target";

/// An NVRTC on this machine, loaded when it's first needed.
#[derive(Debug)]
pub(crate) struct Nvrtc {
    /// The path of the library. `None` if the dynamic loader has to find it.
    file: Option<PathBuf>,
    /// The folders of headers like `cuda_fp16.h`.
    includes: Vec<PathBuf>,
    library: OnceLock<std::result::Result<Library, String>>,
}

impl Nvrtc {
    /// Finds the first NVRTC in search order.
    pub(crate) fn find(environment: &Environment) -> Result<Option<Self>> {
        let folders = find::library_folders(environment);
        if let Some(file) = folders.iter().find_map(|folder| find::nvrtc_in(folder)) {
            return Ok(Some(Self::at(file, environment)));
        }
        let includes = find::include_folders_of(Path::new(""), environment);
        let loaded = Library::by_name().map(|library| Nvrtc {
            file: None,
            includes,
            library: OnceLock::from(Ok(library)),
        });
        Ok(loaded)
    }

    /// Returns the NVRTC at this path, which may be a library or its folder.
    pub(crate) fn at(place: PathBuf, environment: &Environment) -> Self {
        let file = if place.is_dir() { find::nvrtc_at(&place).unwrap_or(place) } else { place };
        let includes = find::include_folders_of(&file, environment);
        Nvrtc { file: Some(file), includes, library: OnceLock::new() }
    }

    pub(crate) fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Returns name and version: `NVRTC 12.0`.
    pub(crate) fn name(&self) -> Result<String> {
        let (major, minor) = self.library()?.version();
        Ok(format!("NVRTC {major}.{minor}"))
    }

    fn library(&self) -> Result<&Library> {
        let open = || match &self.file {
            Some(file) => Library::open(file, find::builtins_of(file).as_deref()),
            None => Err("it was not found".to_owned()),
        };
        self.library.get_or_init(open).as_ref().map_err(|why| Error::Unusable {
            compiler: self.file.clone().unwrap_or_else(|| PathBuf::from("libnvrtc")),
            why: why.clone(),
        })
    }

    /// Returns a hash of everything except files that can change the image. Doesn't load the library if its
    /// path is known.
    pub(crate) fn key(&self, job: &Job<'_>) -> Result<String> {
        let identity = match &self.file {
            Some(file) => fingerprint::identity(file),
            None => self.name()?,
        };
        let includes = self.includes.iter().map(|folder| folder.display().to_string());
        let targets = job.source.targets.gencode();
        let words = arguments(job, true);
        Ok(fingerprint::hash_all([identity].into_iter().chain(includes).chain(targets).chain(words)))
    }

    /// Writes the image into a file: PTX, or a fatbin if there is machine code or more than one architecture.
    pub(crate) fn compile(&self, job: &Job<'_>, image: &Path) -> Result<(String, Compiled)> {
        let unit = Unit::read(job)?;
        let targets = &job.source.targets;
        let mut log = String::new();
        let mut parts = Vec::new();
        // Compiling for `sm_90` also yields the PTX of `compute_90`.
        let mut texts = BTreeMap::new();
        let mut unknown = Vec::new();
        for arch in targets.real() {
            match self.run(job, &unit, &arch.to_string()) {
                Ok(made) => {
                    log += &made.log;
                    parts.push((Kind::Cubin, arch, made.cubin));
                    texts.insert(arch.target, made.ptx);
                }
                Err(Error::UnknownArch { .. }) => unknown.push(arch),
                Err(error) => return Err(error),
            }
        }
        for arch in targets.ptx() {
            let text = match texts.remove(&arch.target) {
                Some(text) => text,
                None => {
                    let made = self.run(job, &unit, &arch.to_string())?;
                    log += &made.log;
                    made.ptx
                }
            };
            parts.push((Kind::Ptx, arch, text));
        }
        let bytes = match &mut parts[..] {
            [(_, _, text)] if is_text(targets) => mem::take(text),
            parts => fatbin::write(&parts.iter().map(part).collect::<Vec<_>>()),
        };
        fs::write(image, bytes).map_err(Error::file("write", image))?;
        let name = self.name()?;
        let mut compiled = unit.compiled(job, &log);
        let source = &job.source.path;
        compiled.warnings.extend(unknown.iter().map(|arch| no_machine_code(source, &name, arch)));
        Ok((name, compiled))
    }

    /// Compiles a source to PTX for the lowest requested architecture.
    pub(crate) fn ptx(&self, job: &Job<'_>) -> Result<Vec<u8>> {
        let unit = Unit::read(job)?;
        Ok(self.run(job, &unit, &job.source.targets.lowest())?.ptx)
    }

    /// Compiles a source for one architecture.
    fn run(&self, job: &Job<'_>, unit: &Unit, arch: &str) -> Result<Made> {
        let path = job.package.join(&job.source.path);
        let folders: Vec<PathBuf> = job.options.includes.iter().map(|one| job.package.join(one)).collect();
        let mut words = vec![format!("--gpu-architecture={arch}")];
        words.extend(arguments(job, arch.starts_with("sm_")));
        // NVRTC searches for headers from this process's current folder, which cargo sets to the package's.
        if !env::current_dir().is_ok_and(|here| here == job.package) {
            words.extend(path.parent().map(include));
        }
        words.extend(folders.iter().chain(&self.includes).map(|folder| include(folder)));
        let name = self.name()?;
        let unusable = |_| Error::Name { source: path.clone() };
        let text = CString::new(&*unit.text).map_err(|_| Error::Rejected {
            source: job.source.path.clone(),
            compiler: name.clone(),
            text: format!("{}: error: there is a zero byte in the text", job.source.path),
        })?;
        let program = CString::new(job.source.path.as_str()).map_err(unusable)?;
        let words: std::result::Result<Vec<CString>, _> = words.into_iter().map(CString::new).collect();
        let [name_of_header, header] =
            [device_header::NAME, device_header::TEXT].map(|text| CString::new(text).unwrap_or_default());
        let header = unit.includes.device_header.then_some((&*name_of_header, &*header));
        match self.library()?.compile(&text, &program, header, &words.map_err(unusable)?) {
            Answer::Compiled { ptx, cubin, log } => {
                Ok(Made { ptx: without_target_constants(ptx), cubin, log })
            }
            Answer::Rejected { log } => {
                let mut error = rejected(job, name, arch, log, &unit.includes);
                if let Error::NeedsHeader { header, wheel, .. } = &mut error {
                    *wheel = wheel_of(header, self.library()?.version());
                }
                Err(error)
            }
            Answer::Failed { code, why, log } => Err(Error::Crashed {
                source: job.source.path.clone(),
                compiler: name,
                how: format!("{why}, code {code}"),
                command: "cargo build -vv".to_owned(),
                text: log,
            }),
        }
    }
}

/// The text and the headers of a source, read once for all architectures.
struct Unit {
    text: Vec<u8>,
    includes: Includes,
}

impl Unit {
    fn read(job: &Job<'_>) -> Result<Self> {
        let path = job.package.join(&job.source.path);
        let text = fs::read(&path).map_err(Error::file("read", &path))?;
        Ok(Unit { text, includes: Includes::follow(job.package, &job.source.path, job.options) })
    }

    fn compiled(self, job: &Job<'_>, log: &str) -> Compiled {
        let Unit { includes, .. } = self;
        let mut warnings = diagnostics::warnings(log);
        warnings.extend(includes.unnoticed_warning(&job.source.path));
        let device_header = includes.device_header;
        Compiled { warnings, files: includes.paths().collect(), device_header }
    }
}

/// The result of compiling for one architecture.
struct Made {
    ptx: Vec<u8>,
    /// The machine code. Empty for virtual architectures such as `compute_90`.
    cubin: Vec<u8>,
    log: String,
}

fn part((kind, arch, bytes): &(Kind, Arch, Vec<u8>)) -> Part<'_> {
    Part { kind: *kind, sm: arch.target.sm, flags: arch.fatbin_flags(), bytes }
}

/// Returns the error for a compilation that NVRTC rejected.
fn rejected(job: &Job<'_>, compiler: String, arch: &str, log: String, includes: &Includes) -> Error {
    let source = job.source.path.clone();
    if let Some(said) = diagnostics::unknown_arch(&log) {
        let remedy = format!(
            "{arch} was asked for, for {source}: ask for another one by `Build::ptx`, or install another compiler"
        );
        return Error::UnknownArch { compiler, said, remedy };
    }
    match diagnostics::missing_header(&log) {
        Some(header) if includes.foreign.contains(&header) => {
            Error::NeedsHeader { source, header, wheel: None }
        }
        // The missing header is included by one of the toolkit's.
        Some(header) if !log.contains(&format!("{source}(")) => {
            Error::NeedsHeader { source, header, wheel: None }
        }
        _ => Error::Rejected { source, compiler, text: log },
    }
}

/// Removes unused constants, which come from a header that NVRTC 12 puts in front of every source.
///
/// If all kernels are templates, the constants' names contain the process id, so that no two images would be
/// equal. Defining the header's include guard wouldn't help, because `cuda_fp16.h` needs its macros.
fn without_target_constants(ptx: Vec<u8>) -> Vec<u8> {
    let Ok(text) = str::from_utf8(&ptx) else { return ptx };
    let constant = |line: &str| line.starts_with(".global ") && line.contains(TARGET_NAMESPACE);
    if text.lines().any(|line| line.contains(TARGET_NAMESPACE) && !constant(line)) {
        return ptx;
    }
    text.split_inclusive('\n').filter(|line| !constant(line)).collect::<String>().into_bytes()
}

fn include(folder: &Path) -> String {
    format!("--include-path={}", folder.display())
}

/// Returns the options that depend on neither folder nor architecture. `assembled` means that machine code is
/// made.
fn arguments(job: &Job<'_>, assembled: bool) -> Vec<String> {
    let options = job.options;
    let mut arguments: Vec<String> = options.std.iter().map(|std| format!("--std={std}")).collect();
    arguments.extend(options.defines.iter().map(|define| format!("-D{define}")));
    arguments.extend(flags(&options.flags, assembled));
    arguments
}

/// Flags with a value, for stages that only nvcc has.
const OF_HOST: &[&str] = &["-Xcompiler", "--compiler-options", "-ccbin", "--compiler-bindir"];
/// Flags without a value, for stages that only nvcc has.
const OF_HOST_ALONE: &[&str] = &[
    "--expt-relaxed-constexpr",
    "-expt-relaxed-constexpr",
    "--expt-extended-lambda",
    "-expt-extended-lambda",
    "--extended-lambda",
    "-extended-lambda",
    "-O0",
    "-O1",
    "-O2",
    "-O3",
];
/// Flags for the assembler.
const OF_PTXAS: &[&str] = &["-Xptxas", "--ptxas-options"];

/// Returns the flags that NVRTC understands: all but those for nvcc's other stages.
fn flags(flags: &[String], assembled: bool) -> Vec<String> {
    let others: Vec<&str> = if assembled { OF_HOST.to_vec() } else { [OF_HOST, OF_PTXAS].concat() };
    let mut kept = Vec::new();
    let mut rest = flags.iter();
    while let Some(flag) = rest.next() {
        let with_value = |name: &&str| flag.strip_prefix(*name).is_some_and(|rest| rest.starts_with('='));
        if others.contains(&flag.as_str()) {
            rest.next();
        } else if OF_PTXAS.contains(&flag.as_str()) {
            kept.push(flag.clone());
            kept.extend(rest.next().cloned());
        } else if !OF_HOST_ALONE.contains(&flag.as_str()) && !others.iter().any(with_value) {
            kept.push(flag.clone());
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_other_stages_are_left_out() {
        let given =
            ["-Xptxas", "-O1", "--use_fast_math", "-Xcompiler=-Wall", "-O3", "-lineinfo"].map(str::to_owned);
        assert_eq!(flags(&given, false), ["--use_fast_math", "-lineinfo"]);
        assert_eq!(flags(&given, true), ["-Xptxas", "-O1", "--use_fast_math", "-lineinfo"]);
    }

    #[test]
    fn unused_constants_of_the_compilers_own_header_are_left_out() {
        let constant =
            ".global .align 8 .u64 _ZN37_INTERNAL_00000000_7_half_cu_d12425582nv6target5sm_90E = 90;\n";
        let code = ".global .align 4 .u32 counter;\n.visible .entry k() { ret; }\n";
        let strip = |text: String| String::from_utf8(without_target_constants(text.into_bytes())).unwrap();
        assert_eq!(strip(format!("// head\n{constant}{code}")), format!("// head\n{code}"));
        let used = format!(
            "{constant}{code}\tmov.u64 %rd1, _ZN37_INTERNAL_00000000_7_half_cu_d12425582nv6target5sm_90E;\n"
        );
        assert_eq!(strip(used.clone()), used);
    }

    #[test]
    fn a_file_that_is_no_library_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("libnvrtc.so.13");
        fs::write(&file, "not a library").unwrap();
        let nvrtc = Nvrtc::at(folder.path().to_owned(), &Environment::default());
        assert_eq!(nvrtc.file(), Some(file.as_path()));
        let said = nvrtc.name().unwrap_err().to_string();
        assert!(said.contains("libnvrtc.so.13` cannot be used: "), "{said}");
    }
}

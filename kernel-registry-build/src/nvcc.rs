//! Compiles each source with nvcc, to one fat binary.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output};
use std::{fs, io, iter};

use kernel_registry_cuda::device_header;

use crate::diagnostics;
use crate::environment::{Environment, OF_NVCC};
use crate::fingerprint;
use crate::includes::Includes;
use crate::job::{Compiled, Job};
use crate::source::tidy;
use crate::{Error, Result, files};

/// The file extension of this compiler's images.
pub(crate) const EXTENSION: &str = "fatbin";

/// The folder with the device header, next to the images. It's on the include path.
const OWN_HEADERS: &str = "include";

/// The extension of preprocessed sources, one for each architecture.
const PREPROCESSED: &str = ".cpp1.ii";

/// An nvcc with a known version.
#[derive(Debug)]
pub(crate) struct Nvcc {
    program: PathBuf,
    /// Name and version: `nvcc 13.0.88`.
    pub(crate) name: String,
}

impl Nvcc {
    pub(crate) fn open(program: PathBuf, environment: &Environment) -> Result<Self> {
        let mut command = Command::new(&program);
        environment.apply_to(&mut command);
        let answer = command.arg("--version").output().map_err(|error| unstartable(&program, &error))?;
        match version(&String::from_utf8_lossy(&answer.stdout)) {
            Some(version) if answer.status.success() => Ok(Nvcc { program, name: format!("nvcc {version}") }),
            _ => {
                let why = format!("`--version` gives no version ({})", how_it_ended(answer.status));
                Err(Error::Unusable { compiler: program, why })
            }
        }
    }

    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    /// Returns a hash of everything except files that can change the image: compiler, variables, arguments.
    pub(crate) fn key(&self, job: &Job<'_>) -> String {
        let variables = OF_NVCC.iter().map(|name| {
            let value = job.environment.get(name).unwrap_or_default();
            format!("{name}={}", value.to_string_lossy())
        });
        let identity = [fingerprint::identity(&self.program), self.name.clone()];
        fingerprint::hash_all(identity.into_iter().chain(variables).chain(arguments(job)))
    }

    /// Writes the image into a file.
    pub(crate) fn compile(&self, job: &Job<'_>, image: &Path) -> Result<Compiled> {
        // nvcc keeps its intermediate files here, and they name the headers. `-MMD` would preprocess each
        // source once more, which takes about a tenth of the time of a small source.
        let kept = image.with_extension("kept");
        fs::create_dir_all(&kept).map_err(Error::file("create", &kept))?;
        let mut command = Command::new(&self.program);
        job.environment.apply_to(&mut command);
        command.current_dir(job.package).args(arguments(job));
        let includes = Includes::follow(job.package, &job.source.path, job.options);
        let own_headers = tidy(&job.package.join(image.with_file_name(OWN_HEADERS)));
        let device_header = includes.device_header;
        if device_header {
            command.arg(format!("-I{}", own_headers.display()));
        }
        command.arg("-o").arg(image).arg(&job.source.path);
        let to_repeat = shell_command(&command);
        command.args(["-keep", "-keep-dir"]).arg(&kept);
        let output = command.output().map_err(|error| unstartable(&self.program, &error));
        let entered = entered_files(&kept);
        // Leftover files do no harm.
        let _ = fs::remove_dir_all(&kept);

        let Output { status, stdout, stderr } = output?;
        // nvcc writes its messages to standard error, but users' flags may add some on standard output.
        let text = [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        if !status.success() || !image.is_file() {
            return Err(self.failure(job, to_repeat, status, text));
        }
        let mut files = entered.map_err(Error::file("read", &kept))?;
        let mut warnings = diagnostics::warnings(&text);
        // The user's flags or variables may have put the intermediate files elsewhere.
        if files.is_empty() {
            warnings.extend(includes.unnoticed_warning(&job.source.path));
            files.extend(includes.paths().map(|path| (path, false)));
        }
        let toolkit = self.program.parent().and_then(Path::parent);
        let files = files.into_iter().map(|(file, system)| (tidy(&job.package.join(file)), system));
        // Some headers aren't watched. The toolkit's change with the compiler, which is in the key. The
        // system's aren't the user's. And cargo would run the build script again for a header that the build
        // script itself wrote.
        let files = files.filter(|(file, _)| !file.starts_with(&own_headers));
        let files = files.filter(|(file, system)| {
            file.starts_with(job.package)
                || !(*system || toolkit.is_some_and(|toolkit| file.starts_with(toolkit)))
        });
        Ok(Compiled { warnings, files: files.map(|(file, _)| file).collect(), device_header })
    }

    fn failure(&self, job: &Job<'_>, command: String, status: ExitStatus, text: String) -> Error {
        let (source, compiler) = (job.source.path.clone(), self.name.clone());
        if let Some(said) = diagnostics::unknown_arch(&text) {
            let remedy = format!("`{} --list-gpu-code` lists the ones it knows", self.program.display());
            return Error::UnknownArch { compiler, said, remedy };
        }
        if let Some(said) = diagnostics::no_host_compiler(&text) {
            return Error::NoHostCompiler { compiler, said };
        }
        // nvcc turns a crashed stage into an ordinary error message.
        let died = text.contains("died due to signal") || text.contains("died with status 0xC");
        let refuses = status.code().is_some_and(|code| (1..128).contains(&code) || code == 255);
        if refuses && !died && !text.trim().is_empty() {
            return Error::Rejected { source, compiler, text };
        }
        Error::Crashed { source, compiler, how: how_it_ended(status), command, text }
    }
}

/// Writes the device header to where sources find it.
pub(crate) fn write_headers(folder: &Path) -> Result<()> {
    let folder = folder.join(OWN_HEADERS);
    fs::create_dir_all(&folder).map_err(Error::file("create", &folder))?;
    files::replace(&folder.join(device_header::NAME), device_header::TEXT.as_bytes())
}

/// Returns all arguments except file names.
fn arguments(job: &Job<'_>) -> Vec<String> {
    let options = job.options;
    let mut arguments = vec!["-fatbin".to_owned()];
    arguments.extend(options.std.iter().map(|std| format!("-std={std}")));
    arguments.extend(options.includes.iter().map(|folder| format!("-I{}", folder.display())));
    arguments.extend(options.defines.iter().map(|define| format!("-D{define}")));
    arguments.extend(job.source.targets.gencode());
    arguments.extend(options.flags.iter().cloned());
    arguments
}

/// Reads `13.0.88` of `Cuda compilation tools, release 13.0, V13.0.88`.
fn version(text: &str) -> Option<String> {
    let line = text.lines().find(|line| line.contains("release "))?;
    let (_, full) = line.rsplit_once(", V")?;
    full.split_whitespace().next().map(str::to_owned)
}

/// Returns the files that the preprocessor read, according to its output in this folder. Each has a flag for
/// system headers, such as those of `-isystem`. An empty set means that there was no output, because the
/// source itself is always listed.
fn entered_files(folder: &Path) -> io::Result<BTreeSet<(PathBuf, bool)>> {
    let mut files = BTreeSet::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.to_string_lossy().ends_with(PREPROCESSED) {
            files.extend(markers(&String::from_utf8_lossy(&fs::read(path)?)));
        }
    }
    Ok(files)
}

/// Returns the files of line markers: `# 1 "a.cuh" 1` where the preprocessor enters a file, with a 3 at the
/// end for system headers. A file named by a `#line` of the source doesn't have the flag 1.
fn markers(text: &str) -> impl Iterator<Item = (PathBuf, bool)> {
    text.split("\n# 1 \"").skip(1).filter_map(|rest| {
        let (name, flags) = rest.split('\n').next()?.rsplit_once('"')?;
        let entered = flags.contains(" 1") && !name.starts_with('<');
        entered.then(|| (PathBuf::from(unescape(name)), flags.contains(" 3")))
    })
}

/// Removes the backslash that the preprocessor adds to each backslash and quote.
fn unescape(name: &str) -> String {
    let mut chars = name.chars();
    iter::from_fn(|| chars.next().and_then(|c| if c == '\\' { chars.next() } else { Some(c) })).collect()
}

fn unstartable(program: &Path, error: &io::Error) -> Error {
    Error::Unusable { compiler: program.to_owned(), why: format!("it does not start: {error}") }
}

/// Describes how a process ended.
fn how_it_ended(status: ExitStatus) -> String {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return format!("killed by signal {signal}");
    }
    match status.code() {
        Some(0) => "it wrote no image".to_owned(),
        Some(code) => format!("exit code {code}"),
        None => "no exit code".to_owned(),
    }
}

/// Returns a command line for a shell.
fn shell_command(command: &Command) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,+:@%".contains(c);
    let words = [command.get_program()].into_iter().chain(command.get_args());
    let words = words.map(|word| match word.to_string_lossy() {
        word if word.chars().all(is_plain) && !word.is_empty() => word.into_owned(),
        word => format!("'{}'", word.replace('\'', "'\\''")),
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_read() {
        let text = "nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release 13.0, V13.0.88\nBuild cuda_13.0";
        assert_eq!(version(text), Some("13.0.88".into()));
        assert_eq!(version("gcc 12"), None);
    }

    #[test]
    fn line_markers_are_read() {
        let text = "# 0 \"cuda/a b.cu\"\n# 0 \"<command-line>\"\n# 1 \"cuda/a b.cu\"\n# 1 \"<built-in>\" 1\n\
                    # 1 \"/opt/x/../y.h\" 1\n# 1 \"/usr/include/c++/12/cassert\" 1 3\nint x;\n\
                    # 1 \"C:\\\\cuda\\\\q\\\"$z#.h\" 1\n# 2 \"cuda/a b.cu\" 2\n# 1 \"nowhere.cu\"\n# 40 \"nowhere.cu\"\n";
        let expected =
            [("/opt/x/../y.h", false), ("/usr/include/c++/12/cassert", true), ("C:\\cuda\\q\"$z#.h", false)];
        assert_eq!(markers(text).collect::<Vec<_>>(), expected.map(|(path, system)| (path.into(), system)));
        assert_eq!(markers("").count(), 0);
    }

    #[test]
    fn a_command_can_be_pasted() {
        let mut command = Command::new("/opt/cuda/bin/nvcc");
        command.args(["-DX='a b'", "", "a.cu"]);
        assert_eq!(shell_command(&command), r"/opt/cuda/bin/nvcc '-DX='\''a b'\''' '' a.cu");
    }
}

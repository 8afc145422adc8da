//! nvcc: one fat binary a source.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output};

use crate::diagnostics;
use crate::environment::{Environment, OF_NVCC};
use crate::fingerprint;
use crate::make::{Compiled, Job};
use crate::source::tidy;
use crate::{Error, Result};

/// What images of this compiler are called.
pub(crate) const EXTENSION: &str = "fatbin";

/// The rule's name in the list of dependencies, which nvcc would otherwise write without escaping it.
const RULE: &str = "image";

/// An nvcc that was started once, for its version.
#[derive(Debug)]
pub(crate) struct Nvcc {
    program: PathBuf,
    /// `nvcc 13.0.88`.
    pub(crate) name: String,
}

impl Nvcc {
    pub(crate) fn open(program: PathBuf, environment: &Environment) -> Result<Self> {
        let mut command = Command::new(&program);
        environment.give(&mut command);
        let answer = command.arg("--version").output().map_err(|error| unstartable(&program, &error))?;
        match version(&String::from_utf8_lossy(&answer.stdout)) {
            Some(version) if answer.status.success() => Ok(Nvcc { program, name: format!("nvcc {version}") }),
            _ => {
                let why = format!("`--version` gives no version ({})", ended(answer.status));
                Err(Error::Unusable { compiler: program, why })
            }
        }
    }

    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    /// What makes its images differ from another one's.
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
        let depfile = image.with_extension("d");
        let mut command = Command::new(&self.program);
        job.environment.give(&mut command);
        command.current_dir(job.package).args(arguments(job));
        command.args(["-MMD", "-MT", RULE, "-MF"]).arg(&depfile).arg("-o").arg(image).arg(&job.source.path);
        let output = command.output().map_err(|error| unstartable(&self.program, &error));
        let depends = fs::read_to_string(&depfile);
        // If it is not there, it need not be removed.
        let _ = fs::remove_file(&depfile);

        let Output { status, stdout, stderr } = output?;
        // All of it is on the second, but flags of users may bring more.
        let text = [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        if !status.success() || !image.is_file() {
            return Err(self.failure(job, &command, status, text));
        }
        let files = depends.map(|text| dependencies(&text)).map_err(Error::file("read", &depfile))?;
        let own = self.program.parent().and_then(Path::parent);
        let files = files.into_iter().map(|file| tidy(&job.package.join(file)));
        // The headers of the toolkit change with the compiler, which is in the key.
        let files = files
            .filter(|file| file.starts_with(job.package) || !own.is_some_and(|own| file.starts_with(own)));
        Ok(Compiled { warnings: diagnostics::warnings(&text), files: files.collect() })
    }

    fn failure(&self, job: &Job<'_>, command: &Command, status: ExitStatus, text: String) -> Error {
        let (source, compiler) = (job.source.path.clone(), self.name.clone());
        if let Some(said) = diagnostics::unknown_arch(&text) {
            let remedy = format!("`{} --list-gpu-code` names those that it knows", self.program.display());
            return Error::UnknownArch { compiler, said, remedy };
        }
        if let Some(said) = diagnostics::no_host_compiler(&text) {
            return Error::NoHostCompiler { compiler, said };
        }
        // nvcc reports a stage that died as an error of its own.
        let died = text.contains("died due to signal") || text.contains("died with status 0xC");
        let refuses = status.code().is_some_and(|code| (1..128).contains(&code) || code == 255);
        if refuses && !died && !text.trim().is_empty() {
            return Error::Rejected { source, compiler, text };
        }
        let command = shown(command);
        Error::Crashed { source, compiler, how: ended(status), command, text }
    }
}

/// All but the names of files.
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

/// `13.0.88` of `Cuda compilation tools, release 13.0, V13.0.88`.
fn version(text: &str) -> Option<String> {
    let line = text.lines().find(|line| line.contains("release "))?;
    let (_, full) = line.rsplit_once(", V")?;
    full.split_whitespace().next().map(str::to_owned)
}

/// The files of a rule `image : a.cu \ b\ c.cuh`. Only spaces are escaped in it.
fn dependencies(rule: &str) -> Vec<PathBuf> {
    let list = rule.split_once(':').map_or("", |(_, list)| list);
    let list = list.replace("\\\r\n", " ").replace("\\\n", " ");
    let mut files = Vec::new();
    let mut file = String::new();
    let mut rest = list.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\\' if rest.peek() == Some(&' ') => file.extend(rest.next()),
            c if c.is_whitespace() => files.push(std::mem::take(&mut file)),
            c => file.push(c),
        }
    }
    files.push(file);
    files.retain(|file| !file.is_empty());
    files.into_iter().map(PathBuf::from).collect()
}

fn unstartable(program: &Path, error: &std::io::Error) -> Error {
    Error::Unusable { compiler: program.to_owned(), why: format!("it does not start: {error}") }
}

/// How a process ended, in words.
fn ended(status: ExitStatus) -> String {
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

/// A command line that a shell takes.
fn shown(command: &Command) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,+:@%".contains(c);
    let words = [command.get_program()].into_iter().chain(command.get_args());
    let words = words.map(|word| match word.to_string_lossy() {
        word if word.chars().all(plain) && !word.is_empty() => word.into_owned(),
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
    fn a_rule_is_read() {
        let rule = "image : cuda/a\\ b.cu \\\n  /opt/x/../y.h $z#.h\\\n  C:\\cuda\\h.h\n";
        let expected = ["cuda/a b.cu", "/opt/x/../y.h", "$z#.h", "C:\\cuda\\h.h"].map(PathBuf::from);
        assert_eq!(dependencies(rule), expected);
        assert!(dependencies("").is_empty());
    }

    #[test]
    fn a_command_can_be_pasted() {
        let mut command = Command::new("/opt/cuda/bin/nvcc");
        command.args(["-DX='a b'", "", "a.cu"]);
        assert_eq!(shown(&command), r"/opt/cuda/bin/nvcc '-DX='\''a b'\''' '' a.cu");
    }
}

//! How a program was run: the words for commands that run it again.

use std::env;
use std::ffi::OsString;
use std::fmt;

use super::cli::PRELOAD;
use crate::record::Report;

/// How a program was run, for commands that run it again.
#[derive(Clone, Default)]
pub(crate) struct HowRun {
    /// The command line before the options of the audit, such as `cargo kernels audit`.
    pub(crate) tool: String,
    /// The program and its arguments, or an empty text if the record has to say that.
    pub(crate) program: String,
    /// The file to which this run records what is late.
    pub(crate) record: Option<String>,
    /// The file with which this run was preloaded.
    pub(crate) preload: Option<String>,
    /// Whether a hang ends the program.
    pub(crate) hangs_end: bool,
}

impl HowRun {
    /// Returns how this command runs a program. `words` follow the file of this program on the command line.
    pub(crate) fn new(words: &str) -> Self {
        let own: Vec<_> = env::args_os().take(1).collect();
        let tool = if words.is_empty() { quoted(&own) } else { format!("cargo{words}") };
        HowRun { tool, ..HowRun::default() }
    }

    /// Returns whether the driver is the simulated one.
    pub(crate) fn is_simulated(&self) -> bool {
        self.tool.contains(" --sim")
    }

    /// Returns how to look at the GPUs of a process that waits for them. The simulated driver has none.
    pub(crate) fn look(&self, report: &Report) -> Option<String> {
        let (tool, number) = (self.tool.split(" --").next()?, report.process);
        (!self.is_simulated())
            .then(|| format!("to see at which line the GPU is, while this hangs: {tool} dump {number}"))
    }

    /// Returns how to find the line of a kernel that failed. The simulated driver names it by itself.
    pub(crate) fn find_fault(&self, report: &Report) -> Option<String> {
        let tool = self.tool.split(" --").next()?;
        let program = if self.program.is_empty() {
            from_record(report.known_command())
        } else {
            shortened(&self.program)
        };
        (!self.is_simulated()).then(|| {
            format!(
                "to see at which line it was:\nCUDA_ENABLE_COREDUMP_ON_EXCEPTION=1 CUDA_ENABLE_LIGHTWEIGHT_COREDUMP=1 CUDA_COREDUMP_FILE=gpu.%p.core \
                 {program}\n{tool} dump --core gpu.PID.core"
            )
        })
    }

    /// Returns what ends a hang, or prevents a late load, without a change to the program.
    pub(crate) fn cure(&self, report: &Report, hangs: bool) -> Cure {
        let HowRun { tool, program, preload, .. } = self;
        let program =
            if program.is_empty() { from_record(report.known_command()) } else { shortened(program) };
        // A run that hangs writes no file unless the hang ends it, and then the next run may hang later.
        let hangs_end = hangs || self.hangs_end || preload.is_some();
        let again = |file: &str| hangs_end.then(|| file.to_owned());
        if let Some(file) = &self.record {
            return Cure {
                what: "load at the start what this run records",
                commands: vec![format!("{tool} --preload {file} {program}")],
                again: again(file),
            };
        }
        let before = preload.as_ref().map(|file| format!(" --preload {file}")).unwrap_or_default();
        let ends = if hangs_end { " --on-hang abort" } else { "" };
        Cure {
            what: "record what is late, and load it at the start",
            commands: vec![
                format!("{tool}{ends} --record {PRELOAD}{before} {program}"),
                format!("{tool} --preload {PRELOAD} {program}"),
            ],
            again: again(PRELOAD),
        }
    }
}

/// What ends a hang, or a late load, without a change to the program. `Display` writes a line, and then a line for each command.
pub(crate) struct Cure {
    what: &'static str,
    /// The commands, in the order in which people run them.
    pub(crate) commands: Vec<String>,
    /// The file to which the next run should record again, if that may hang later.
    again: Option<String>,
}

impl fmt::Display for Cure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "without a change to the program: {}", self.what)?;
        self.commands.iter().try_for_each(|command| write!(f, "\n  {command}"))?;
        match &self.again {
            Some(file) => {
                write!(f, "\nif that hangs, record again: add `--on-hang abort --record {file}`")
            }
            None => Ok(()),
        }
    }
}

/// Stands for a command line that is too long to be read, or that a shell would not split as it was.
const PROGRAM: &str = "PROGRAM";

/// Returns the command line of a program. A whole program can be one of the arguments.
fn shortened(command: &str) -> &str {
    const LONG: usize = 300;
    if command.chars().count() > LONG || command.contains('\n') { PROGRAM } else { command }
}

/// Returns the command line that a record has. Its words are not quoted there, and anybody can have written it.
fn from_record(command: &str) -> &str {
    let is_plain = !command.is_empty() && command.bytes().all(|byte| byte == b' ' || is_plain(byte));
    if is_plain { shortened(command) } else { PROGRAM }
}

/// Returns whether a character means nothing to a shell.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-./:=@%+,".contains(&byte)
}

/// Returns a command line that a shell splits into these words.
pub(crate) fn quoted(words: &[OsString]) -> String {
    let quote = |word: &OsString| match word.to_string_lossy() {
        word if !word.is_empty() && word.bytes().all(is_plain) => word.into_owned(),
        word => format!("'{}'", word.replace('\'', "'\\''")),
    };
    words.iter().map(quote).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_those_that_a_shell_splits_again() {
        let words = ["my tool", "-c", "it's", "a=b"].map(OsString::from);
        assert_eq!(quoted(&words), r"'my tool' -c 'it'\''s' a=b");
        assert_eq!(from_record("python3 tp.py"), "python3 tp.py");
        assert_eq!(from_record("python3 -c import x; f()"), PROGRAM);
        assert_eq!(shortened(&"word ".repeat(100)), PROGRAM);
    }

    #[test]
    fn a_fault_is_found_by_a_core_dump_of_the_driver() {
        let run = HowRun { tool: "t --hang-after 1".into(), program: "p a".into(), ..HowRun::default() };
        let find = run.find_fault(&Report::default()).unwrap_or_default();
        assert!(find.contains(" CUDA_COREDUMP_FILE=gpu.%p.core p a\nt dump --core gpu.PID.core"), "{find}");
        let simulated = HowRun { tool: "t --sim".into(), ..run };
        assert_eq!(simulated.find_fault(&Report::default()), None);
    }

    #[test]
    fn the_next_run_keeps_what_this_run_was_given() {
        let run = HowRun { tool: "t".into(), program: "p".into(), ..HowRun::default() };
        let preloaded = HowRun { preload: Some("a.preload".into()), hangs_end: true, ..run.clone() };
        let cure = preloaded.cure(&Report::default(), false).to_string();
        assert!(cure.contains("  t --on-hang abort --record late.preload --preload a.preload p\n  t --preload late.preload p"), "{cure}");
        let records = HowRun { record: Some("b.preload".into()), ..run };
        let cure = records.cure(&Report::default(), false);
        assert!(cure.to_string().ends_with("\n  t --preload b.preload p"), "{cure}");
        assert_eq!(cure.commands, ["t --preload b.preload p"]);
    }
}

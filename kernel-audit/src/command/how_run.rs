//! How a program was run: the words for commands that run it again.

use std::env;

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
    /// Whether this run was given a preload.
    pub(crate) is_preloaded: bool,
}

impl HowRun {
    /// Returns how this command runs a program. `words` follow the file of this program on the command line.
    pub(crate) fn new(words: &str) -> Self {
        let own = env::args().next().unwrap_or_default();
        let tool = if words.is_empty() { own } else { format!("cargo{words}") };
        HowRun { tool, ..HowRun::default() }
    }

    /// Returns what ends a hang without a change to the program.
    pub(crate) fn cure(&self, report: &Report) -> String {
        const FILE: &str = "late.preload";
        let HowRun { tool, program, .. } = self;
        // A whole program can be one of the arguments.
        let program = if program.is_empty() { shortened(&report.command) } else { shortened(program) };
        let more = if self.is_preloaded { format!(" --preload {FILE}") } else { String::new() };
        let again = format!("  {tool} --preload {FILE} {program}");
        if let Some(file) = &self.record {
            return format!(
                "without a change to the program: load at the start what this run records\n  {tool} --preload {file} {program}"
            );
        }
        format!(
            "without a change to the program: record what is late, and load it at the start\n  {tool} --record {FILE}{more} {program}\n{again}"
        )
    }
}

/// Returns the command line of a program if it is short enough to be read, or else its beginning.
fn shortened(command: &str) -> String {
    const LONG: usize = 300;
    let line = command.lines().next().unwrap_or_default();
    match command.char_indices().nth(LONG) {
        None if line.len() == command.len() => command.to_owned(),
        _ => format!("{}..", line.chars().take(LONG).collect::<String>()),
    }
}

//! Reports a test that fails in some order, and writes the order to files.

use std::env;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use kernel_registry_schedule::{Record, Report};

use super::settings::Explored;

/// A test that fails in some order, or that can't be run.
#[derive(Clone, Debug)]
pub(super) struct Failed(String);

impl Failed {
    pub(super) fn new(words: String) -> Self {
        Failed(words)
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Self {
        Failed(format!("the test can't be explored: {error}"))
    }
}

/// Writes the files of a failing schedule, and makes the report.
pub(super) fn failed(name: Option<&str>, report: &Report<'_>) -> Failed {
    let files = base(name).and_then(|base| report.write(&base));
    Failed(match files {
        Ok([schedule, picture]) => {
            let test = name.map_or_else(|| "the program".to_owned(), |name| format!("`cargo test {name}`"));
            format!(
                "{report}\n{} shows it. KERNEL_REGISTRY_SCHEDULE={} repeats it in {test}.",
                picture.display(),
                schedule.display()
            )
        }
        Err(error) => format!("{report}\nIts schedule can't be written: {error}"),
    })
}

/// Reports a schedule that was repeated, and fails.
pub(super) fn repeated(file: &Path, record: &Record) -> Failed {
    Failed(format!("{}\nIt fails in the order of `{}`.", record.reason(), file.display()))
}

/// Returns the path of the files of a failing schedule, without their endings.
fn base(name: Option<&str>) -> io::Result<PathBuf> {
    let program = env::current_exe()?;
    let program = program.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let name = name.map_or(program, |name| name.replace("::", "-"));
    Ok(folder()?.join(name))
}

/// Returns the folder for schedules: in that of the build if the program is in one.
fn folder() -> io::Result<PathBuf> {
    let program = env::current_exe()?;
    let build = program.ancestors().find(|folder| folder.file_name().is_some_and(|name| name == "target"));
    let folder =
        build.map_or_else(|| env::temp_dir().join("kernel-registry"), Path::to_path_buf).join("schedules");
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// Writes a result for the process that has asked for it.
pub(super) fn to_text(result: &Result<Explored, Failed>) -> String {
    match result {
        Ok(Explored { schedules, is_complete, words }) => {
            format!("explored {schedules} {is_complete} {words}")
        }
        Err(Failed(words)) => format!("failed {words}"),
    }
}

/// Reads such a result.
pub(super) fn from_text(text: &str) -> Result<Explored, Failed> {
    let read = || {
        let mut words = text.strip_prefix("explored ")?.splitn(3, ' ');
        let (schedules, is_complete) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        Some(Explored { schedules, is_complete, words: words.next()?.to_owned() })
    };
    read().ok_or_else(|| Failed(text.strip_prefix("failed ").unwrap_or(text).to_owned()))
}

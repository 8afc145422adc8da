//! Checks the options of a run before the program runs, which can take hours. Finds the first option that asks about
//! driver calls.

use std::env;
use std::ffi::OsString;

use kernel_registry_command::terminal;

use crate::command::cli::Run;
use crate::command::failure::Failure;

/// Options of the audit that few programs have. Behind the program they are likely a mistake.
const OWN: [&str; 10] = [
    "--record",
    "--records",
    "--preload",
    "--preload-at",
    "--after-ready",
    "--ready-after",
    "--ready-file",
    "--first",
    "--hang-after",
    "--on-hang",
];

pub(crate) fn check(options: &Run) -> Result<(), Failure> {
    if let Some(file) = &options.ready_file {
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
            return Err(Failure::NoFolderOfMark { folder: folder.to_owned() });
        }
    }
    let arguments: Vec<_> = env::args_os().collect();
    if let Some(option) = behind_program(&arguments, &options.command) {
        terminal::say(format_args!(
            "note: `{option}` stands behind the program, so it is the program's: options of the audit come before it. With `--` before the program \
             this note goes"
        ));
    }
    Ok(())
}

/// Returns an option of the audit among the program's arguments. Behind `--` the option is meant for the program.
fn behind_program(arguments: &[OsString], command: &[OsString]) -> Option<&'static str> {
    let before = arguments.len().checked_sub(command.len() + 1)?;
    let own = command.iter().skip(1).find_map(|argument| {
        let name = argument.to_str()?.split('=').next();
        OWN.into_iter().find(|own| name == Some(own))
    });
    own.filter(|_| arguments[before] != "--")
}

/// Returns the first option that asks about driver calls, which a run without calls cannot answer.
pub(crate) fn asks(options: &Run) -> Option<&'static str> {
    let asked = [
        ("--record", options.reports.record.is_some()),
        ("--preload", options.preload.is_some()),
        ("--after-ready", options.after_ready != "report"),
        ("--ready-after", options.ready_after.is_some()),
        ("--ready-file", options.ready_file.is_some()),
        ("--first", options.first.is_some()),
        ("--on-hang", options.on_hang != "report"),
    ];
    asked.into_iter().find(|(_, is_asked)| *is_asked).map(|(option, _)| option)
}

/// Returns whether the program runs whatever happens to the audit. A preload makes a service faster; without one the service must
/// start all the same.
pub(crate) fn fails_open(options: &Run) -> bool {
    options.preload.is_some() && !options.reports.fail_on_findings
}

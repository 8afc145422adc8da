//! Begins a command by parsing its arguments, and ends it with an exit code.

use std::env;
use std::error::Error;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{self, ExitCode};

use clap::Parser;
use kernel_registry_format::Printable;

use crate::failure::with_causes;
use crate::terminal;

/// Parses the command line, or prints what is wrong with it and ends the process. The message has colours, unless a
/// terminal would obey something in the arguments.
pub fn parse<P: Parser>(arguments: Vec<OsString>) -> P {
    let is_printable = |argument: &OsString| {
        let text = argument.to_string_lossy();
        Printable(&text).to_string() == text
    };
    let are_printable = arguments.iter().all(is_printable);
    P::try_parse_from(arguments).unwrap_or_else(|error| {
        if are_printable {
            error.exit();
        }
        terminal::say(error.render());
        process::exit(error.exit_code())
    })
}

/// Prints why a command failed, with all causes. Returns the exit code. For a failure, `code` returns it.
pub fn finish<F: Error>(outcome: Result<(), F>, code: impl FnOnce(&F) -> u8) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            terminal::say(format_args!("error: {}", with_causes(&failure)));
            ExitCode::from(code(&failure))
        }
    }
}

/// Returns the cargo that runs this command, or else the name `cargo`, to be found on the path.
pub fn cargo() -> PathBuf {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into()).into()
}

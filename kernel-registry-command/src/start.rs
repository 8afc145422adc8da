//! The start and the end of a command: parses its arguments, and returns its exit code.

use std::env;
use std::error::Error;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{self, ExitCode};

use clap::Parser;
use kernel_registry_format::Printable;

use crate::failure::with_causes;
use crate::terminal;

/// Parses the command line, or prints an error and ends the process. The message has colors, unless the
/// arguments contain control characters.
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

/// Prints why a command failed, with all causes, and returns the exit code, which is `code`'s for a failure.
pub fn finish<F: Error>(outcome: Result<(), F>, code: impl FnOnce(&F) -> u8) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            terminal::say(format_args!("error: {}", with_causes(&failure)));
            ExitCode::from(code(&failure))
        }
    }
}

/// Returns the cargo that runs this command, or else `cargo`, from the path.
pub fn cargo() -> PathBuf {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into()).into()
}

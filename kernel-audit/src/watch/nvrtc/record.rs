//! The events of what NVRTC compiles, and of what is given back in its place.

use std::ffi::{c_int, c_void};

use super::key::Parts;
use super::library::Nvrtc;
use crate::kept::Kept;
use crate::record::Kind;
use crate::watch::caller;
use crate::watch::record::recording::{self, NewEvent, now, write_event};
use crate::watch::record::slots::thread;

/// A call of `nvrtcCompileProgram`.
pub(super) struct Compilation<'a> {
    pub(super) nvrtc: &'a Nvrtc,
    pub(super) parts: &'a Parts,
    pub(super) options: &'a [&'a [u8]],
    pub(super) begun: u64,
    pub(super) hook: *const c_void,
}

impl Compilation<'_> {
    /// What people know the program by: the name that its author gave it, or else the first that it was asked for.
    pub(super) fn name(&self) -> String {
        let given = self.parts.name.as_deref().filter(|name| !name.is_empty() && *name != b"default_program");
        let name = given.or_else(|| self.parts.names.first().map(|name| &**name));
        String::from_utf8_lossy(name.unwrap_or(b"default_program")).into_owned()
    }

    /// The compiler, and the options that say for what it compiles.
    fn describe(&self) -> String {
        let version =
            self.nvrtc.version().map_or(String::new(), |(major, minor)| format!(" {major}.{minor}"));
        let options = self.options.iter().map(|option| String::from_utf8_lossy(option));
        let architecture = options.into_iter().find(|option| option.contains("arch="));
        let architecture =
            architecture.and_then(|option| Some(format!(" for {}", option.split_once('=')?.1)));
        format!("NVRTC{version}{}, text of {} bytes", architecture.unwrap_or_default(), self.parts.length)
    }
}

/// Records a call: with the result that was given back, or with what else there is to say of it, such as why its result cannot be kept.
pub(super) fn record(of: &Compilation<'_>, given: Result<&Kept, &str>, answer: c_int, size: u64) {
    let took = now() - of.begun;
    let caller = caller::find(of.hook);
    let kind = if given.is_ok() { Kind::Kept } else { Kind::Compile };
    let key = given.map_or_else(
        |words| words.strip_prefix("key ").unwrap_or_default().to_owned(),
        |kept| kept.key.to_string(),
    );
    let remedy = given.err().filter(|_| key.is_empty()).unwrap_or_default();
    write_event(NewEvent {
        kind,
        call: "nvrtcCompileProgram",
        thread: thread(),
        subject: &of.name(),
        image: &of.describe(),
        origin: &key,
        bytes: size,
        begun: of.begun,
        took,
        result: answer as u32,
        is_finding: kind == Kind::Compile && recording::is_ready(),
        remedy,
        library: &caller.library,
        caller: &caller.name,
        text: &caller.stack,
        ..NewEvent::default()
    });
}

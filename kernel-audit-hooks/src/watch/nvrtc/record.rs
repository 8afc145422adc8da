//! Events for compilations by NVRTC, and for results from the cache.

use std::ffi::{c_int, c_void};

use super::library::Nvrtc;
use super::programs;
use crate::kept::{Cached, Digest};
use crate::record::{Kind, Program, Subject};
use crate::watch::caller;
use crate::watch::record::new_event::NewEvent;
use crate::watch::record::recording::{self, now, write_event};
use crate::watch::record::slots::thread;

/// A call of `nvrtcCompileProgram`.
pub(super) struct Call<'a> {
    pub(super) nvrtc: &'a Nvrtc,
    /// `None` if the program was created by a function without a hook.
    pub(super) program: Option<&'a programs::Program>,
    pub(super) options: &'a [&'a [u8]],
    pub(super) begun: u64,
    pub(super) hook: *const c_void,
}

/// How a call ended.
pub(super) enum Outcome<'a> {
    Served(&'a Cached),
    /// NVRTC compiled, and the result was stored: its key and size.
    Cached(Digest, u64),
    /// NVRTC compiled. Says why the result wasn't stored, or why none was served.
    Compiled(&'a str),
}

impl Call<'_> {
    /// Returns a name for people: the program's, or else its first name expression.
    pub(super) fn name(&self) -> String {
        let input = self.program.and_then(|program| program.input.as_ref().ok());
        let own = self.program.and_then(|program| program.name.as_deref());
        let own = own.filter(|name| !name.is_empty() && *name != b"default_program");
        let name = own.or_else(|| input.and_then(|input| input.names.first()).map(|name| &**name));
        String::from_utf8_lossy(name.unwrap_or(b"default_program")).into_owned()
    }

    /// Returns the architecture that the program is compiled for, if an option names it.
    fn architecture(&self) -> String {
        let mut options = self.options.iter().map(|option| String::from_utf8_lossy(option));
        let option = options.find(|option| option.contains("arch="));
        option.and_then(|option| Some(option.split_once('=')?.1.to_owned())).unwrap_or_default()
    }

    /// Records the call, which ended at `ended`.
    pub(super) fn record(&self, outcome: &Outcome<'_>, answer: c_int, ended: u64) {
        let caller = caller::find(self.hook);
        let input = self.program.and_then(|program| program.input.as_ref().ok());
        let (kind, key, result_bytes, reason) = match *outcome {
            Outcome::Served(cached) => (Kind::Kept, Some(cached.key), cached.size(), ""),
            Outcome::Cached(key, bytes) => (Kind::Compile, Some(key), bytes, ""),
            Outcome::Compiled(why) => (Kind::Compile, None, 0, why),
        };
        write_event(NewEvent {
            kind,
            call: "nvrtcCompileProgram",
            thread: thread(),
            subject: Subject::Program(Program {
                name: &*self.name(),
                key: &*key.map(|key| key.to_string()).unwrap_or_default(),
                architecture: &*self.architecture(),
                nvrtc: self.nvrtc.version().map_or(0, |(major, minor)| (major * 100 + minor) as u16),
                text_bytes: input.map_or(0, |input| input.source.text.len() as u64),
                result_bytes,
            }),
            begun: self.begun,
            took: ended - self.begun,
            result: answer as u32,
            is_finding: kind == Kind::Compile && recording::is_ready(),
            reason,
            library: &caller.library,
            caller: &caller.name,
            stack: &caller.stack,
            ..NewEvent::default()
        });
    }

    /// Records the call as ending now.
    pub(super) fn record_now(&self, outcome: &Outcome<'_>, answer: c_int) {
        self.record(outcome, answer, now());
    }
}

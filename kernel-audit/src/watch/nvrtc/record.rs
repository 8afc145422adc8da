//! The events of what NVRTC compiles, and of what programs are given instead.

use std::ffi::{c_int, c_void};

use super::library::Nvrtc;
use super::programs::Program as Handed;
use crate::kept::{Digest, Kept};
use crate::record::{Kind, Program, Subject};
use crate::watch::caller;
use crate::watch::record::recording::{self, NewEvent, now, write_event};
use crate::watch::record::slots::thread;

/// A call of `nvrtcCompileProgram`.
pub(super) struct Call<'a> {
    pub(super) nvrtc: &'a Nvrtc,
    /// The program, if it is known.
    pub(super) program: Option<&'a Handed>,
    pub(super) options: &'a [&'a [u8]],
    pub(super) begun: u64,
    pub(super) hook: *const c_void,
}

/// How a call ended.
pub(super) enum Outcome<'a> {
    /// The program was given a kept result.
    Given(&'a Kept),
    /// NVRTC compiled, and the result is kept.
    Kept(Digest, u64),
    /// NVRTC compiled. The words say why the result isn't kept, or why none was given.
    Compiled(&'a str),
}

impl Call<'_> {
    /// Returns what people know the program by: the name that its author gave it, or else the first that it was asked for.
    pub(super) fn name(&self) -> String {
        let parts = self.program.and_then(|program| program.parts.as_ref().ok());
        let given = parts.and_then(|parts| parts.source.name.as_deref());
        let given = given.filter(|name| !name.is_empty() && *name != b"default_program");
        let name = given.or_else(|| parts.and_then(|parts| parts.names.first()).map(|name| &**name));
        String::from_utf8_lossy(name.unwrap_or(b"default_program")).into_owned()
    }

    /// Returns the architecture that the program is compiled for, if an option names it.
    fn architecture(&self) -> String {
        let mut options = self.options.iter().map(|option| String::from_utf8_lossy(option));
        let option = options.find(|option| option.contains("arch="));
        option.and_then(|option| Some(option.split_once('=')?.1.to_owned())).unwrap_or_default()
    }

    /// Records the call, which took until `ended`.
    pub(super) fn record(&self, outcome: &Outcome<'_>, answer: c_int, ended: u64) {
        let caller = caller::find(self.hook);
        let parts = self.program.and_then(|program| program.parts.as_ref().ok());
        let (kind, key, result_bytes, reason) = match *outcome {
            Outcome::Given(kept) => (Kind::Kept, Some(kept.key), kept.size(), ""),
            Outcome::Kept(key, bytes) => (Kind::Compile, Some(key), bytes, ""),
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
                text_bytes: parts.map_or(0, |parts| parts.source.text.len() as u64),
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

    /// Records a call that ends now.
    pub(super) fn record_now(&self, outcome: &Outcome<'_>, answer: c_int) {
        self.record(outcome, answer, now());
    }
}

//! The events of what NVRTC compiles, and of what programs are given instead.

use std::ffi::{c_int, c_void};

use super::library::Nvrtc;
use super::programs::Program;
use crate::kept::{Digest, Kept};
use crate::record::Kind;
use crate::watch::caller;
use crate::watch::record::recording::{self, NewEvent, now, write_event};
use crate::watch::record::slots::thread;

/// A call of `nvrtcCompileProgram`.
pub(super) struct Call<'a> {
    pub(super) nvrtc: &'a Nvrtc,
    /// The program, if it is known.
    pub(super) program: Option<&'a Program>,
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

    /// Returns the compiler, and the options that say for what it compiles.
    fn describe(&self) -> String {
        let version =
            self.nvrtc.version().map_or(String::new(), |(major, minor)| format!(" {major}.{minor}"));
        let options = self.options.iter().map(|option| String::from_utf8_lossy(option));
        let architecture = options.into_iter().find(|option| option.contains("arch="));
        let architecture =
            architecture.and_then(|option| Some(format!(" for {}", option.split_once('=')?.1)));
        let parts = self.program.and_then(|program| program.parts.as_ref().ok());
        let text = parts.map(|parts| format!(", text of {} bytes", parts.source.text.len()));
        format!("NVRTC{version}{}{}", architecture.unwrap_or_default(), text.unwrap_or_default())
    }

    /// Records the call, which took until `ended`.
    pub(super) fn record(&self, outcome: &Outcome<'_>, answer: c_int, ended: u64) {
        let caller = caller::find(self.hook);
        let (kind, key, bytes, remedy) = match *outcome {
            Outcome::Given(kept) => (Kind::Kept, Some(kept.key), kept.size(), ""),
            Outcome::Kept(key, bytes) => (Kind::Compile, Some(key), bytes, ""),
            Outcome::Compiled(why) => (Kind::Compile, None, 0, why),
        };
        write_event(NewEvent {
            kind,
            call: "nvrtcCompileProgram",
            thread: thread(),
            subject: &self.name(),
            image: &self.describe(),
            origin: &key.map(|key| key.to_string()).unwrap_or_default(),
            bytes,
            begun: self.begun,
            took: ended - self.begun,
            result: answer as u32,
            is_finding: kind == Kind::Compile && recording::is_ready(),
            remedy,
            library: &caller.library,
            caller: &caller.name,
            text: &caller.stack,
            ..NewEvent::default()
        });
    }

    /// Records a call that ends now.
    pub(super) fn record_now(&self, outcome: &Outcome<'_>, answer: c_int) {
        self.record(outcome, answer, now());
    }
}

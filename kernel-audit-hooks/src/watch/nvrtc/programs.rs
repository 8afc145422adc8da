//! The live `nvrtcProgram`s, each with its input and the cached result that it was served, if any.

use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::sync::Arc;

use super::decoder::Decoder;
use super::key::Input;
use crate::kept::Cached;
use crate::watch::process::locked::Locked;

/// `nvrtcProgram`, which is a pointer.
pub(super) type Handle = *mut c_void;

#[derive(Clone)]
pub(super) struct Program {
    /// The program's name, if it was given one.
    pub(super) name: Option<Vec<u8>>,
    /// The input, or why it's unknown.
    pub(super) input: Result<Input, &'static str>,
    /// The function of the caller that decodes its texts, if it has one.
    pub(super) decoder: Option<Arc<Decoder>>,
    /// Why the result of its next compilation can't be cached.
    pub(super) uncacheable: Option<&'static str>,
    pub(super) state: State,
    /// The result that it was served before NVRTC compiled it after all. It's kept because lowered names, which
    /// the caller may hold, must stay valid until the program is destroyed.
    pub(super) earlier: Option<Arc<Served>>,
}

/// The stage that a program is in.
#[derive(Clone)]
pub(super) enum State {
    New,
    /// NVRTC has compiled it.
    Compiled,
    /// It was served from the cache. NVRTC hasn't compiled it.
    Served(Arc<Served>),
}

/// The cached result that a program was served.
pub(super) struct Served {
    pub(super) cached: Cached,
    /// The lowered names, terminated by zeros: the program gets pointers to them.
    pub(super) lowered: Vec<CString>,
    /// The options of the compilation that was skipped, decoded.
    pub(super) options: Vec<CString>,
}

/// All programs, by handle.
static ALL: Locked<HashMap<usize, Program>> = Locked::new();

pub(super) fn add(
    handle: Handle,
    name: Option<Vec<u8>>,
    input: Result<Input, &'static str>,
    decoder: Option<Arc<Decoder>>,
) {
    let program = Program { name, input, decoder, uncacheable: None, state: State::New, earlier: None };
    ALL.with(|all| all.insert(handle.addr(), program));
}

/// Removes a program. Call this before NVRTC destroys it, because another thread can get the same handle
/// right afterwards.
pub(super) fn remove(handle: Handle) -> Option<Program> {
    ALL.with(|all| all.remove(&handle.addr()))
}

/// Returns a program, unless it was created by a function without a hook.
pub(super) fn find(handle: Handle) -> Option<Program> {
    ALL.with(|all| all.get(&handle.addr()).cloned())
}

/// Returns the result that a program was served, unless NVRTC has compiled the program since.
pub(super) fn served(handle: Handle) -> Option<Arc<Served>> {
    ALL.with(|all| match &all.get(&handle.addr())?.state {
        State::Served(served) => Some(served.clone()),
        State::New | State::Compiled => None,
    })
}

/// Changes a program, if it's known.
pub(super) fn change(handle: Handle, act: impl FnOnce(&mut Program)) {
    ALL.with(|all| all.get_mut(&handle.addr()).map(act));
}

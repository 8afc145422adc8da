//! The programs that NVRTC has made and not destroyed: what each is made of, and the result that it was given.

use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::sync::Arc;

use super::key::Parts;
use crate::kept::Kept;
use crate::watch::process::locked::Locked;

/// `nvrtcProgram`, which is a pointer.
pub(super) type Handle = *mut c_void;

/// A program.
#[derive(Clone)]
pub(super) struct Program {
    /// What it's made of, or why that isn't known.
    pub(super) parts: Result<Parts, &'static str>,
    /// Why its next result can't be kept.
    pub(super) why_not: Option<&'static str>,
    pub(super) state: State,
    /// What it was given before. Names stay until the program is destroyed.
    pub(super) earlier: Option<Arc<Given>>,
}

/// What became of a program.
#[derive(Clone)]
pub(super) enum State {
    New,
    /// NVRTC has compiled it.
    Compiled,
    /// It was given a kept result. NVRTC hasn't compiled it.
    Given(Arc<Given>),
}

/// A kept result that a program was given.
pub(super) struct Given {
    pub(super) kept: Kept,
    /// The lowered names as C has them: the program gets pointers to these.
    pub(super) lowered: Vec<CString>,
    /// The options with which it would have been compiled.
    pub(super) options: Vec<CString>,
}

/// All programs, by their handles.
static ALL: Locked<HashMap<usize, Program>> = Locked::new();

/// Adds a program.
pub(super) fn add(handle: Handle, parts: Result<Parts, &'static str>) {
    let program = Program { parts, why_not: None, state: State::New, earlier: None };
    ALL.with(|all| all.insert(handle.addr(), program));
}

/// Removes a program, before NVRTC destroys it: another thread may get the same handle right afterwards.
pub(super) fn remove(handle: Handle) -> Option<Program> {
    ALL.with(|all| all.remove(&handle.addr()))
}

/// Returns a program, unless it was made by a function that isn't known here.
pub(super) fn find(handle: Handle) -> Option<Program> {
    ALL.with(|all| all.get(&handle.addr()).cloned())
}

/// Returns what a program was given instead of compiling it.
pub(super) fn given(handle: Handle) -> Option<Arc<Given>> {
    ALL.with(|all| match &all.get(&handle.addr())?.state {
        State::Given(given) => Some(given.clone()),
        State::New | State::Compiled => None,
    })
}

/// Changes a program, if it's known.
pub(super) fn change(handle: Handle, act: impl FnOnce(&mut Program)) {
    ALL.with(|all| all.get_mut(&handle.addr()).map(act));
}

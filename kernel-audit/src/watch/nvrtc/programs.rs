//! The programs that NVRTC has made and not destroyed: what each is made of, and the result that was given back for it.

use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::sync::{Arc, Mutex, PoisonError};

use super::key::Parts;
use crate::kept::Kept;
use crate::watch::process::fork;

/// `nvrtcProgram`, which is a pointer.
pub(super) type Handle = *mut c_void;

/// A program.
#[derive(Clone)]
pub(super) struct Program {
    /// The number of the NVRTC that made it.
    pub(super) library: usize,
    pub(super) parts: Parts,
    /// What was given back in place of compiling it. NVRTC itself has no result then.
    pub(super) given: Option<Arc<Given>>,
}

/// A result, with the names as C has them: the program gets pointers to these, which are valid until it destroys the program.
pub(super) struct Given {
    pub(super) kept: Arc<Kept>,
    pub(super) lowered: Vec<CString>,
}

/// All of them. It is only used while no thread forks, so a child finds it as it was.
static ALL: Mutex<Option<HashMap<usize, Program>>> = Mutex::new(None);

fn with<T>(act: impl FnOnce(&mut HashMap<usize, Program>) -> T) -> T {
    fork::undivided(|| act(ALL.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default()))
}

/// Adds a program.
pub(super) fn add(handle: Handle, program: Program) {
    with(|all| all.insert(handle.addr(), program));
}

/// Removes a program, before NVRTC destroys it: another thread may get the same handle right afterwards.
pub(super) fn remove(handle: Handle) -> Option<Program> {
    with(|all| all.remove(&handle.addr()))
}

/// Finds a program, unless it was made before NVRTC's functions were found here.
pub(super) fn find(handle: Handle) -> Option<Program> {
    with(|all| all.get(&handle.addr()).cloned())
}

/// What was given back for a program.
pub(super) fn given(handle: Handle) -> Option<Arc<Given>> {
    with(|all| all.get(&handle.addr())?.given.clone())
}

/// Changes a program, if it is known.
pub(super) fn change(handle: Handle, act: impl FnOnce(&mut Program)) {
    with(|all| all.get_mut(&handle.addr()).map(act));
}

//! The programs that NVRTC has made and not destroyed: what each is made of, and the result that was given back for it.

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
    /// The number of the NVRTC that made it.
    pub(super) library: usize,
    pub(super) parts: Parts,
    /// Whether a function of the program can end its compilation.
    pub(super) has_callback: bool,
    /// What was given back in place of compiling it. NVRTC itself has no result then.
    pub(super) given: Option<Arc<Given>>,
    /// What was given back before: names stay until the program is destroyed.
    pub(super) earlier: Vec<Arc<Given>>,
}

/// A result, with the names as C has them: the program gets pointers to these.
pub(super) struct Given {
    pub(super) kept: Arc<Kept>,
    pub(super) lowered: Vec<CString>,
}

/// All programs, by their handles. A forked child has them, too.
static ALL: Locked<HashMap<usize, Program>> = Locked::new();

/// Adds a program.
pub(super) fn add(handle: Handle, program: Program) {
    ALL.lock_inherited().insert(handle.addr(), program);
}

/// Removes a program, before NVRTC destroys it: another thread may get the same handle right afterwards.
pub(super) fn remove(handle: Handle) -> Option<Program> {
    ALL.lock_inherited().remove(&handle.addr())
}

/// Finds a program, unless it was made before NVRTC's functions were found here.
pub(super) fn find(handle: Handle) -> Option<Program> {
    ALL.lock_inherited().get(&handle.addr()).cloned()
}

/// The number of the NVRTC that made a program.
pub(super) fn library_of(handle: Handle) -> Option<usize> {
    Some(ALL.lock_inherited().get(&handle.addr())?.library)
}

/// What was given back for a program.
pub(super) fn given(handle: Handle) -> Option<Arc<Given>> {
    ALL.lock_inherited().get(&handle.addr())?.given.clone()
}

/// Changes a program, if it is known.
pub(super) fn change(handle: Handle, act: impl FnOnce(&mut Program)) {
    ALL.lock_inherited().get_mut(&handle.addr()).map(act);
}

//! The outputs of a program that NVRTC has compiled.

use std::ffi::{CStr, CString, c_int};
use std::ptr;

use super::library::{Data, LOWERED, Lowered, Nvrtc, PARTS, RESULTS, Size};
use super::programs::Handle;
use crate::kept::Part;

/// NVRTC's answer for success.
pub(super) const SUCCESS: c_int = 0;

/// Marks a function that this NVRTC doesn't export.
pub(super) const MISSING: u32 = u32::MAX;

/// The outputs of a compilation, such as PTX and log, and pairs of name expression and lowered name.
#[derive(PartialEq)]
pub(super) struct Output {
    pub(super) parts: Vec<Part>,
    pub(super) names: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Reads the outputs of a compiled program. `None` if NVRTC doesn't know one of the names.
pub(super) fn read_output(nvrtc: &Nvrtc, program: Handle, names: &[Vec<u8>]) -> Option<Output> {
    let mut parts = Vec::with_capacity(PARTS);
    for index in 0..PARTS {
        // SAFETY: these are their types.
        let functions = unsafe {
            nvrtc.function::<Size>(RESULTS + 2 * index).zip(nvrtc.function::<Data>(RESULTS + 2 * index + 1))
        };
        let Some((get_size, get)) = functions else {
            parts.push(Part { answer: MISSING, bytes: Vec::new() });
            continue;
        };
        let mut size = 0;
        // SAFETY: the call stores a number.
        let mut answer = unsafe { get_size(program, &mut size) };
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(size).ok()?;
        bytes.resize(size, 0);
        if answer == SUCCESS && size > 0 {
            // SAFETY: the buffer has `size` bytes.
            answer = unsafe { get(program, bytes.as_mut_ptr().cast()) };
        }
        parts.push(Part { answer: answer as u32, bytes });
    }
    // SAFETY: this is its type.
    let lowered = unsafe { nvrtc.function::<Lowered>(LOWERED) }?;
    let mut pairs = Vec::with_capacity(names.len());
    for name in names {
        let (text, mut found) = (CString::new(name.clone()).ok()?, ptr::null());
        // SAFETY: both texts end with a zero. The stored one is valid until the program is destroyed.
        let found = unsafe {
            let answer = lowered(program, text.as_ptr(), &mut found);
            (answer == SUCCESS && !found.is_null()).then(|| CStr::from_ptr(found).to_bytes().to_vec())
        };
        pairs.push((name.clone(), found?));
    }
    Some(Output { parts, names: pairs })
}

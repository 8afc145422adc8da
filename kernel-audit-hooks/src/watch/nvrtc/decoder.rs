//! Programs whose texts NVRTC decodes by a function of the caller: those of cuDNN's attention.
//!
//! `__nvrtcCPEx` isn't documented. It takes the arguments of `nvrtcCreateProgram` and a list of further ones,
//! each with a kind. From its calls, with NVRTC 12.0 to 13.5: kind 1 is a function and kind 2 its second
//! argument, and any other kind is an error. NVRTC calls the function for each header and the text when the
//! program is created, and for each option when it's compiled, until an answer is null. It copies headers
//! and text at once, reads the options after the last call, and frees no answer.
//!
//! The hooks pass NVRTC a function of their own, which calls the caller's. So they know the same texts as
//! NVRTC. Options are needed before NVRTC compiles, so the hooks decode them first, and NVRTC gets these
//! answers: the caller's function is called as often as without the hooks, with the same texts, in the same
//! order and thread. Encoded texts need not end with a zero, so only the caller's function reads them.
//! Decoded texts and options stay in memory; of a result whose log may quote them, nothing is kept.

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem;
use std::ptr;
use std::slice;
use std::sync::Arc;

use crate::watch::process::locked::Locked;

/// The kinds of further arguments.
const FUNCTION: c_int = 1;
const ARGUMENT: c_int = 2;

/// Returns a decoded text. It has two arguments as far as observed; the others are passed on.
/// It unwinds through NVRTC and the hooks if the thread ends in it.
type Function =
    unsafe extern "C-unwind" fn(*const c_char, *const c_void, usize, usize, usize, usize) -> *const c_char;

/// A caller's function for its program.
pub(super) struct Decoder {
    function: Function,
    argument: *const c_void,
}

/// The texts of a decoder.
#[derive(Default)]
struct Texts {
    /// The function's results in the order of NVRTC's calls, each with the address of its encoded text.
    observed: Vec<(usize, Option<Vec<u8>>)>,
    /// Results that replace NVRTC's next calls. Each is used once.
    ready: Vec<Ready>,
}

/// The texts of each decoder, by its address.
static TEXTS: Locked<HashMap<usize, Texts>> = Locked::new();

struct Ready {
    /// The addresses of the encoded text and of the answer.
    from: usize,
    to: usize,
    is_given: bool,
}

// SAFETY: the argument is only passed on, by a thread in which NVRTC would pass it.
unsafe impl Send for Decoder {}
// SAFETY: as above; the rest is locked.
unsafe impl Sync for Decoder {}

impl Decoder {
    /// Reads the further arguments of a program. `None` if there's no function, or something unknown.
    ///
    /// # Safety
    ///
    /// The arguments are those of `__nvrtcCPEx`.
    pub(super) unsafe fn read(count: usize, kinds: usize, values: usize) -> Option<Arc<Self>> {
        let count = count as u32 as usize;
        let kinds = ptr::with_exposed_provenance::<c_int>(kinds);
        let values = ptr::with_exposed_provenance::<*const c_void>(values);
        let are_null = kinds.is_null() || values.is_null();
        if are_null || !kinds.is_aligned() || !values.is_aligned() || !(1..=2).contains(&count) {
            return None;
        }
        // SAFETY: NVRTC reads as many of both.
        let (kinds, values) =
            unsafe { (slice::from_raw_parts(kinds, count), slice::from_raw_parts(values, count)) };
        let value = |kind| kinds.iter().position(|its| *its == kind).map(|index| values[index]);
        let function = value(FUNCTION).filter(|function| !function.is_null())?;
        if count == 2 && value(ARGUMENT).is_none() {
            return None;
        }
        Some(Arc::new(Decoder {
            // SAFETY: NVRTC calls it with this signature. Surplus arguments are in registers that it doesn't read.
            function: unsafe { mem::transmute::<*const c_void, Function>(function) },
            argument: value(ARGUMENT).unwrap_or(ptr::null()),
        }))
    }

    /// Returns the further arguments for NVRTC: kinds and values.
    pub(super) fn arguments(self: &Arc<Self>) -> ([c_int; 2], [*const c_void; 2]) {
        ([FUNCTION, ARGUMENT], [decode as *const c_void, Arc::as_ptr(self).cast()])
    }

    /// Returns what the function has returned for a text, once for each call.
    pub(super) fn take(&self, text: *const c_char) -> Option<Vec<u8>> {
        self.with(|texts| {
            let index = texts.observed.iter().position(|(from, _)| *from == text.addr())?;
            texts.observed.remove(index).1
        })
    }

    /// Decodes the options of a compilation. NVRTC gets these answers. `None` if one is null, where NVRTC stops.
    ///
    /// # Safety
    ///
    /// NVRTC would decode these texts now.
    pub(super) unsafe fn options(&self, texts: &[*const c_char]) -> Option<Vec<CString>> {
        let mut answers = Vec::with_capacity(texts.len());
        for text in texts {
            // SAFETY: as the caller promises.
            let answer = unsafe { (self.function)(*text, self.argument, 0, 0, 0, 0) };
            answers.push(answer);
            if answer.is_null() {
                break;
            }
        }
        self.give(texts.iter().copied().zip(answers.iter().copied()));
        let read = |answer: *const c_char| {
            // SAFETY: the function has returned a text that ends with a zero, or null.
            (!answer.is_null()).then(|| unsafe { CStr::from_ptr(answer) }.to_owned())
        };
        answers.into_iter().map(read).collect()
    }

    /// Lets NVRTC have answers in the next compilation: pairs of an encoded text and the answer.
    pub(super) fn give(&self, answers: impl Iterator<Item = (*const c_char, *const c_char)>) {
        let ready = |(from, to): (*const c_char, *const c_char)| Ready {
            from: from.addr(),
            to: to.expose_provenance(),
            is_given: false,
        };
        let ready = answers.map(ready).collect();
        self.with(|texts| *texts = Texts { ready, ..Texts::default() });
    }

    fn with<R>(&self, act: impl FnOnce(&mut Texts) -> R) -> R {
        TEXTS.with(|all| act(all.entry(ptr::from_ref(self).addr()).or_default()))
    }
}

impl Drop for Decoder {
    fn drop(&mut self) {
        TEXTS.with(|all| drop(all.remove(&ptr::from_ref(self).addr())));
    }
}

/// The function that NVRTC calls.
unsafe extern "C-unwind" fn decode(
    text: *const c_char,
    decoder: *const c_void,
    three: usize,
    four: usize,
    five: usize,
    six: usize,
) -> *const c_char {
    // SAFETY: NVRTC passes the argument that it was given, and only until the program is destroyed.
    let decoder = unsafe { &*decoder.cast::<Decoder>() };
    let ready = decoder.with(|texts| {
        let found = texts.ready.iter_mut().find(|ready| !ready.is_given && ready.from == text.addr())?;
        found.is_given = true;
        Some(found.to)
    });
    if let Some(ready) = ready {
        return ptr::with_exposed_provenance(ready);
    }
    // SAFETY: as without the hooks.
    let answer = unsafe { (decoder.function)(text, decoder.argument, three, four, five, six) };
    // SAFETY: the function returns a text that ends with a zero, or null.
    let decoded = (!answer.is_null()).then(|| unsafe { CStr::from_ptr(answer) }.to_bytes().to_vec());
    decoder.with(|texts| texts.observed.push((text.addr(), decoded)));
    answer
}

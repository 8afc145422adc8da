//! Calls that are late once the program is ready: recorded, or refused.

use cudarc::driver::sys::CUresult;

use super::name;
use crate::record::Kind;
use crate::watch::recording::{Happening, now};
use crate::watch::watched::{Call, during, event, loading, slow};
use crate::watch::{known, ready};

/// What a call loads or sets.
#[derive(Clone, Copy)]
pub(super) struct What<'a> {
    pub(super) kind: Kind,
    pub(super) subject: &'a str,
    pub(super) image: &'a str,
    pub(super) bytes: u64,
}

/// Makes the call, unless it is refused, with these words. Returns the answer, and who called.
pub(super) fn call(
    call: Call,
    what: What<'_>,
    words: impl FnOnce() -> String,
    real: impl FnOnce() -> CUresult,
) -> (CUresult, String) {
    let begun = now();
    if let Some(refused) = ready::refusal(words) {
        let caller = event(happening(call, What { kind: Kind::Refused, ..what }, begun, 0, refused));
        ready::end();
        return (refused, caller);
    }
    let result = if what.kind == Kind::Load { loading(call, real) } else { during(call, real) };
    let took = now() - begun;
    // What fails has loaded no kernel, but it may have waited.
    let failed = what.kind == Kind::Load && result != CUresult::CUDA_SUCCESS;
    if failed && took < slow() {
        return (result, String::new());
    }
    let what = if failed { What { kind: Kind::Slow, ..what } } else { what };
    let caller = event(happening(call, what, begun, took, result));
    (result, caller)
}

/// The message for a refused load of a kernel.
pub(super) fn words(hook: u32, kernel: &str) -> String {
    format!("`{}` of kernel `{kernel}`, which is not loaded; load it before the program is ready", name(hook))
}

/// Records that a call has loaded a kernel.
pub(super) fn loaded(call: Call, kernel: &str, begun: u64, result: CUresult) {
    let image = known::image_of(call.subject).unwrap_or_default();
    let what = What { kind: Kind::Load, subject: kernel, image: &image, bytes: 0 };
    event(happening(call, what, begun, now() - begun, result));
}

/// Records that a call which would load a kernel was refused.
pub(super) fn refused(call: Call, kernel: &str, result: CUresult) {
    let what = What { kind: Kind::Refused, subject: kernel, image: "", bytes: 0 };
    event(happening(call, what, now(), 0, result));
    ready::end();
}

fn happening<'a>(call: Call, what: What<'a>, begun: u64, took: u64, result: CUresult) -> Happening<'a> {
    let What { kind, subject, image, bytes } = what;
    Happening { kind, call, name: name(call.hook), subject, image, bytes, begun, took, result }
}

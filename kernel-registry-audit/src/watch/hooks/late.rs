//! Calls that load something or set a limit: recorded, and refused where they are late or would wait for a resident kernel.

use cudarc::driver::sys::CUresult;
use kernel_registry_format::OnWait;
use kernel_registry_format::rules::{self, Rule};

use crate::record::Kind;
use crate::watch::caller::Caller;
use crate::watch::hook::Call;
use crate::watch::recording::{Happening, now};
use crate::watch::say::say;
use crate::watch::section::{self, Beside};
use crate::watch::watched::{during, event, loading, slow};
use crate::watch::{known, ready, recording};

/// What a call loads or sets.
#[derive(Clone, Copy)]
pub(super) struct What<'a> {
    pub(super) kind: Kind,
    pub(super) subject: &'a str,
    pub(super) image: &'a str,
    pub(super) bytes: u64,
    /// Why it waits for what runs on the device, if it does.
    pub(super) rule: Option<&'static Rule>,
    /// What to do before the program is ready.
    pub(super) remedy: &'static str,
}

/// Makes the call, unless it is refused, with these words. Returns the answer, and who called.
pub(super) fn call(
    call: Call,
    what: What<'_>,
    words: impl FnOnce() -> String,
    real: impl FnOnce() -> CUresult,
) -> (CUresult, Caller) {
    let begun = now();
    let beside = what.rule.and_then(|rule| Some((rule, section::beside_stream(call.stream)?)));
    let resident = beside.as_ref().map_or("", |(_, beside)| &*beside.kernel);
    let happening = |what, took, result| Happening { resident, ..happening(call, what, begun, took, result) };
    match &beside {
        Some((rule, beside)) if beside.on_wait != OnWait::Report => {
            let refused = refusal(rule, beside, &words());
            return (refused, event(happening(What { kind: Kind::Refused, ..what }, 0, refused)));
        }
        _ => {}
    }
    if let Some(refused) = ready::refusal(words, what.remedy) {
        let caller = event(happening(What { kind: Kind::Refused, ..what }, 0, refused));
        ready::end();
        return (refused, caller);
    }
    let result = if what.kind == Kind::Load { loading(call, real) } else { during(call, real) };
    let took = now() - begun;
    // What fails has loaded no kernel, but it may have waited.
    let failed = what.kind == Kind::Load && result != CUresult::CUDA_SUCCESS;
    if failed && took < slow() {
        return (result, Caller::default());
    }
    let what = if failed { What { kind: Kind::Slow, ..what } } else { what };
    let caller = event(happening(what, took, result));
    (result, caller)
}

/// The answer to a call that is refused, once that was said.
pub(super) fn refusal(rule: &Rule, beside: &Beside, words: &str) -> CUresult {
    let (because, remedy) = (rule.because, rule.remedy_in(recording::uses_kernel_registry()));
    say(&format!("REFUSED while kernel `{}` stays: {words}: {because}. Remedy: {remedy}.", beside.kernel));
    CUresult::CUDA_ERROR_NOT_PERMITTED
}

/// What to do instead of a late load.
pub(super) const LOAD_BEFORE: &str = "load it before the program is ready";

/// The message for a refused load of a kernel.
pub(super) fn words(call: Call, kernel: &str) -> String {
    format!("`{}` of kernel `{kernel}`, which is not loaded", call.name())
}

/// Records that a call has loaded a kernel.
pub(super) fn loaded(call: Call, kernel: &str, begun: u64, result: CUresult) {
    let image = known::image_of(call.subject).unwrap_or_default();
    let rule = Some(&rules::LOAD);
    let what = What { kind: Kind::Load, subject: kernel, image: &image, bytes: 0, rule, remedy: "" };
    event(happening(call, what, begun, now() - begun, result));
}

/// Records that a call which would load a kernel was refused.
pub(super) fn refused(call: Call, kernel: &str, result: CUresult) {
    let rule = Some(&rules::LOAD);
    let what = What { kind: Kind::Refused, subject: kernel, image: "", bytes: 0, rule, remedy: "" };
    event(happening(call, what, now(), 0, result));
    ready::end();
}

fn happening<'a>(call: Call, what: What<'a>, begun: u64, took: u64, result: CUresult) -> Happening<'a> {
    let What { kind, subject, image, bytes, rule, .. } = what;
    let (name, resident) = (call.name(), "");
    Happening { kind, call, name, subject, image, bytes, begun, took, result, resident, rule }
}

//! Makes and records calls that load something or set a limit, and refuses such a call where it is late or would wait
//! for a resident kernel.

use cudarc::driver::sys::CUresult;
use kernel_registry_cuda::OnWait;
use kernel_registry_cuda::rules::{self, Rule};

use crate::causes::reader;
use crate::record::{Image, Kind, Subject};
use crate::watch::caller::Caller;
use crate::watch::events::{self, slow};
use crate::watch::fault;
use crate::watch::hang::waits;
use crate::watch::known::handles;
use crate::watch::process::say::say;
use crate::watch::record::call::Call;
use crate::watch::record::new_event::NewEvent;
use crate::watch::record::ready;
use crate::watch::record::recording::{self, now};
use crate::watch::record::slots::{self, during, during_load};
use crate::watch::section::{self, ActiveSection};

/// Makes a call that loads or sets something, unless the call is refused, and records it as `event`. `words` describe
/// the call for people, and `remedy` says what to do before the program is ready. Returns the result of the call, and
/// its caller.
pub(super) fn make_call(
    call: Call,
    event: NewEvent<'_>,
    remedy: &str,
    words: impl FnOnce() -> String,
    real: impl FnOnce() -> CUresult,
) -> (CUresult, Caller) {
    let begun = now();
    let section = event.rule.and_then(|rule| Some((rule, section::find_in_context_of(call.stream)?)));
    let resident = section.as_ref().map_or("", |(_, section)| &*section.kernel);
    let event = NewEvent { begun, resident, is_finding: section.is_some(), ..event };
    let record = |kind, took, resident, result| {
        events::record_event(call, NewEvent { kind, took, resident, result: result as u32, ..event })
    };
    if let Some((rule, section)) = &section
        && section.on_wait != OnWait::Report
    {
        let refused = refusal(rule, section, &words());
        return (refused, record(Kind::Refused, 0, resident, refused));
    }
    if let Some(refused) = ready::refusal(words, remedy) {
        let caller = record(Kind::Refused, 0, resident, refused);
        ready::end();
        return (refused, caller);
    }
    let sequence = slots::sequence();
    let result = if event.kind == Kind::Load { during_load(call, real) } else { during(call, real) };
    fault::noted(call, result);
    let took = now() - begun;
    let wait = if took < slow() { None } else { waits::take(slots::thread(), sequence) };
    let resident = wait.as_ref().filter(|_| section.is_none()).map_or(resident, |wait| &wait.kernel);
    if event.kind != Kind::Load || result == CUresult::CUDA_SUCCESS {
        return (result, record(event.kind, took, resident, result));
    }
    // A call that failed has loaded nothing, but may have waited.
    let caller = if took < slow() { Caller::default() } else { record(Kind::Slow, took, resident, result) };
    (result, caller)
}

/// Says that a call is refused, and returns the result of the call.
pub(super) fn refusal(rule: &Rule, section: &ActiveSection, words: &str) -> CUresult {
    let reader = reader("", recording::uses_kernel_registry());
    let (because, remedy) = (rule.because, rule.remedy_for(reader));
    say(&format!(
        "REFUSED while kernel `{}` is resident: {words}: {because}. Remedy: {remedy}.",
        section.kernel
    ));
    CUresult::CUDA_ERROR_NOT_PERMITTED
}

/// The remedy for a late load.
pub(super) const LOAD_BEFORE: &str = "load it before the program is ready";

/// Returns the message for a refused load of a kernel.
pub(super) fn describe(call: Call, kernel: &str) -> String {
    format!("`{}` of kernel `{kernel}`, which is not loaded", call.name())
}

/// Records that a call has loaded a kernel.
pub(super) fn record_loaded(call: Call, kernel: &str, begun: u64, result: CUresult) {
    let image = handles::image_of(call.subject);
    let (took, result) = (now() - begun, result as u32);
    events::record_event(call, NewEvent { begun, took, result, ..load_event(kernel, image.as_ref()) });
}

/// Records that a call was refused which would load a kernel, as `event` says.
pub(super) fn record_refused(call: Call, event: NewEvent<'_>, result: CUresult) {
    let (kind, result) = (Kind::Refused, result as u32);
    events::record_event(call, NewEvent { kind, begun: now(), result, ..event });
    ready::end();
}

/// Returns the event of a kernel's load.
pub(super) fn load_event<'a>(symbol: &'a str, image: Option<&'a Image>) -> NewEvent<'a> {
    let subject = Subject::Kernel { symbol, image: image.map(Image::as_ref) };
    NewEvent { kind: Kind::Load, subject, rule: Some(&rules::LOAD), ..NewEvent::default() }
}

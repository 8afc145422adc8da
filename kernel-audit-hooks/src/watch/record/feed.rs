//! Hands events to the program itself, for callbacks, counters and tests in any language. The program polls: a callback
//! would run in the middle of a driver call.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

use super::new_event::NewEvent;
use crate::record::Subject;
use crate::watch::process::locked::Locked;

/// The events that are kept for a program that polls too rarely.
const MOST: usize = 1024;

/// Whether the program has asked for events.
static IS_READ: AtomicBool = AtomicBool::new(false);

static FEED: Locked<Feed> = Locked::new();

#[derive(Default)]
struct Feed {
    /// The number of the latest event; the first is 1.
    latest: u64,
    events: VecDeque<Vec<u8>>,
}

/// Keeps an event for the program, if it reads events.
pub(super) fn add(event: &NewEvent<'_>) {
    if !IS_READ.load(Ordering::Relaxed) {
        return;
    }
    let bytes = encode(event);
    FEED.with(|feed| {
        feed.latest += 1;
        feed.events.push_back(bytes);
        if feed.events.len() > MOST {
            feed.events.pop_front();
        }
    });
}

/// Returns the texts of an event, each ended by a zero: kind, `1` for a finding, when it began and how long it took in
/// nanoseconds, thread, call, kernel, image or program, caller, library.
fn encode(event: &NewEvent<'_>) -> Vec<u8> {
    let kind: &str = event.kind.into();
    let (kernel, image) = match event.subject {
        Subject::Kernel { symbol, image } => (symbol, image.map(|image| image.to_string())),
        Subject::Image(image) => ("", Some(image.to_string())),
        Subject::Limit { limit, kernel, .. } => (kernel, Some(limit.as_str().to_owned())),
        Subject::Program(program) => ("", Some(program.name.to_owned())),
        _ => ("", None),
    };
    let numbers = [u64::from(event.is_finding), event.begun, event.took, event.thread.into()];
    let [is_finding, begun, took, thread] = numbers.map(|number| number.to_string());
    let image = image.unwrap_or_default();
    let texts =
        [kind, &is_finding, &begun, &took, &thread, event.call, kernel, &image, event.caller, event.library];
    texts.iter().flat_map(|text| text.bytes().filter(|byte| *byte != 0).chain([0])).collect()
}

/// Copies the first event whose number is larger than `after`, and returns its number, or 0 if there's none yet. Sets
/// `length` to the event's length; if `room` is smaller, nothing is copied. Events are kept from the first call on, and only the
/// last 1024.
///
/// # Safety
///
/// `to` has `room` bytes, and `length` is valid.
#[cfg_attr(feature = "export", unsafe(no_mangle))]
pub unsafe extern "C" fn kernel_registry_audit_event(
    after: u64,
    to: *mut u8,
    room: usize,
    length: &mut usize,
) -> u64 {
    IS_READ.store(true, Ordering::Relaxed);
    FEED.with(|feed| {
        let first = feed.latest - feed.events.len() as u64 + 1;
        let number = first.max(after.saturating_add(1));
        let Some(event) = usize::try_from(number - first).ok().and_then(|index| feed.events.get(index))
        else {
            return 0;
        };
        *length = event.len();
        if event.len() <= room {
            // SAFETY: the caller's promise.
            unsafe { to.copy_from_nonoverlapping(event.as_ptr(), event.len()) };
        }
        number
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Kind;

    #[test]
    fn a_program_reads_each_event_once_and_loses_the_oldest() {
        let next = |after| {
            let (mut bytes, mut length) = ([0; 256], 0);
            // SAFETY: the bytes are there.
            let number = unsafe { kernel_registry_audit_event(after, bytes.as_mut_ptr(), 256, &mut length) };
            (number, String::from_utf8(bytes[..length].to_vec()).unwrap())
        };
        let event = NewEvent {
            kind: Kind::Load,
            call: "cuLaunchKernel",
            subject: Subject::Kernel { symbol: "late", image: None },
            took: 7,
            is_finding: true,
            ..NewEvent::default()
        };
        add(&event);
        assert_eq!(next(0).0, 0, "events before the first call aren't kept");
        add(&event);
        let texts = ["load", "1", "0", "7", "0", "cuLaunchKernel", "late", "", "", "", ""].join("\0");
        assert_eq!(next(0), (1, texts));
        assert_eq!(next(1).0, 0);
        (0..MOST + 5).for_each(|_| add(&event));
        assert_eq!(next(1).0, 7);
        assert_eq!(next(MOST as u64 + 5).0, MOST as u64 + 6);
        // SAFETY: nothing is copied where there's no room.
        assert_eq!(unsafe { kernel_registry_audit_event(9, std::ptr::null_mut(), 0, &mut 0) }, 10);
    }
}

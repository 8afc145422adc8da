//! Defines the functions of green contexts. A green context has some of a device's multiprocessors.
//!
//! While a green context is current, streams can be created. Other functions that need a current context are not
//! simulated then.

use super::context::{release, retain};
use super::device::device;
use crate::driver::caller::arguments::{In, Out};
use crate::driver::config::device::Device;
use crate::driver::handles::Handle;
use crate::driver::launch::span::Span;
use crate::driver::report::failures::not_simulated;
use crate::driver::result::{Answer, Code};
use crate::driver::state::deadlock::wait_for_device;
use crate::driver::state::simulator::{begin, begin_with};
use crate::driver::state::{Description, Green, State};
use crate::driver::wait::WaitReason;

/// The words of a `CUdevResource`. Callers read words 0 and 24 to 26. The driver uses the other words for itself.
type Resource = [u32; 36];

/// `CU_DEV_RESOURCE_TYPE_SM`.
const SM: u32 = 1;

/// Describes multiprocessors of a device. `is_split` marks the result of a split, which cannot be split again.
fn describe(device: usize, span: Span, is_split: bool, (least, alignment): (u32, u32)) -> Resource {
    let mut words = [0; 36];
    words[..4].copy_from_slice(&[SM, device as u32, span.first, is_split.into()]);
    words[24..27].copy_from_slice(&[span.count, least, alignment]);
    words
}

/// Reads a description. Returns the device, and the described multiprocessors.
fn parse(state: &State, words: &Resource) -> Answer<(usize, Span)> {
    if words[0] != SM {
        return Err(Code::INVALID_RESOURCE_TYPE);
    }
    let (device, first, count) = (words[1] as usize, words[2], words[24]);
    let has = state.devices.get(device).map_or(0, |device| device.kind.processors);
    let is_there = first.checked_add(count).is_some_and(|end| end <= has);
    if is_there { Ok((device, Span { first, count })) } else { Err(Code::INVALID_RESOURCE_CONFIGURATION) }
}

/// Returns the smallest size of a group of multiprocessors, and the number that the size is a multiple of.
fn granularity(device: &Device) -> (u32, u32) {
    match device.arch {
        90.. => (8, 8),
        80.. => (4, 2),
        _ => (2, 2),
    }
}

calls! {
    12040 fn cuDeviceGetDevResource(ordinal: i32, all: Out<Resource>, kind: u32) = {
        let state = begin()?;
        let device = device(&state, ordinal)?;
        if kind != SM {
            return Err(Code::INVALID_RESOURCE_TYPE);
        }
        let kind = &state.devices[device].kind;
        all.set(describe(device, Span::whole(kind), false, granularity(kind)))
    };

    12040 fn cuDevSmResourceSplitByCount(
        groups: Out<Resource>, count: Out<u32>, all: In<Resource>, rest: Out<Resource>, flags: u32, least: u32,
    ) = {
        let state = begin()?;
        let words = all.get()?;
        let (device, span) = parse(&state, &words)?;
        if flags != 0 {
            return not_simulated("a split of multiprocessors with flags");
        }
        let is_split = words[3] != 0;
        if is_split || least > span.count {
            return Err(Code::INVALID_RESOURCE_CONFIGURATION);
        }
        let (smallest, alignment) = granularity(&state.devices[device].kind);
        let size = least.max(smallest).next_multiple_of(alignment).min(span.count);
        // An H200 makes 15 groups of 8, where this formula gives 16. For all other tried sizes they agree.
        let most = span.count / size.max(1);
        if groups.is_null() {
            return count.set(most);
        }
        let made = count.get()?.min(most);
        let group = |number| Span { first: span.first + number * size, count: size };
        groups.set_all((0..made).map(|number| describe(device, group(number), true, (0, 0))), made as usize)?;
        count.set(made)?;
        let left = Span { first: span.first + made * size, count: span.count - made * size };
        rest.set_if_wanted(describe(device, left, true, (0, 0)))
    };

    12040 fn cuDevResourceGenerateDesc(description: Out<Handle>, resources: In<Resource>, count: u32) = {
        let mut state = begin()?;
        let mut joined: Option<(usize, Span)> = None;
        for words in resources.read_all(count as usize)? {
            let (device, span) = parse(&state, &words)?;
            joined = match joined {
                None => Some((device, span)),
                Some((of, _)) if of != device => return Err(Code::INVALID_RESOURCE_CONFIGURATION),
                Some((_, before)) if before.end() == span.first => {
                    Some((device, Span { count: before.count + span.count, ..before }))
                }
                Some(_) => {
                    return not_simulated("a part of groups that are not next to each other");
                }
            };
        }
        let (device, span) = joined.ok_or(Code::INVALID_VALUE)?;
        description.ready()?;
        description.set(state.descriptions.insert(Description { device, span }))
    };

    12040 fn cuGreenCtxCreate(green: Out<Handle>, description: Handle, ordinal: i32, flags: u32) = {
        let mut state = begin()?;
        let device = device(&state, ordinal)?;
        let Description { device: of, span } = *state.descriptions.get(description)?;
        // The flag `CU_GREEN_CTX_DEFAULT_STREAM` is required.
        if of != device || flags != 1 || span.count == 0 {
            return Err(Code::INVALID_VALUE);
        }
        green.ready()?;
        state = wait_for_device(state, device, "cuGreenCtxCreate", WaitReason::Destroy)?;
        retain(&mut state, device)?;
        let id = state.id();
        green.set(state.greens.insert(Green { id, device, span }))
    };

    12040 fn cuGreenCtxDestroy(green: Handle) = {
        let mut state = begin()?;
        let device = state.green(green)?.device;
        state.greens.remove(green)?;
        release(state, device)
    };

    12040 fn cuCtxFromGreenCtx(context: Out<Handle>, green: Handle) = {
        begin()?.green(green)?;
        context.set(green)
    };

    12040 fn cuGreenCtxGetDevResource(green: Handle, part: Out<Resource>, kind: u32) = {
        let state = begin()?;
        let Green { device, span, .. } = *state.green(green)?;
        if kind != SM {
            return Err(Code::INVALID_RESOURCE_TYPE);
        }
        part.set(describe(device, span, false, granularity(&state.devices[device].kind)))
    };

    12040 fn cuStreamGetGreenCtx(stream: Handle, green: Out<Handle>) = {
        let (state, stream) = begin_with(stream)?;
        green.set(state.streams.get(stream)?.part.map_or(0, |(green, _)| green))
    };
}

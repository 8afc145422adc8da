//! Submits launches of kernels. For each launch this finds the work that the launch must wait for, and notes the set-up
//! that later launches can use.

use std::sync::Arc;

use kernel_registry_ptx::MOST_LOCAL;

use super::State;
use super::deadlock::wait_for_device;
use super::explore::hosts::wait_until;
use super::load::load;
use super::simulator::Locked;
use crate::driver::handles::Handle;
use crate::driver::launch::shape::{Launch, Shape};
use crate::driver::load::image::Kernel;
use crate::driver::report::failures;
use crate::driver::result::{Answer, Code};
use crate::driver::stream::queue::Work;
use crate::driver::wait::{Behind, WaitReason};

/// The first launch of a context waits if its image has a frame of more bytes than this. A frame of 8 KiB did not wait,
/// one of 32 KiB did. Sizes between were not measured.
const SMALL_FRAME: u32 = 9 << 10;

/// The most launches in the queue of a stream. The next launch waits for room.
const QUEUE: usize = 1024;

/// Submits a launch to a stream. `function` may also be a library's kernel.
pub(crate) fn launch(
    mut state: Locked,
    mut function: Handle,
    stream: Handle,
    shape: Shape,
    arguments: impl FnOnce(&Kernel) -> Answer<Vec<u8>>,
) -> Answer<Locked> {
    let (context, part) = state.streams.get(stream).map(|stream| (stream.context, stream.part))?;
    // Kernels of a library that is new in this context are loaded by the calling thread. All other kernels are loaded
    // by their stream, which then waits.
    if state.is_of_new_library(function, context) {
        (state, function) = load(state, function, context, "cuLaunchKernel")?;
    }
    let launch = state.prepare(function, context, shape, arguments)?;
    let function = launch.function;
    if let Some((_, span)) = part {
        let kind = &state.devices[state.functions.get(function)?.device].kind;
        launch.check_grid(&kind.clone().processors(span.count))?;
    }
    let work = Work::Launch(Box::new(launch));
    // A captured kernel is set up with its graph.
    if state.is_captured(stream)? {
        state.load_behind(function)?;
        state.submit(stream, work, None)?;
        return Ok(state);
    }
    if let Some((device, because)) = state.grows_stack(function)? {
        state = wait_for_device(state, device, "cuLaunchKernel", because)?;
    }
    state = wait_until(state, move |state| {
        state.streams.get(stream).map_or(true, |stream| stream.queue.len() < QUEUE)
    });
    state.streams.get(stream)?;
    state.not_implied(stream)?;
    let behind = state.launch_behind(function, stream)?;
    state.submit(stream, work, behind)?;
    Ok(state)
}

impl State {
    /// Makes a launch, and makes those checks that do not depend on earlier launches.
    pub(crate) fn prepare(
        &mut self,
        function: Handle,
        context: Handle,
        mut shape: Shape,
        arguments: impl FnOnce(&Kernel) -> Answer<Vec<u8>>,
    ) -> Answer<Launch> {
        let handle =
            if self.kernels.get(function).is_ok() { self.function_of(function, context)? } else { function };
        let function = self.functions.get(handle)?;
        if function.context != context {
            return Err(Code::INVALID_HANDLE);
        }
        let kernel = &function.image.kernels[function.kernel];
        shape.cluster = shape.cluster.or(kernel.cluster);
        let launch = Launch {
            function: handle,
            image: function.image.clone(),
            code: self.modules.get(function.module)?.code.clone(),
            kernel: function.kernel,
            shape,
            stack: u64::from(kernel.frame).max(self.contexts.get(context)?.stack),
            arguments: Arc::new(arguments(kernel)?),
            carveout: function.carveout(),
        };
        launch.check(function.max_shared, &self.devices[function.device].kind)?;
        if let Some(lacking) = launch.image.program.lacking(&launch.kernel().name) {
            let name = launch.source_name();
            return failures::not_supported(&format!("the launch of `{name}` is not simulated: {lacking}"));
        }
        Ok(launch)
    }

    /// Returns the work that a launch must wait for in other streams. Also notes the set-up that later launches can
    /// use.
    fn launch_behind(&mut self, function: Handle, stream: Handle) -> Answer<Option<Behind>> {
        let last = self.streams.last;
        let found = self.functions.get_mut(function)?;
        let (device, of) = (found.device, found.context);
        let kernel = &found.image.kernels[found.kernel];
        let (needs, frame) = (kernel.needs, u64::from(kernel.frame));
        let has_large_frame = found.image.kernels.iter().any(|kernel| kernel.local > SMALL_FRAME);
        let mut all = vec![(found.loaded, WaitReason::Load)];
        found.loaded.get_or_insert(last);
        let limit = self.sound(of)?.stack;
        let more = frame.saturating_sub(limit) * self.devices[device].kind.threads();
        if more > 0 && (frame > MOST_LOCAL || more > self.free_memory(device)) {
            return Err(Code::OUT_OF_MEMORY);
        }
        let context = self.context(of)?;
        if frame > limit {
            all.push((None, WaitReason::Stack { frame, limit }));
            (context.stack, context.stack_ready) = (frame, last);
        } else if context.stack_changed {
            all.push((None, WaitReason::StackChanged));
        } else if frame > 1024 {
            all.push((Some(context.stack_ready), WaitReason::Stack { frame, limit }));
        }
        context.stack_changed = false;
        if needs.printf || needs.assert {
            all.push((context.printed, WaitReason::Printf));
            context.printed.get_or_insert(last);
        }
        if needs.heap {
            all.push((context.allocated, WaitReason::Malloc));
            context.allocated.get_or_insert(last);
        }
        let is_first = context.launched.is_none();
        context.launched.get_or_insert(last);
        if is_first && has_large_frame && self.waits_for_word(device, stream) {
            all.push((None, WaitReason::FirstLaunch));
        }
        let all =
            all.into_iter().filter_map(|(ready, because)| self.streams.work_before(device, ready, because));
        Ok(all.max_by_key(|behind| behind.until))
    }

    /// Returns the device whose stacks must grow for a launch. The calling thread then waits for that device. `None` if
    /// the stacks are large enough.
    fn grows_stack(&mut self, function: Handle) -> Answer<Option<(usize, WaitReason)>> {
        let found = self.functions.get(function)?;
        let (device, frame) = (found.device, u64::from(found.image.kernels[found.kernel].frame));
        let limit = self.sound(found.context)?.stack;
        Ok((frame > limit).then_some((device, WaitReason::Stack { frame, limit })))
    }

    /// Returns whether any module of a context has a kernel that `is_wanted` accepts.
    pub(crate) fn has_kernel(&self, context: Handle, is_wanted: impl Fn(&Kernel) -> bool) -> bool {
        let mut modules =
            self.modules.iter().map(|(_, module)| module).filter(|module| module.context == context);
        modules.any(|module| module.image.kernels.iter().any(&is_wanted))
    }

    /// Returns whether another stream of the device waits for a word in memory.
    fn waits_for_word(&self, device: usize, this: Handle) -> bool {
        let others =
            self.streams.iter().filter(|(handle, stream)| stream.device == device && *handle != this);
        let mut works = others.filter_map(|(_, stream)| stream.queue.front());
        works.any(|item| matches!(item.work, Work::WaitValue { .. }))
    }
}

//! Launches: what a stream is given, and what it has to wait for.

use std::sync::Arc;

use kernel_registry_ptx::MOST_LOCAL;

use super::deadlock::wait_for_device;
use super::device::Device;
use super::execute::Loaded;
use super::handles::Handle;
use super::image::{Image, Kernel};
use super::load::{attributes, load_now};
use super::process::{Locked, Simulator};
use super::result::{Answer, Code};
use super::state::State;
use super::stream::{Because, Behind, Work};

/// A launch of a kernel.
#[derive(Clone, Debug)]
pub(super) struct Launch {
    /// A kernel in a context.
    pub(super) function: Handle,
    pub(super) image: Arc<Image>,
    pub(super) code: Loaded,
    pub(super) kernel: usize,
    pub(super) shape: Shape,
    pub(super) arguments: Arc<Vec<u8>>,
    /// Bytes of stack of each thread.
    pub(super) stack: u64,
    /// Its carve-out is all shared memory already.
    pub(super) prefers_shared: bool,
}

/// How many of what.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Shape {
    pub(super) grid: [u32; 3],
    pub(super) block: [u32; 3],
    pub(super) cluster: Option<[u32; 3]>,
    pub(super) shared: u32,
    pub(super) cooperative: bool,
}

fn product(sizes: [u32; 3]) -> u64 {
    sizes.iter().fold(1, |product, size| product.saturating_mul(u64::from(*size)))
}

impl Launch {
    pub(super) fn kernel(&self) -> &Kernel {
        &self.image.kernels[self.kernel]
    }

    pub(super) fn source_name(&self) -> &str {
        &self.kernel().source_name
    }

    pub(super) fn blocks(&self) -> u64 {
        product(self.shape.grid)
    }

    pub(super) fn threads_of_block(&self) -> u64 {
        product(self.shape.block)
    }

    /// The places for threads that it takes while it runs.
    pub(super) fn resident_threads(&self, device: &Device) -> u64 {
        self.blocks().saturating_mul(self.threads_of_block()).min(device.threads())
    }

    pub(super) fn shared_memory(&self) -> u32 {
        self.kernel().shared.saturating_add(self.shape.shared)
    }

    /// What the driver finds wrong with it before anything runs.
    pub(super) fn check(&self, max_shared: u32, device: &Device) -> Answer {
        let Shape { grid, block, cluster, shared, cooperative } = self.shape;
        let kernel = self.kernel();
        let too_large = grid[0] > i32::MAX as u32 || grid[1] > 65_535 || grid[2] > 65_535 || block[2] > 64;
        if product(grid) == 0 || product(block) == 0 || too_large || shared > max_shared {
            return Err(Code::INVALID_VALUE);
        }
        if product(block) > kernel.max_threads.into() {
            // The hardware has no more than 1,024; a kernel may have promised fewer.
            return Err(if product(block) > 1024 {
                Code::INVALID_VALUE
            } else {
                Code::LAUNCH_OUT_OF_RESOURCES
            });
        }
        if cooperative && self.blocks().saturating_mul(self.threads_of_block()) > device.threads() {
            return Err(Code::COOPERATIVE_LAUNCH_TOO_LARGE);
        }
        if let Some(cluster) = cluster {
            let fits = (0..3).all(|axis| cluster[axis] != 0 && grid[axis] % cluster[axis] == 0);
            if !device.has_clusters()
                || !fits
                || product(cluster) > 16
                || kernel.cluster.is_some_and(|fixed| fixed != cluster)
            {
                return Err(Code::INVALID_CLUSTER_SIZE);
            }
        }
        Ok(())
    }
}

/// Frames of 8 KiB do not make the first launch of a context wait, and those of 32 KiB do. What is between was not measured.
const SMALL_FRAME: u32 = 9 << 10;

/// Launches that a stream takes before its next one waits for room.
const QUEUE: usize = 1024;

/// Gives a launch to a stream. The function may also be a library's kernel.
pub(super) fn launch(
    mut state: Locked,
    function: Handle,
    stream: Handle,
    shape: Shape,
    arguments: impl FnOnce(&Kernel) -> Answer<Vec<u8>>,
) -> Answer<Locked> {
    let context = state.streams.get(stream)?.context;
    let is_new = state.is_of_new_library(function, context);
    let launch = state.prepare(function, context, shape, arguments)?;
    let function = launch.function;
    let work = Work::Launch(Box::new(launch));
    // Graphs have their printf, their stacks and the rest set up when they are made.
    if state.is_captured(stream)? {
        state.load_behind(function)?;
        state.submit(stream, work, None)?;
        return Ok(state);
    }
    // Any other is loaded while its stream waits.
    if is_new {
        state = load_now(state, function, "cuLaunchKernel")?;
    }
    if let Some((device, because)) = state.grows_stack(function)? {
        state = wait_for_device(state, device, "cuLaunchKernel", because)?;
    }
    while state.streams.get(stream)?.queue.len() >= QUEUE {
        state = Simulator::get().wait(state);
    }
    state.not_implied(stream)?;
    let behind = state.launch_behind(function, stream)?;
    state.submit(stream, work, behind)?;
    Ok(state)
}

impl State {
    /// A launch in a context, as far as it does not depend on what comes before it.
    pub(super) fn prepare(
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
            prefers_shared: function.attributes.get(&attributes::CARVEOUT) == Some(&100),
        };
        launch.check(function.max_shared, &self.devices[function.device].kind)?;
        Ok(launch)
    }

    /// What a launch has to wait for beside its stream, and what it sets up for those after it.
    fn launch_behind(&mut self, function: Handle, stream: Handle) -> Answer<Option<Behind>> {
        let last = self.last;
        let found = self.functions.get_mut(function)?;
        let (device, of) = (found.device, found.context);
        let kernel = &found.image.kernels[found.kernel];
        let (needs, frame) = (kernel.needs, u64::from(kernel.frame));
        let mut all = vec![(found.loaded, Because::Load)];
        found.loaded.get_or_insert(last);
        let limit = self.sound(of)?.stack;
        let more = frame.saturating_sub(limit) * self.devices[device].kind.threads();
        if more > 0 && (frame > MOST_LOCAL || more > self.free_memory(device)) {
            return Err(Code::OUT_OF_MEMORY);
        }
        let context = self.context(of)?;
        if frame > limit {
            all.push((None, Because::Stack { frame, limit }));
            (context.stack, context.stack_ready) = (frame, last);
        } else if context.stack_changed {
            all.push((None, Because::StackChanged));
        } else if frame > 1024 {
            all.push((Some(context.stack_ready), Because::Stack { frame, limit }));
        }
        context.stack_changed = false;
        if needs.printf || needs.assert {
            all.push((context.printed, Because::Printf));
            context.printed.get_or_insert(last);
        }
        if needs.heap {
            all.push((context.allocated, Because::Malloc));
            context.allocated.get_or_insert(last);
        }
        let is_first = context.launched.is_none();
        context.launched.get_or_insert(last);
        if is_first
            && self.has_kernel(of, |kernel| kernel.local > SMALL_FRAME)
            && self.waits_for_word(device, stream)
        {
            all.push((None, Because::FirstLaunch));
        }
        let all = all.into_iter().filter_map(|(ready, because)| self.behind(device, ready, because));
        Ok(all.max_by_key(|behind| behind.until))
    }

    /// The device whose stacks have to grow for a launch: the host waits for that.
    fn grows_stack(&mut self, function: Handle) -> Answer<Option<(usize, Because)>> {
        let found = self.functions.get(function)?;
        let (device, frame) = (found.device, u64::from(found.image.kernels[found.kernel].frame));
        let limit = self.sound(found.context)?.stack;
        Ok((frame > limit).then_some((device, Because::Stack { frame, limit })))
    }

    /// Whether a module of a context has such a kernel.
    pub(super) fn has_kernel(&self, context: Handle, is_such: impl Fn(&Kernel) -> bool) -> bool {
        let mut modules =
            self.modules.iter().map(|(_, module)| module).filter(|module| module.context == context);
        modules.any(|module| module.image.kernels.iter().any(&is_such))
    }

    /// Whether another stream of the device waits for a word in memory.
    fn waits_for_word(&self, device: usize, this: Handle) -> bool {
        let others =
            self.streams.iter().filter(|(handle, stream)| stream.device == device && *handle != this);
        let mut works = others.filter_map(|(_, stream)| stream.queue.front());
        works.any(|item| matches!(item.work, Work::WaitValue { .. }))
    }
}

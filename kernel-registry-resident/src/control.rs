//! Defines `Control`, with which the host ends a resident kernel, and finds out whether all of its blocks
//! are on the device.

use std::error::Error;
use std::fmt;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use cudarc::driver::CudaContext;
use cudarc::driver::sys::{CUcontext, CUdeviceptr};
use kernel_registry::__private_0_1::resident::SealedPointer as Sealed;
use kernel_registry::{DriverUnavailable, PointerTo, PointerToMut};
use kernel_registry_cuda::device_header;

use crate::mapped::Memory;

/// The control block of one launch of a resident kernel: `kernel_registry::Control` of the
/// [device header](crate::DEVICE_HEADER), in mapped host memory.
///
/// ```no_run
/// # mod demo {
/// # use kernel_registry::gpu_kernel;
/// use kernel_registry_resident::Control;
///
/// // __global__ void worker(kernel_registry::Control* control)
/// #[gpu_kernel(image = "tests/images/resident.ptx")]
/// pub unsafe fn worker(control: *mut Control);
/// # }
/// # use demo::worker;
/// use std::time::Duration;
/// # use kernel_registry_resident::Control;
///
/// # fn main() -> Result<(), kernel_registry::MainError> {
/// # let context = kernel_registry::context(0)?;
/// # let stream = context.new_stream()?;
/// let control = Control::new(&context, 132)?;
/// control.limit(Duration::from_secs(60));
/// // SAFETY: dropping the control block waits for the kernel.
/// unsafe { worker::launch(&stream, worker::config(132).block(128), &control)? };
/// control.wait_for_blocks(Duration::from_secs(1))?;
/// control.stop();
/// stream.synchronize()?;
/// # Ok(())
/// # }
/// ```
///
/// A kernel for which neither [`limit`](Control::limit) nor [`unlimited`](Control::unlimited) was called ends
/// at once, as [`Ended::NoLimit`].
pub struct Control {
    memory: Memory,
    blocks: u32,
}

/// `Control` of the device header. A word for each block follows it.
#[repr(C, align(64))]
struct Words {
    /// Why the kernel ends: a value of the header's `End`.
    end: AtomicU32,
    layout: AtomicU32,
    blocks: AtomicU32,
    /// 1 once all blocks have arrived. The kernel's first block writes it for the others.
    all_there: AtomicU32,
    limit_ns: AtomicU64,
}

const NOT_YET: u32 = 0;
const STOPPED: u32 = 1;

/// The value of `limit_ns` for a kernel without a limit.
const UNLIMITED: u64 = u64::MAX;

// The values of a block's word: the header's `Presence`.
const THERE: u32 = 1;
const LEFT: u32 = 2;
const LATE: u32 = 3;
const LATE_AND_LEFT: u32 = 4;

/// Whether a kernel is on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Presence {
    /// No block is on the device yet.
    Absent,
    /// At least one block has arrived, and the kernel has not ended. A kernel that was stopped ends when all
    /// of its blocks have left.
    There,
    /// The kernel has ended or is ending. Only its stream knows when its memory can be reused.
    Ended(Ended),
}

/// Why a kernel ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ended {
    /// The kernel returned without being told to.
    ByItself,
    /// The host stopped the kernel with [`Control::stop`].
    Stopped,
    /// The kernel's time was up: [`Control::limit`].
    Limit,
    /// No limit was set.
    NoLimit,
    /// Not all of the kernel's blocks arrived in time.
    Missing,
    /// The kernel's grid has another number of blocks than the control block.
    OtherGrid,
    /// The kernel's values in a [`Queue`](crate::Queue) have another size than the host's.
    OtherType,
    /// The kernel was compiled with the device header of another version.
    OtherLayout,
    /// The kernel's [`Queue`](crate::Queue) was made for another number of blocks, or lacks the lane that a
    /// block uses.
    OtherLanes,
}

/// Some blocks of a grid haven't arrived on the device.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlocksMissing {
    /// How many blocks have arrived.
    pub arrived: u32,
    /// How many blocks the grid has.
    pub of: u32,
    /// The positions in the grid of the blocks that have not arrived.
    pub blocks: Vec<u32>,
}

impl Control {
    /// Creates a control block for a launch of this many blocks. Creating it doesn't wait for running
    /// kernels. Dropping it does, except for resident kernels in a [`Section`](crate::Section): then the
    /// memory is freed later.
    ///
    /// # Errors
    ///
    /// The driver is unusable, or has no mapped memory left.
    pub fn new(context: &Arc<CudaContext>, blocks: u32) -> Result<Self, DriverUnavailable> {
        let bytes = size_of::<Words>() + blocks as usize * size_of::<AtomicU32>();
        let control = Control { memory: Memory::zeroed(context, bytes)?, blocks };
        control.words().layout.store(device_header::LAYOUT, Ordering::Relaxed);
        control.words().blocks.store(blocks, Ordering::Relaxed);
        Ok(control)
    }

    /// Returns the number of blocks in the grid.
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Ends the kernel this long after its start. Each block reads the limit when it arrives, so set it
    /// before the launch.
    pub fn limit(&self, limit: Duration) {
        let limit = u64::try_from(limit.as_nanos()).unwrap_or(UNLIMITED);
        // 0 means that no limit was set, and ends the kernel at once.
        self.words().limit_ns.store(limit.max(1), Ordering::Release);
    }

    /// Lets the kernel run until it's stopped. If the host never stops it, the process can no longer use the
    /// device, and every thread that waits for the device hangs.
    pub fn unlimited(&self) {
        self.words().limit_ns.store(UNLIMITED, Ordering::Release);
    }

    /// Tells the kernel to end, but doesn't wait for its end. If the kernel already has a reason to end, that
    /// reason stays.
    pub fn stop(&self) {
        let end = &self.words().end;
        let _ = end.compare_exchange(NOT_YET, STOPPED, Ordering::Release, Ordering::Relaxed);
    }

    /// Returns whether the kernel is on the device, or why it ended.
    pub fn presence(&self) -> Presence {
        let count =
            |presence| self.arrivals().iter().filter(|word| word.load(Ordering::Acquire) == presence).count();
        let (there, left) = (count(THERE), count(LEFT));
        let (late, late_and_left) = (count(LATE), count(LATE_AND_LEFT));
        // Read after the blocks' words, because a block writes the reason before it leaves.
        let end = self.words().end.load(Ordering::Acquire);
        let gone = left + late_and_left;
        let have_all_left = gone == self.blocks as usize && gone > 0;
        match end {
            // With another layout, the blocks' words are meaningless.
            end if end != NOT_YET && Ended::from_code(end) == Ended::OtherLayout => {
                Presence::Ended(Ended::OtherLayout)
            }
            _ if there > 0 => Presence::There,
            NOT_YET if have_all_left => Presence::Ended(Ended::ByItself),
            STOPPED if have_all_left => Presence::Ended(Ended::Stopped),
            // Blocks that start after a stop still process the values pushed for them.
            NOT_YET | STOPPED if gone + late > 0 => Presence::There,
            NOT_YET | STOPPED => Presence::Absent,
            // After any other reason to end, blocks that start later return at once.
            end if gone + late > 0 => Presence::Ended(Ended::from_code(end)),
            _ => Presence::Absent,
        }
    }

    /// Checks that all blocks have arrived.
    ///
    /// # Errors
    ///
    /// Fails with [`BlocksMissing`] if some blocks haven't arrived.
    pub fn arrived(&self) -> Result<(), BlocksMissing> {
        // A late block counts as missing, because others left before it arrived.
        let is_missing = |word: &AtomicU32| ![THERE, LEFT].contains(&word.load(Ordering::Acquire));
        let missing = (0..).zip(self.arrivals()).filter(|(_, word)| is_missing(word));
        let blocks: Vec<u32> = missing.map(|(block, _)| block).collect();
        match blocks.len() as u32 {
            0 => Ok(()),
            count => Err(BlocksMissing { arrived: self.blocks - count, of: self.blocks, blocks }),
        }
    }

    /// Waits until all blocks have arrived, but no longer than `limit`, and not beyond the kernel's end.
    ///
    /// # Errors
    ///
    /// Fails with [`BlocksMissing`] if some blocks haven't arrived by then.
    pub fn wait_for_blocks(&self, limit: Duration) -> Result<(), BlocksMissing> {
        poll(limit, || self.arrived().is_ok() || matches!(self.presence(), Presence::Ended(_)));
        self.arrived()
    }

    /// Waits until the kernel has ended, but no longer than `limit`. Returns the kernel's presence.
    pub fn wait_for_end(&self, limit: Duration) -> Presence {
        let mut presence = Presence::Absent;
        poll(limit, || {
            presence = self.presence();
            matches!(presence, Presence::Ended(_))
        });
        presence
    }

    /// Resets the control block for another launch. The previous launch's kernel must have ended. The limit
    /// stays.
    pub fn reset(&mut self) {
        let Words { end, all_there, .. } = self.words();
        [end, all_there].into_iter().chain(self.arrivals()).for_each(|word| word.store(0, Ordering::Release));
    }

    /// Returns whether the memory still exists. Resetting the context frees it.
    pub(crate) fn is_there(&self) -> bool {
        self.memory.is_there()
    }

    fn words(&self) -> &Words {
        // SAFETY: the memory begins with `Words`, was zeroed, and exists as long as `self`, unless the
        // program resets the context, by an `unsafe` call. The device accesses aligned words as a whole.
        unsafe { &*self.memory.at(0) }
    }

    /// Returns the blocks' words, each a `Presence` of the device header.
    fn arrivals(&self) -> &[AtomicU32] {
        // SAFETY: as above; the words of the blocks follow `Words`.
        unsafe { slice::from_raw_parts(self.memory.at(size_of::<Words>()), self.blocks as usize) }
    }
}

impl Ended {
    fn from_code(end: u32) -> Self {
        match end {
            STOPPED => Ended::Stopped,
            2 => Ended::Limit,
            3 => Ended::NoLimit,
            4 => Ended::Missing,
            5 => Ended::OtherGrid,
            6 => Ended::OtherType,
            8 => Ended::OtherLanes,
            _ => Ended::OtherLayout,
        }
    }
}

/// Calls `is_done` until it returns true or `limit` is over. Returns whether it returned true.
pub(crate) fn poll(limit: Duration, mut is_done: impl FnMut() -> bool) -> bool {
    /// The number of polls before the first pause. A kernel usually answers within microseconds.
    const EAGER: u32 = 100;
    let begun = Instant::now();
    let mut polls = 0;
    loop {
        if is_done() {
            return true;
        }
        if begun.elapsed() >= limit {
            return false;
        }
        polls += 1;
        if polls < EAGER { thread::yield_now() } else { thread::sleep(Duration::from_micros(50)) }
    }
}

impl Sealed for &Control {
    #[inline]
    fn owner(&self) -> CUcontext {
        self.memory.owner()
    }
}

#[diagnostic::do_not_recommend]
impl PointerTo<Control> for &Control {
    #[inline]
    fn address(self) -> CUdeviceptr {
        self.memory.address()
    }
}

#[diagnostic::do_not_recommend]
impl PointerToMut<Control> for &Control {}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control")
            .field("blocks", &self.blocks)
            .field("presence", &self.presence())
            .finish_non_exhaustive()
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Ended::ByItself => "it returned by itself",
            Ended::Stopped => "it was stopped",
            Ended::Limit => "its time was over",
            Ended::NoLimit => {
                "no limit in time was set: call `Control::limit`, or `Control::unlimited`, before the launch"
            }
            Ended::Missing => {
                "not all of its blocks arrived in time: launch no more than the device has room for at once"
            }
            Ended::OtherGrid => {
                "its grid has another number of blocks than its control block: pass this grid's number to `Control::new`"
            }
            Ended::OtherType => {
                "its values in a queue have another size than the host's: give the Rust struct the fields of the C++ one"
            }
            Ended::OtherLayout => {
                "it was compiled with another version of `kernel_registry.cuh`: use equal versions of kernel-registry and \
                 kernel-registry-build, and make committed images anew"
            }
            Ended::OtherLanes => {
                "its queue was made for another number of blocks, or has no such lane: make it by `Queue::for_blocks`, with the number \
                 of blocks that take values"
            }
        })
    }
}

impl fmt::Display for BlocksMissing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// The most blocks to name, so that the message stays short.
        const NAMED: usize = 8;
        let BlocksMissing { arrived, of, blocks } = self;
        if *arrived == 0 {
            return write!(
                f,
                "none of {of} blocks is on the device: the kernel was not launched with this control block, or waits for \
                 other work, or for its own loading (warm it)"
            );
        }
        let names: Vec<String> = blocks.iter().take(NAMED).map(u32::to_string).collect();
        write!(f, "{arrived} of {of} blocks are on the device, and not {}", names.join(", "))?;
        if blocks.len() > NAMED {
            write!(f, " and {} more", blocks.len() - NAMED)?;
        }
        f.write_str(
            ": there is no room for them next to what already runs; launch fewer blocks, or smaller ones",
        )
    }
}

impl Error for BlocksMissing {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_blocks_are_named_but_not_all() {
        let missing = BlocksMissing { arrived: 132, of: 150, blocks: (132..150).collect() };
        let said = missing.to_string();
        assert!(
            said.starts_with("132 of 150 blocks are on the device, and not 132, 133, 134, 135, 136, 137, 138, 139 and 10 more: "),
            "{said}"
        );
        let none = BlocksMissing { arrived: 0, of: 2, blocks: vec![0, 1] }.to_string();
        assert!(none.starts_with("none of 2 blocks is on the device: "), "{none}");
    }

    #[test]
    fn reasons_have_the_numbers_of_the_header() {
        let numbered = |number: u32, name: &str| {
            assert!(device_header::TEXT.contains(&format!("    {name} = {number},")), "{name}");
        };
        let ends = [
            "NOT_YET",
            "STOPPED",
            "LIMIT",
            "NO_LIMIT",
            "MISSING",
            "OTHER_GRID",
            "OTHER_TYPE",
            "OTHER_LAYOUT",
            "OTHER_LANES",
        ];
        (0..).zip(ends).for_each(|(number, name)| numbered(number, name));
        let places = ["NOWHERE", "THERE", "LEFT", "LATE", "LATE_AND_LEFT"];
        (0..).zip(places).for_each(|(number, name)| numbered(number, name));
        assert_eq!([THERE, LEFT, LATE, LATE_AND_LEFT], [1, 2, 3, 4]);
        assert_eq!(
            (Ended::from_code(1), Ended::from_code(6), Ended::from_code(8)),
            (Ended::Stopped, Ended::OtherType, Ended::OtherLanes)
        );
        assert_eq!((Ended::from_code(7), Ended::from_code(99)), (Ended::OtherLayout, Ended::OtherLayout));
    }
}

//! The streams of resident kernels, in which nothing else may be launched.

use std::sync::atomic::{AtomicU64, Ordering};

use cudarc::driver::CudaStream;
use kernel_registry_cuda::rules;

use super::WouldWait;
use super::state::{in_stream, would_wait};

/// A bit for each stream of a resident kernel. A launch reads this word only.
static MARKS: AtomicU64 = AtomicU64::new(0);

/// One of 64 bits, which other streams may share.
#[inline]
fn mark(stream: usize) -> u64 {
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    1 << ((stream as u64).wrapping_mul(SPREAD) >> 58)
}

/// These are the streams of resident kernels.
pub(super) fn set(streams: impl Iterator<Item = usize>) {
    MARKS.store(streams.map(mark).fold(0, |marks, mark| marks | mark), Ordering::Relaxed);
}

/// Refuses a launch in the stream of a resident kernel.
#[inline]
pub(crate) fn check(stream: &CudaStream) -> Result<(), Box<WouldWait>> {
    let stream = stream.cu_stream().addr();
    if MARKS.load(Ordering::Relaxed) & mark(stream) == 0 { Ok(()) } else { look(stream) }
}

#[cold]
fn look(stream: usize) -> Result<(), Box<WouldWait>> {
    let Some(resident) = in_stream(stream) else { return Ok(()) };
    Err(would_wait(resident, "cuLaunchKernelEx", &rules::BEHIND_RESIDENT))
}

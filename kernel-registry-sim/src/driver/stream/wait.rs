//! The order of submission, and why calls and launches wait for a device.

use std::fmt;

use kernel_registry_cuda::rules;

use crate::driver::handles::Handle;

/// The place of work in the order in which all work was submitted. 0 is before all.
pub(crate) type Seq = u64;

/// A loaded function, the printf buffer or the heap is ready when all work up to this place is done. `None` before its first use.
pub(crate) type Ready = Option<Seq>;

/// Work that must be done first: all that occupies the device, up to a place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Behind {
    pub(crate) until: Seq,
    pub(crate) because: WaitReason,
    pub(crate) reported: bool,
}

/// A call that waits for the device.
pub(crate) struct Waiting {
    pub(crate) call: &'static str,
    pub(crate) thread: String,
    /// The current context of the thread.
    pub(crate) context: Option<Handle>,
    pub(crate) device: usize,
    pub(crate) until: Seq,
    pub(crate) because: WaitReason,
    pub(crate) reported: bool,
    /// The deadlock that was broken here: this call must not wait any longer.
    pub(crate) gave_up: Option<String>,
}

impl Waiting {
    /// Whether it holds the driver's lock of that context.
    pub(crate) fn holds_lock_of(&self, context: Handle) -> bool {
        self.because.holds_lock() && self.context == Some(context) && self.gave_up.is_none()
    }
}

/// Why something waits for a device: rules that were measured with NVIDIA's driver.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum WaitReason {
    Load,
    /// Another thread of the context loads a kernel.
    LoadElsewhere,
    /// A library is loaded into a context.
    Library,
    Unload,
    Free,
    Destroy,
    SetStack,
    Stack {
        frame: u64,
        limit: u64,
    },
    StackChanged,
    Printf,
    Malloc,
    FirstLaunch,
    Streams,
}

impl WaitReason {
    /// Whether the waiting thread holds the driver's lock of the context.
    pub(crate) fn holds_lock(self) -> bool {
        matches!(self, WaitReason::Load | WaitReason::Library | WaitReason::Free | WaitReason::Stack { .. })
    }
}

impl fmt::Display for WaitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rule = match self {
            WaitReason::Load => rules::LOAD,
            WaitReason::LoadElsewhere => rules::LOCKED,
            WaitReason::Library => rules::LIBRARY_IN_CONTEXT,
            WaitReason::Unload => rules::UNLOAD,
            WaitReason::Free => rules::FREE,
            WaitReason::Destroy => rules::CONTEXT,
            WaitReason::SetStack => rules::STACK_LIMIT,
            WaitReason::Stack { frame, limit } => {
                write!(f, "its frame of {frame} bytes is larger than the stack limit of {limit}, and ")?;
                rules::STACK
            }
            WaitReason::StackChanged => rules::STACK_CHANGED,
            WaitReason::Printf => rules::PRINTF,
            WaitReason::Malloc => rules::MALLOC,
            WaitReason::FirstLaunch => rules::FIRST_LAUNCH,
            WaitReason::Streams => rules::STREAMS,
        };
        f.write_str(rule.because)
    }
}

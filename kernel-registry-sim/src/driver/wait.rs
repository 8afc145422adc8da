//! Defines positions in the order of submission, and the reasons why calls and launches wait for a device.

use std::fmt;

use kernel_registry_cuda::rules;

use crate::driver::handles::Handle;

/// The position of work in the order in which all streams' work was submitted. The first is 1.
pub(crate) type Seq = u64;

/// The position up to which all work must be done before something is ready, such as a loaded function, the printf
/// buffer or the heap. `None` before its first use, which waits for all work submitted before it.
pub(crate) type Ready = Option<Seq>;

/// Work that must end before an item of a stream starts: all work that occupies the device, up to a position.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Behind {
    pub(crate) until: Seq,
    pub(crate) because: WaitReason,
    /// Whether this wait was reported as a deadlock.
    pub(crate) reported: bool,
}

/// A driver call that waits for the device.
pub(crate) struct Waiting {
    pub(crate) call: &'static str,
    pub(crate) thread: String,
    /// The current context of the calling thread.
    pub(crate) context: Option<Handle>,
    pub(crate) device: usize,
    pub(crate) until: Seq,
    pub(crate) because: WaitReason,
    /// Whether this wait was reported as a deadlock.
    pub(crate) reported: bool,
    /// The report of a deadlock, if the call must give up because of the deadlock.
    pub(crate) gave_up: Option<String>,
}

impl Waiting {
    /// Returns whether the waiting thread holds the driver's lock of this context.
    pub(crate) fn holds_lock_of(&self, context: Handle) -> bool {
        self.because.holds_lock() && self.context == Some(context) && self.gave_up.is_none()
    }
}

/// The reason why a call or a launch waits for a device. The reasons were measured with NVIDIA's driver.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum WaitReason {
    Load,
    /// Another thread holds the lock of the context, for example to load a kernel.
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
    /// Returns whether a thread that waits for this reason holds the driver's lock of the context.
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

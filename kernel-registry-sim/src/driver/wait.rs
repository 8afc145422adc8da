//! The order of submission, and why calls and launches wait for a device.

use std::fmt;

use kernel_registry_cuda::rules;

use super::handles::Handle;

/// The place of work in the order in which all work was submitted. 0 is before all.
pub(super) type Seq = u64;

/// Up to which place work must end before something is ready. `None` until it is first asked for.
pub(super) type Ready = Option<Seq>;

/// Work that has to be over before: all that occupies the device, up to a place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Behind {
    pub(super) until: Seq,
    pub(super) because: WaitReason,
    pub(super) reported: bool,
}

/// A call that waits for the device.
pub(super) struct Waiting {
    pub(super) call: &'static str,
    pub(super) thread: String,
    /// The current context of the thread.
    pub(super) context: Option<Handle>,
    pub(super) device: usize,
    pub(super) until: Seq,
    pub(super) because: WaitReason,
    pub(super) reported: bool,
    /// The deadlock, if it was broken: it shall not wait any longer.
    pub(super) gave_up: Option<String>,
}

impl Waiting {
    /// Whether it holds the driver's lock of that context.
    pub(super) fn holds_lock_of(&self, context: Handle) -> bool {
        self.because.holds_lock() && self.context == Some(context) && self.gave_up.is_none()
    }
}

/// Why something waits for a device: rules that were measured with NVIDIA's driver.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum WaitReason {
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
    /// Whether the driver's lock of the context is held meanwhile.
    pub(super) fn holds_lock(self) -> bool {
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

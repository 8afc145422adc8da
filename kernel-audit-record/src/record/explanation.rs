//! Defines the explanation of a hang: the audited process's findings about a call, made while the call hung.

use super::coded::{Coded, coded_struct};
use super::texts::{LONGEST, SharedText};

/// The audited process's findings about a call that hangs. The report turns them into sentences.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Explanation {
    /// The names of the [rules](crate::rules) by which the call may wait, the likeliest first.
    pub rules: Vec<SharedText>,
    /// Whether the call waits for a kernel that's not loaded yet (`launches`, `handles`) and would return without it.
    pub waits_for_load: bool,
    /// Whether the kernel that the call is about was loaded before.
    pub is_loaded: bool,
    /// The streams that are busy, or `None` if the driver didn't answer.
    pub busy: Option<Vec<Running>>,
    /// Launches that wait on the device because their kernels were not loaded.
    pub launches: Vec<UnloadedLaunch>,
    /// Kernels whose handles were obtained, and which will be loaded when the device is idle.
    pub handles: Option<UnloadedHandles>,
    /// The other threads that are in a call.
    pub threads: Vec<ThreadInCall>,
    /// How long the call may take until the program is aborted, in milliseconds, if the call may just wait for long work.
    pub aborts_after_ms: Option<u64>,
}

/// A busy stream, and the work in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Running {
    /// The handle of the stream, or 0.
    pub stream: u64,
    /// The work that was launched last in the stream.
    pub what: Work,
    /// The thread that launched it.
    pub thread: u32,
    /// Whether the hanging call is this launch: it's not running yet, but work before it in the stream is.
    pub is_own: bool,
}

/// Work in a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(tag = "type", rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Work {
    /// A wait for a word in memory.
    #[default]
    Wait,
    /// A kernel.
    Kernel {
        /// Its symbol.
        symbol: SharedText,
    },
    /// A kernel whose name isn't known.
    Handle {
        /// Its handle.
        handle: u64,
    },
}

/// A launch that waits on the device because its kernel was not loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct UnloadedLaunch {
    /// The kernel's symbol.
    pub kernel: SharedText,
    /// The handle of the stream, or 0.
    pub stream: u64,
    /// The thread that launched it.
    pub thread: u32,
    /// The library that made the launch and the function in it, or nothing.
    pub caller: SharedText,
    /// The streams that were busy at the launch.
    pub running: Vec<Running>,
}

/// Kernels whose handles were obtained before they were loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct UnloadedHandles {
    /// The symbols of a few of the kernels.
    pub kernels: Vec<SharedText>,
    /// The number of these kernels.
    pub count: u32,
    /// The streams that were busy when a handle was obtained.
    pub running: Vec<Running>,
}

/// A thread that is in a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ThreadInCall {
    /// The thread, by its number in the operating system.
    pub thread: u32,
    /// The driver's function.
    pub call: SharedText,
}

coded_struct!(Explanation {
    rules,
    waits_for_load,
    is_loaded,
    busy,
    launches,
    handles,
    threads,
    aborts_after_ms,
});
coded_struct!(Running { stream, what, thread, is_own });
coded_struct!(UnloadedLaunch { kernel, stream, thread, caller, running });
coded_struct!(UnloadedHandles { kernels, count, running });
coded_struct!(ThreadInCall { thread, call });

impl Coded for Work {
    fn encode(&self, to: &mut Vec<u8>) {
        match self {
            Work::Wait => 0_u8.encode(to),
            Work::Kernel { symbol } => {
                1_u8.encode(to);
                symbol.encode(to);
            }
            Work::Handle { handle } => {
                2_u8.encode(to);
                handle.encode(to);
            }
        }
    }

    fn decode(from: &mut &[u8]) -> Option<Self> {
        match u8::decode(from)? {
            0 => Some(Work::Wait),
            1 => SharedText::decode(from).map(|symbol| Work::Kernel { symbol }),
            2 => u64::decode(from).map(|handle| Work::Handle { handle }),
            _ => None,
        }
    }
}

impl Explanation {
    /// Returns the explanation of a hang about which nothing is known.
    pub const fn none() -> Self {
        Explanation {
            rules: Vec::new(),
            waits_for_load: false,
            is_loaded: true,
            busy: None,
            launches: Vec::new(),
            handles: None,
            threads: Vec::new(),
            aborts_after_ms: None,
        }
    }

    /// Encodes the explanation for a record. Long lists lose their ends, so that the bytes fit into one text.
    pub fn to_bytes(&self) -> Vec<u8> {
        let (mut fitting, mut most) = (self.clone(), 64);
        loop {
            fitting.launches.truncate(most);
            fitting.threads.truncate(most);
            let running = fitting.launches.iter_mut().map(|launch| &mut launch.running);
            let running = running.chain(fitting.handles.iter_mut().map(|handles| &mut handles.running));
            running.chain(&mut fitting.busy).for_each(|running| running.truncate(most));
            let mut bytes = Vec::new();
            fitting.encode(&mut bytes);
            if bytes.len() <= LONGEST || most == 0 {
                return bytes;
            }
            most /= 2;
        }
    }

    /// Decodes the bytes of a record. Returns `None` if they aren't exactly an explanation.
    pub fn from_bytes(mut bytes: &[u8]) -> Option<Self> {
        Explanation::decode(&mut bytes).filter(|_| bytes.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explanation(streams: usize, symbol: &str) -> Explanation {
        let what = Work::Kernel { symbol: symbol.into() };
        let running = vec![Running { stream: 0x20, what, thread: 7, is_own: false }; streams];
        let (kernel, caller) = ("late".into(), "libdemo.so launch".into());
        Explanation {
            rules: vec!["load".into()],
            waits_for_load: true,
            is_loaded: false,
            busy: Some(running.clone()),
            launches: vec![UnloadedLaunch { kernel, stream: 0, thread: 8, caller, running: running.clone() }],
            handles: Some(UnloadedHandles { kernels: vec!["a".into()], count: 9, running }),
            threads: vec![ThreadInCall { thread: 9, call: "cuMemAlloc_v2".into() }],
            aborts_after_ms: Some(1),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let written = explanation(2, "_Z4spinPj");
        let bytes = written.to_bytes();
        assert_eq!(Explanation::from_bytes(&bytes), Some(written));
        for end in 0..bytes.len() {
            assert_eq!(Explanation::from_bytes(&bytes[..end]), None, "{end}");
        }
        for at in 0..bytes.len() {
            let mut other = bytes.clone();
            other[at] ^= 0xff;
            let _ = Explanation::from_bytes(&other);
        }
    }

    #[test]
    fn a_long_one_is_cut_to_what_a_record_takes() {
        let bytes = explanation(1000, &"é".repeat(900)).to_bytes();
        assert!(bytes.len() <= LONGEST, "{}", bytes.len());
        let read = Explanation::from_bytes(&bytes).expect("an explanation");
        assert!(read.busy.is_some_and(|busy| busy.len() > 1));
    }
}

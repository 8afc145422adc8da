//! Sections of resident kernels, as far as the library and the audit agree on them.

/// What an audit does with calls that would wait for a resident kernel. The strictest is last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum OnWait {
    /// They are made, and are findings of the audit.
    Report,
    /// What frees memory or unloads code is done when the kernel has ended. Other calls are refused.
    #[default]
    Defer,
    /// They return `CUDA_ERROR_NOT_PERMITTED`, and a line on standard error says why.
    Refuse,
}

impl OnWait {
    /// The number that stands for it between the library and the audit.
    ///
    /// ```
    /// use kernel_registry_cuda::OnWait;
    ///
    /// assert_eq!([0, 1, 2].map(|code| OnWait::from_code(code).code()), [0, 1, 2]);
    /// assert_eq!(OnWait::from_code(77), OnWait::Refuse);
    /// ```
    pub const fn code(self) -> u32 {
        match self {
            OnWait::Refuse => 0,
            OnWait::Report => 1,
            OnWait::Defer => 2,
        }
    }

    /// What a number stands for. One that is unknown stands for the strictest.
    pub const fn from_code(code: u32) -> Self {
        match code {
            1 => OnWait::Report,
            2 => OnWait::Defer,
            _ => OnWait::Refuse,
        }
    }
}

/// The mark of a stream in a set of 64 bits, which other streams may share. So a launch in another stream costs one load and a mask.
#[inline]
pub const fn stream_mark(handle: u64) -> u64 {
    1 << (handle.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58)
}

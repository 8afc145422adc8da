//! Types shared by the library and the audit for sections, during which resident kernels run.

/// How to treat calls that would wait for a resident kernel, from the mildest to the strictest. An audit
/// enforces it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum OnWait {
    /// Makes the calls, and reports them as findings.
    Report,
    /// Defers calls that free memory or unload code until the kernel has ended, and refuses other calls.
    #[default]
    Defer,
    /// Refuses the calls: they return `CUDA_ERROR_NOT_PERMITTED`, and a line on standard error says why.
    Refuse,
}

impl OnWait {
    /// Returns the number that the library passes to the audit for this value.
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

    /// Returns the value for a number. An unknown number means the strictest value.
    pub const fn from_code(code: u32) -> Self {
        match code {
            1 => OnWait::Report,
            2 => OnWait::Defer,
            _ => OnWait::Refuse,
        }
    }
}

/// Returns the mark of a stream: one bit of 64, which other streams may share. Given a set of such bits, a
/// launch in an unmarked stream costs only one load and a mask.
#[inline]
pub const fn stream_mark(handle: u64) -> u64 {
    1 << (handle.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58)
}

//! Set-up that the driver does in a context at the first launch of a kernel that needs it.

/// A set of such set-up, either needed by kernels or done in a context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Primed {
    /// A launch of any kernel.
    pub(crate) launch: bool,
    pub(crate) printf: bool,
    pub(crate) assert: bool,
    pub(crate) malloc: bool,
}

impl Primed {
    pub(crate) const EVERYTHING: Primed = Primed { launch: true, printf: true, assert: true, malloc: true };

    /// After a change of the stack limit the next launch of any kernel waits.
    pub(crate) const LAUNCH: Primed = Primed { launch: true, printf: false, assert: false, malloc: false };

    pub(crate) fn or(self, other: Self) -> Self {
        Primed {
            launch: self.launch || other.launch,
            printf: self.printf || other.printf,
            assert: self.assert || other.assert,
            malloc: self.malloc || other.malloc,
        }
    }

    pub(crate) fn but_not(self, done: Self) -> Self {
        Primed {
            launch: self.launch && !done.launch,
            printf: self.printf && !done.printf,
            assert: self.assert && !done.assert,
            malloc: self.malloc && !done.malloc,
        }
    }
}

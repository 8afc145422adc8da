//! What the linker has.

use super::abi::JitOptions;

/// Images that are to become one.
#[derive(Debug)]
pub(super) struct Link {
    /// Where to say what is wrong.
    pub(super) options: JitOptions,
    pub(super) input: Option<Vec<u8>>,
    /// What came of it, which the caller reads until the linker is destroyed.
    output: Option<Vec<u8>>,
}

impl Link {
    pub(super) fn new(options: JitOptions) -> Self {
        Link { options, input: None, output: None }
    }

    /// The image, which ends with a zero, if there is anything to make it of.
    pub(super) fn complete(&mut self) -> Option<&[u8]> {
        if self.output.is_none() {
            let mut output = self.input.clone()?;
            output.push(0);
            self.output = Some(output);
        }
        self.output.as_deref()
    }
}

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

    /// The image, which ends with a zero. Of nothing it is one without kernels.
    pub(super) fn complete(&mut self) -> &[u8] {
        const NOTHING: &[u8] = b".version 8.0\n.target sm_80\n.address_size 64\n";
        let input = self.input.as_deref().unwrap_or(NOTHING);
        self.output.get_or_insert_with(|| [input, &[0]].concat())
    }
}

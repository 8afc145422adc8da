//! The CUDA C++ header `kernel_registry.cuh`, for the sources of resident kernels.

/// The file name in `#include` directives.
pub const NAME: &str = "kernel_registry.cuh";

/// The text of the header.
pub const TEXT: &str = include_str!("../include/kernel_registry.cuh");

/// The layout version of the structures that the header shares with the host. Both sides compare their
/// versions.
pub const LAYOUT: u32 = 2;

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn both_sides_have_the_same_layout() {
        assert!(TEXT.contains(&alloc::format!("enum : unsigned int {{ LAYOUT = {LAYOUT} }};\n")));
    }
}

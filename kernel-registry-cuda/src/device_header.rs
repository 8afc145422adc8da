//! The header for CUDA sources of resident kernels.

/// The name by which sources include it.
pub const NAME: &str = "kernel_registry.cuh";

/// Its text.
pub const TEXT: &str = include_str!("../include/kernel_registry.cuh");

/// The version of the structures that it shares with the host.
pub const LAYOUT: u32 = 2;

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn both_sides_have_the_same_layout() {
        assert!(TEXT.contains(&alloc::format!("enum : unsigned int {{ LAYOUT = {LAYOUT} }};\n")));
    }
}

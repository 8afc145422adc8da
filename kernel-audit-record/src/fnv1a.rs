//! Hashes contents. The hash stays the same in every version of this crate.

/// Returns the 64-bit FNV-1a hash of bytes, or of larger numbers, each in one step.
pub fn fnv1a(numbers: impl IntoIterator<Item = impl Into<u64>>) -> u64 {
    let step = |hash: u64, number: u64| (hash ^ number).wrapping_mul(0x0100_0000_01b3);
    numbers.into_iter().map(Into::into).fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_of_a_letter_is_as_published() {
        assert_eq!(fnv1a(*b"a"), 0xaf63_dc4c_8601_ec8c);
    }
}

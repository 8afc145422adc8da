//! SHA-256 (FIPS 180-4). The crates that compute it bring eight packages, a fifteenth of the time of a first build, and
//! the speed that they are for is not needed here.

/// The state before the first block: of the square roots of the first primes.
const START: [u32; 8] =
    [0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19];

/// Of the cube roots of the first primes, one for each round.
#[rustfmt::skip]
const ROUNDS: [u32; 64] = [
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
];

const BLOCK: usize = 64;

/// The hash of these bytes.
pub(crate) fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut state = START;
    let (blocks, rest) = bytes.as_chunks::<BLOCK>();
    blocks.iter().for_each(|block| compress(&mut state, block));
    // The end: a bit, zeros, and the length in bits.
    let mut end = rest.to_vec();
    end.push(0x80);
    end.resize((end.len() + 8).next_multiple_of(BLOCK) - 8, 0);
    end.extend((bytes.len() as u64 * 8).to_be_bytes());
    end.as_chunks::<BLOCK>().0.iter().for_each(|block| compress(&mut state, block));
    let mut hash = [0; 32];
    for (place, word) in hash.as_chunks_mut::<4>().0.iter_mut().zip(state) {
        *place = word.to_be_bytes();
    }
    hash
}

fn compress(state: &mut [u32; 8], block: &[u8; BLOCK]) {
    let mut words = [0_u32; 64];
    for (word, bytes) in words.iter_mut().zip(block.as_chunks::<4>().0) {
        *word = u32::from_be_bytes(*bytes);
    }
    for i in 16..64 {
        let (two, fifteen) = (words[i - 2], words[i - 15]);
        let near = two.rotate_right(17) ^ two.rotate_right(19) ^ (two >> 10);
        let far = fifteen.rotate_right(7) ^ fifteen.rotate_right(18) ^ (fifteen >> 3);
        words[i] = words[i - 16].wrapping_add(far).wrapping_add(words[i - 7]).wrapping_add(near);
    }
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
    for (word, round) in words.iter().zip(ROUNDS) {
        let mixed = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
        let choice = (e & f) ^ (!e & g);
        let first = h.wrapping_add(mixed).wrapping_add(choice).wrapping_add(round).wrapping_add(*word);
        let mixed = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
        let majority = (a & b) ^ (a & c) ^ (b & c);
        (h, g, f, e) = (g, f, e, d.wrapping_add(first));
        (d, c, b, a) = (c, b, a, first.wrapping_add(mixed.wrapping_add(majority)));
    }
    for (sum, word) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
        *sum = sum.wrapping_add(word);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &[u8]) -> String {
        sha256(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The examples of FIPS 180-4 and of NIST's test vectors.
    #[test]
    fn known_hashes() {
        let two_blocks = b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
        for (bytes, hash) in [
            (&b""[..], "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
            (b"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
            (two_blocks, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"),
            (&[0xbd], "68325720aabd7c82f30f554b313d0570c95accbb7dc4b5aae11204c08ffe732b"),
            (&[b'a'; 1_000_000], "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"),
        ] {
            assert_eq!(text(bytes), hash);
        }
    }

    #[test]
    fn every_length_has_room_for_its_end() {
        use sha2::{Digest, Sha256};
        let bytes: Vec<u8> = (0..300).map(|i| (i * 7) as u8).collect();
        for length in 0..bytes.len() {
            assert_eq!(sha256(&bytes[..length])[..], Sha256::digest(&bytes[..length])[..], "{length}");
        }
    }
}

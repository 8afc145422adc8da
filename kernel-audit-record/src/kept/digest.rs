//! SHA-256 digests. They're cryptographic because a digest is all that ties a preload to code that will run.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

/// A digest of 256 bits. Its text has 64 hexadecimal digits.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub(super) [u8; 32]);

impl Digest {
    /// Returns the digest of these bytes.
    pub fn new(bytes: &[u8]) -> Self {
        Digest(Sha256::digest(bytes).into())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let digits = text.as_bytes();
        if digits.len() != 64 || !digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(());
        }
        let mut digest = [0; 32];
        for (byte, digits) in digest.iter_mut().zip(digits.chunks(2)) {
            let text = str::from_utf8(digits).map_err(drop)?;
            *byte = u8::from_str_radix(text, 16).map_err(drop)?;
        }
        Ok(Digest(digest))
    }
}

/// Hashes a list of texts. Each is prefixed with its length, so that no two lists are hashed alike.
#[derive(Clone)]
pub struct Hasher(Sha256);

impl Hasher {
    /// Returns a hasher whose digests never equal those for another purpose.
    pub fn new(purpose: &str) -> Self {
        let mut hasher = Hasher(Sha256::new());
        hasher.add(purpose.as_bytes());
        hasher
    }

    /// Adds a text.
    pub fn add(&mut self, text: &[u8]) {
        self.0.update((text.len() as u64).to_le_bytes());
        self.0.update(text);
    }

    /// Returns the digest of all texts.
    pub fn digest(self) -> Digest {
        Digest(self.0.finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_its_digits() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Digest::new(b"").to_string(), empty);
        assert_eq!(empty.parse(), Ok(Digest::new(b"")));
        for wrong in ["", "e3", &empty[1..], &empty.to_uppercase(), &empty.replace('e', "+")] {
            assert!(wrong.parse::<Digest>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn lists_of_texts_differ_where_their_ends_do() {
        let digest = |texts: &[&str]| {
            let mut hasher = Hasher::new("test");
            texts.iter().for_each(|text| hasher.add(text.as_bytes()));
            hasher.digest()
        };
        assert_ne!(digest(&["ab", "c"]), digest(&["a", "bc"]));
        assert_ne!(digest(&["a", ""]), digest(&["a"]));
    }
}

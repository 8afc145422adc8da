//! A file with the results of a GPU.

use std::collections::HashMap;

use super::case::Case;

/// Results by the key of their case. The file has the key, the length and the bytes of each result.
pub struct Recording {
    results: HashMap<u64, Vec<u8>>,
}

impl Recording {
    /// Reads a file. Returns `None` if the file is cut off.
    pub fn read(mut bytes: &[u8]) -> Option<Self> {
        let mut results = HashMap::new();
        while !bytes.is_empty() {
            let (key, rest) = bytes.split_first_chunk::<8>()?;
            let (length, rest) = rest.split_first_chunk::<4>()?;
            let (result, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
            results.insert(u64::from_le_bytes(*key), result.to_vec());
            bytes = rest;
        }
        Some(Self { results })
    }

    /// Appends a result to a file.
    pub fn add(file: &mut Vec<u8>, case: &Case, result: &[u8]) {
        file.extend(case.key().to_le_bytes());
        file.extend((result.len() as u32).to_le_bytes());
        file.extend(result);
    }

    /// Returns the number of results.
    pub fn len(&self) -> usize {
        self.results.len()
    }

    pub fn result(&self, case: &Case) -> Option<&[u8]> {
        self.results.get(&case.key()).map(Vec::as_slice)
    }
}

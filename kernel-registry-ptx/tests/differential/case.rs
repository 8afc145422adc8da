//! A test case: one launch that a GPU and the interpreter can both run.

/// A kernel, and everything that its launch needs.
pub struct Case {
    pub name: String,
    pub text: String,
    pub kernel: String,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub shared: u32,
    pub arguments: Vec<Argument>,
}

pub enum Argument {
    /// The bytes of a parameter.
    Value(Vec<u8>),
    /// A pointer to memory with these bytes.
    Input(Vec<u8>),
    /// A pointer to memory with these bytes. The content of the memory after the run is a result.
    Output(Vec<u8>),
}

impl Case {
    /// Returns the key of this case in recordings. The key is a hash of everything that the result depends
    /// on.
    pub fn key(&self) -> u64 {
        let mut hash = Hash(0xcbf2_9ce4_8422_2325);
        hash.add(self.text.as_bytes());
        hash.add(self.kernel.as_bytes());
        for number in self.grid.into_iter().chain(self.block).chain([self.shared]) {
            hash.add(&number.to_le_bytes());
        }
        for argument in &self.arguments {
            match argument {
                Argument::Value(bytes) | Argument::Input(bytes) | Argument::Output(bytes) => hash.add(bytes),
            }
        }
        hash.0
    }
}

/// The state of a 64-bit FNV-1a hash.
struct Hash(u64);

impl Hash {
    fn add(&mut self, bytes: &[u8]) {
        // The length is hashed first, so that two parts don't have the same hash as their concatenation.
        for byte in (bytes.len() as u64).to_le_bytes().iter().chain(bytes) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

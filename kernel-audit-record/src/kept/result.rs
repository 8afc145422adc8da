//! A cached result of NVRTC, and its encoding in a file.

use std::io;

use super::digest::Digest;

/// The first bytes of a file. They end with the version of the format.
const MAGIC: &[u8; 8] = b"KRNVRTC3";

/// Limits the lengths of the lists in a file.
const MOST: u32 = 1 << 16;

/// A cached result: everything that NVRTC returned for a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[doc(hidden)]
pub struct Cached {
    /// The digest of the program, its options and the compiler.
    pub key: Digest,
    /// The program's name, or its first name expression.
    pub name: String,
    /// The outputs, in the order of the functions that return them.
    pub parts: Vec<Part>,
    /// Pairs of name expression and lowered name.
    pub names: Vec<(Vec<u8>, Vec<u8>)>,
    /// The result is valid as long as none of these changes.
    pub dependencies: Vec<Dependency>,
}

/// Something that the compiler has read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub enum Dependency {
    Path {
        path: Vec<u8>,
        /// Whether the path is relative to the folder in the program's name, which differs between runs.
        in_folder: bool,
        state: PathState,
    },
    /// A variable of the environment, with the digest of its value, or `None` if it isn't set.
    Variable { name: Vec<u8>, value: Option<Digest> },
    /// The working directory.
    Directory(Digest),
}

/// The state of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub enum PathState {
    Missing,
    Folder,
    /// A file that the compiler didn't open.
    File,
    /// A file with this digest.
    Content(Digest),
}

/// The result of one function, such as `nvrtcGetPTX`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[doc(hidden)]
pub struct Part {
    /// The returned code: 0 is success.
    pub answer: u32,
    pub bytes: Vec<u8>,
}

impl Cached {
    /// Returns the size of all outputs in bytes.
    pub fn size(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes.len() as u64).sum()
    }

    /// Returns the contents of the result's file.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        let add = |bytes: &mut Vec<u8>, text: &[u8]| {
            bytes.extend((text.len() as u32).to_le_bytes());
            bytes.extend_from_slice(text);
        };
        bytes.extend(self.key.0);
        add(&mut bytes, self.name.as_bytes());
        bytes.extend((self.parts.len() as u32).to_le_bytes());
        for part in &self.parts {
            bytes.extend(part.answer.to_le_bytes());
            add(&mut bytes, &part.bytes);
        }
        bytes.extend((self.names.len() as u32).to_le_bytes());
        for (name, lowered) in &self.names {
            add(&mut bytes, name);
            add(&mut bytes, lowered);
        }
        bytes.extend((self.dependencies.len() as u32).to_le_bytes());
        for dependency in &self.dependencies {
            let (kind, digest) = dependency.code();
            bytes.push(kind);
            match dependency {
                Dependency::Path { path: text, .. } | Dependency::Variable { name: text, .. } => {
                    add(&mut bytes, text);
                }
                Dependency::Directory(_) => {}
            }
            bytes.extend(digest.iter().flat_map(|digest| digest.0));
        }
        bytes
    }

    /// Decodes the contents of a file. They may be hostile.
    pub fn decode(bytes: &[u8]) -> io::Result<Cached> {
        const DAMAGED: &str = "it's damaged, or of another version";
        let mut rest = Bytes(bytes);
        let mut read = || {
            if rest.take(MAGIC.len())? != MAGIC {
                return None;
            }
            let key = Digest(*rest.array()?);
            let name = String::from_utf8(rest.text()?.to_vec()).ok()?;
            let (mut parts, mut names, mut dependencies) = (Vec::new(), Vec::new(), Vec::new());
            for _ in 0..rest.count()? {
                parts.push(Part { answer: rest.number()?, bytes: rest.text()?.to_vec() });
            }
            for _ in 0..rest.count()? {
                names.push((rest.text()?.to_vec(), rest.text()?.to_vec()));
            }
            for _ in 0..rest.count()? {
                dependencies.push(rest.dependency()?);
            }
            rest.0.is_empty().then_some(Cached { key, name, parts, names, dependencies })
        };
        read().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, DAMAGED))
    }
}

impl Dependency {
    /// Returns the byte that encodes the kind of dependency, and the digest that follows, if any.
    fn code(&self) -> (u8, Option<Digest>) {
        match self {
            Dependency::Path { in_folder, state, .. } => {
                let (kind, digest) = match state {
                    PathState::Missing => (0, None),
                    PathState::Folder => (1, None),
                    PathState::File => (2, None),
                    PathState::Content(digest) => (3, Some(*digest)),
                };
                (kind + if *in_folder { IN_FOLDER } else { 0 }, digest)
            }
            Dependency::Variable { value: None, .. } => (4, None),
            Dependency::Variable { value, .. } => (5, *value),
            Dependency::Directory(digest) => (6, Some(*digest)),
        }
    }
}

/// Added to the kind of a path that is relative to the program's folder.
const IN_FOLDER: u8 = 16;

/// The bytes of a file that are left to decode.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const COUNT: usize>(&mut self) -> Option<&'a [u8; COUNT]> {
        self.take(COUNT)?.try_into().ok()
    }

    fn number(&mut self) -> Option<u32> {
        self.array().copied().map(u32::from_le_bytes)
    }

    fn count(&mut self) -> Option<u32> {
        self.number().filter(|count| *count <= MOST)
    }

    fn digest(&mut self) -> Option<Digest> {
        self.array().copied().map(Digest)
    }

    fn dependency(&mut self) -> Option<Dependency> {
        let [kind] = *self.array()?;
        let (in_folder, kind) = (kind >= IN_FOLDER, if kind >= IN_FOLDER { kind - IN_FOLDER } else { kind });
        if in_folder && kind > 3 {
            return None;
        }
        if kind == 6 {
            return Some(Dependency::Directory(self.digest()?));
        }
        let text = self.text()?.to_vec();
        let path = |state| Dependency::Path { path: text.clone(), in_folder, state };
        Some(match kind {
            0 => path(PathState::Missing),
            1 => path(PathState::Folder),
            2 => path(PathState::File),
            3 => path(PathState::Content(self.digest()?)),
            4 => Dependency::Variable { name: text, value: None },
            5 => Dependency::Variable { name: text, value: Some(self.digest()?) },
            _ => return None,
        })
    }

    /// Reads a length, and as many bytes.
    fn text(&mut self) -> Option<&'a [u8]> {
        let length = self.number()?;
        self.take(length as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kept::digest::Hasher;

    fn cached() -> Cached {
        let part = |answer, bytes: &[u8]| Part { answer, bytes: bytes.to_vec() };
        let mut hasher = Hasher::new("test");
        hasher.add(b"program");
        let digest = Digest::new(b"x");
        Cached {
            key: hasher.digest(),
            name: "saxpy".to_owned(),
            parts: vec![part(0, b"ptx"), part(7, b"")],
            names: vec![(b"k<int>".to_vec(), b"_Z1kIiEvv".to_vec())],
            dependencies: [
                PathState::Missing,
                PathState::Folder,
                PathState::File,
                PathState::Content(digest),
            ]
            .map(|state| Dependency::Path {
                path: b"x.h".to_vec(),
                in_folder: state == PathState::File,
                state,
            })
            .into_iter()
            .chain([None, Some(digest)].map(|value| Dependency::Variable { name: b"X".to_vec(), value }))
            .chain([Dependency::Directory(digest)])
            .collect(),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let bytes = cached().encode();
        assert_eq!(Cached::decode(&bytes).unwrap(), cached());
        assert_eq!(cached().size(), 3);
    }

    #[test]
    fn damaged_bytes_are_an_error_or_another_result() {
        let bytes = cached().encode();
        for end in 0..bytes.len() {
            assert!(Cached::decode(&bytes[..end]).is_err(), "{end}");
        }
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                assert_ne!(Cached::decode(&damaged).ok(), Some(cached()), "{at}");
            }
        }
        assert!(Cached::decode(&[bytes, vec![0]].concat()).is_err());
    }
}

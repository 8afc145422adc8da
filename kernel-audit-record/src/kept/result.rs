//! A result of NVRTC, and the bytes of its file.

use std::io;

use super::digest::Digest;

/// The first bytes of a file. The number is that of its format.
const MAGIC: &[u8; 8] = b"KRNVRTC3";

/// The most parts and names that a file can have.
const MOST: u32 = 1 << 16;

/// What NVRTC made of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[doc(hidden)]
pub struct Kept {
    /// The digest of all that the result depends on.
    pub key: Digest,
    /// The name of the program, as its author gave it, or a kernel of it.
    pub name: String,
    /// What the functions of NVRTC that return results answered, in their order.
    pub parts: Vec<Part>,
    /// Names in the program, and how the compiler has lowered them.
    pub names: Vec<(Vec<u8>, Vec<u8>)>,
    /// What the compiler asked for. The result holds as long as the answers are the same.
    pub dependencies: Vec<Dependency>,
}

/// Something that the compiler asked for, and the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub enum Dependency {
    Path {
        /// The path, as the compiler named it.
        path: Vec<u8>,
        /// Whether the path is relative to the folder of the program's name, which the next run may choose anew.
        in_folder: bool,
        was: Was,
    },
    /// A variable of the environment. The digest is that of its value, or none if it isn't set.
    Variable { name: Vec<u8>, value: Option<Digest> },
    /// The working directory.
    Directory(Digest),
}

/// What was at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub enum Was {
    Missing,
    Folder,
    /// Something that the compiler did not open.
    File,
    /// A file with contents of this digest.
    Content(Digest),
}

/// What one function of NVRTC answered, such as `nvrtcGetPTX`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[doc(hidden)]
pub struct Part {
    /// The answer: 0 is success.
    pub answer: u32,
    /// The bytes that it stored.
    pub bytes: Vec<u8>,
}

impl Kept {
    /// The size of the results in bytes.
    pub fn size(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes.len() as u64).sum()
    }

    /// The bytes of its file.
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

    /// Reads the bytes of a file, which may be any bytes.
    pub fn decode(bytes: &[u8]) -> io::Result<Kept> {
        const DAMAGED: &str = "it is damaged, or of another version";
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
            rest.0.is_empty().then_some(Kept { key, name, parts, names, dependencies })
        };
        read().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, DAMAGED))
    }
}

impl Dependency {
    /// Returns the byte that tells the variant and what was there, and the digest in the file, if any.
    fn code(&self) -> (u8, Option<Digest>) {
        match self {
            Dependency::Path { in_folder, was, .. } => {
                let (kind, digest) = match was {
                    Was::Missing => (0, None),
                    Was::Folder => (1, None),
                    Was::File => (2, None),
                    Was::Content(digest) => (3, Some(*digest)),
                };
                (kind + if *in_folder { IN_FOLDER } else { 0 }, digest)
            }
            Dependency::Variable { value: None, .. } => (4, None),
            Dependency::Variable { value, .. } => (5, *value),
            Dependency::Directory(digest) => (6, Some(*digest)),
        }
    }
}

/// Added to the byte of a path that is relative to the program's folder.
const IN_FOLDER: u8 = 16;

/// The bytes of a file that were not read yet.
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
        let path = |was| Dependency::Path { path: text.clone(), in_folder, was };
        Some(match kind {
            0 => path(Was::Missing),
            1 => path(Was::Folder),
            2 => path(Was::File),
            3 => path(Was::Content(self.digest()?)),
            4 => Dependency::Variable { name: text, value: None },
            5 => Dependency::Variable { name: text, value: Some(self.digest()?) },
            _ => return None,
        })
    }

    /// Bytes behind their length.
    fn text(&mut self) -> Option<&'a [u8]> {
        let length = self.number()?;
        self.take(length as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kept::digest::Hasher;

    fn kept() -> Kept {
        let part = |answer, bytes: &[u8]| Part { answer, bytes: bytes.to_vec() };
        let mut hasher = Hasher::new("test");
        hasher.add(b"program");
        let digest = Digest::new(b"x");
        Kept {
            key: hasher.digest(),
            name: "saxpy".to_owned(),
            parts: vec![part(0, b"ptx"), part(7, b"")],
            names: vec![(b"k<int>".to_vec(), b"_Z1kIiEvv".to_vec())],
            dependencies: [Was::Missing, Was::Folder, Was::File, Was::Content(digest)]
                .map(|was| Dependency::Path { path: b"x.h".to_vec(), in_folder: was == Was::File, was })
                .into_iter()
                .chain([None, Some(digest)].map(|value| Dependency::Variable { name: b"X".to_vec(), value }))
                .chain([Dependency::Directory(digest)])
                .collect(),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let bytes = kept().encode();
        assert_eq!(Kept::decode(&bytes).unwrap(), kept());
        assert_eq!(kept().size(), 3);
    }

    #[test]
    fn damaged_bytes_are_an_error_or_another_result() {
        let bytes = kept().encode();
        for end in 0..bytes.len() {
            assert!(Kept::decode(&bytes[..end]).is_err(), "{end}");
        }
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                assert_ne!(Kept::decode(&damaged).ok(), Some(kept()), "{at}");
            }
        }
        assert!(Kept::decode(&[bytes, vec![0]].concat()).is_err());
    }
}

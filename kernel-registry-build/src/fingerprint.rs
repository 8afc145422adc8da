//! Records the inputs of each image in a small file next to it, so that nothing is compiled twice.

use std::fmt::Write as _;
use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kernel_registry_cuda::device_header;
use sha2::{Digest, Sha256};

use crate::{Result, files};

/// The version of the format, raised when the file's meaning or a key's contents change.
const VERSION: &str = "kernel-registry fingerprint 1";

/// The inputs of an image, and the warnings of its compilation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    /// The hash of compiler, options and variables.
    pub(crate) key: String,
    /// The compiler, with its version.
    pub(crate) origin: String,
    /// The source and its headers.
    pub(crate) files: Vec<Stamp>,
    /// The hash of the device header, if one of the files includes it.
    pub(crate) device_header: Option<String>,
    /// The compiler's warnings, which later builds print again.
    pub(crate) warnings: Vec<String>,
}

/// The state of a file when an image was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) path: PathBuf,
    length: u64,
    /// The modification time, since 1970. A file with the same time and length isn't read again.
    modified: Duration,
    hash: String,
}

impl Fingerprint {
    /// Returns the current state of the files. `None` if a file changed after `since`, because the compiler
    /// may have read its earlier content.
    pub(crate) fn stamp(files: &[PathBuf], since: SystemTime) -> Option<Vec<Stamp>> {
        let since = since.duration_since(UNIX_EPOCH).ok()?;
        files.iter().map(|path| Stamp::take(path).filter(|stamp| stamp.modified <= since)).collect()
    }

    /// Returns the fingerprint of an image that is up to date.
    pub(crate) fn current(image: &Path, key: &str) -> Option<Self> {
        let there = Self::parse(&fs::read_to_string(fingerprint_path(image)).ok()?)?;
        let has_header = there.device_header.iter().all(|hash| *hash == hash_device_header());
        let is_current =
            there.key == key && has_header && image.is_file() && there.files.iter().all(Stamp::is_unchanged);
        is_current.then_some(there)
    }

    /// Writes the fingerprint next to the image.
    pub(crate) fn write(&self, image: &Path) -> Result<()> {
        files::replace(&fingerprint_path(image), self.print().as_bytes())
    }

    /// Removes the fingerprint of an image that is about to be replaced.
    pub(crate) fn forget(image: &Path) {
        // There may be none.
        let _ = fs::remove_file(fingerprint_path(image));
    }

    fn print(&self) -> String {
        let mut text = format!("{VERSION}\nkey {}\norigin {}\n", self.key, self.origin);
        for stamp in &self.files {
            let _ = writeln!(text, "file {}", stamp.print());
        }
        if let Some(hash) = &self.device_header {
            let _ = writeln!(text, "header {hash}");
        }
        for line in &self.warnings {
            let _ = writeln!(text, "warning {line}");
        }
        text.push_str("end\n");
        text
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.strip_suffix("end\n")?.lines();
        if lines.next()? != VERSION {
            return None;
        }
        let mut fingerprint = Fingerprint::default();
        for line in lines {
            let (kind, rest) = line.split_once(' ')?;
            match kind {
                "key" => fingerprint.key = rest.to_owned(),
                "origin" => fingerprint.origin = rest.to_owned(),
                "file" => fingerprint.files.push(Stamp::parse(rest)?),
                "header" => fingerprint.device_header = Some(rest.to_owned()),
                "warning" => fingerprint.warnings.push(rest.to_owned()),
                _ => return None,
            }
        }
        Some(fingerprint)
    }
}

impl Stamp {
    fn take(path: &Path) -> Option<Self> {
        // The time is read before the bytes, so that it's too old rather than too new if the file changes in
        // between.
        let metadata = fs::metadata(path).ok()?;
        let bytes = fs::read(path).ok()?;
        let modified = modified(&metadata)?;
        // A path with a line break doesn't fit into a fingerprint, so such an image is made again by each
        // build.
        let plain = path.to_str().is_some_and(|path| !path.contains(['\n', '\r']));
        plain.then(|| Stamp { path: path.to_owned(), length: metadata.len(), modified, hash: hash(&bytes) })
    }

    /// Returns whether the file still has the same content.
    fn is_unchanged(&self) -> bool {
        let Ok(metadata) = fs::metadata(&self.path) else { return false };
        metadata.len() == self.length
            && (modified(&metadata) == Some(self.modified)
                || fs::read(&self.path).is_ok_and(|bytes| hash(&bytes) == self.hash))
    }

    fn print(&self) -> String {
        let Stamp { path, length, modified, hash } = self;
        format!("{hash} {length} {} {}", modified.as_nanos(), path.display())
    }

    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(4, ' ');
        let hash = parts.next()?.to_owned();
        let length = parts.next()?.parse().ok()?;
        let nanoseconds: u64 = parts.next()?.parse().ok()?;
        let path = PathBuf::from(parts.next()?);
        Some(Stamp { path, length, modified: Duration::from_nanos(nanoseconds), hash })
    }
}

/// Returns the hash of bytes, as text. It's cryptographic because prebuilt images are trusted by it.
pub(crate) fn hash(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in Sha256::digest(bytes) {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Returns the hash of the device header.
pub(crate) fn hash_device_header() -> String {
    hash(device_header::TEXT.as_bytes())
}

/// Returns the hash of a list of texts. It depends on where each text ends.
pub(crate) fn hash_all<T: AsRef<[u8]>>(parts: impl IntoIterator<Item = T>) -> String {
    let mut all = Vec::new();
    for part in parts {
        all.extend((part.as_ref().len() as u64).to_le_bytes());
        all.extend(part.as_ref());
    }
    hash(&all)
}

/// Returns a text that changes when a compiler is updated at the same path.
pub(crate) fn identity(path: &Path) -> String {
    let seen = fs::metadata(path).ok();
    let modified = seen.as_ref().and_then(modified).unwrap_or_default().as_nanos();
    format!("{} {} {modified}", path.display(), seen.map_or(0, |metadata| metadata.len()))
}

fn modified(metadata: &Metadata) -> Option<Duration> {
    metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()
}

/// Returns the path of an image's fingerprint.
fn fingerprint_path(image: &Path) -> PathBuf {
    let mut name = image.as_os_str().to_owned();
    name.push(".fingerprint");
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("a b.cu.fatbin");
        let source = folder.path().join("a b.cu");
        fs::write(&source, "one").unwrap();
        fs::write(&image, "image").unwrap();
        let fingerprint = Fingerprint {
            key: "key".into(),
            origin: "nvcc 13.0.88".into(),
            files: Fingerprint::stamp(std::slice::from_ref(&source), SystemTime::now()).unwrap(),
            device_header: Some(hash_device_header()),
            warnings: vec!["  two spaces".into(), String::new()],
        };
        fingerprint.write(&image).unwrap();
        assert_eq!(Fingerprint::current(&image, "key"), Some(fingerprint.clone()));
        assert_eq!(Fingerprint::current(&image, "other key"), None);

        // A new modification time alone isn't a change.
        fs::write(&source, "one").unwrap();
        assert!(Fingerprint::current(&image, "key").is_some());
        fs::write(&source, "two").unwrap();
        assert_eq!(Fingerprint::current(&image, "key"), None);
        fs::write(&source, "one").unwrap();
        // The image was made with the header of another version.
        Fingerprint { device_header: Some(hash(b"other")), ..fingerprint.clone() }.write(&image).unwrap();
        assert_eq!(Fingerprint::current(&image, "key"), None);
        fingerprint.write(&image).unwrap();
        assert!(Fingerprint::current(&image, "key").is_some());
        fs::remove_file(&image).unwrap();
        assert_eq!(Fingerprint::current(&image, "key"), None);
    }

    #[test]
    fn a_file_that_is_newer_than_the_compilation_has_no_stamp() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("a.cu");
        fs::write(&source, "one").unwrap();
        let before = SystemTime::now() - Duration::from_secs(60);
        assert_eq!(Fingerprint::stamp(&[source], before), None);
    }

    #[test]
    fn a_damaged_fingerprint_is_none() {
        for text in [
            "",
            "end\n",
            "kernel-registry fingerprint 1\nkey x\n",
            "kernel-registry fingerprint 1\nfile x\nend\n",
        ] {
            assert_eq!(Fingerprint::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn parts_do_not_run_together() {
        assert_ne!(hash_all(["ab", "c"]), hash_all(["a", "bc"]));
        assert_eq!(hash(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}

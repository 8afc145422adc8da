//! The build step's index, which maps each source to its compiled image. The build step writes it, and the
//! macro reads it.
//!
//! The index is the text file [`FILE`] in the folder [`FOLDER`] of `$OUT_DIR`. Each line describes one
//! source, with tabs between these fields: the source, its image, the image's origin, the structs that the
//! source defines, the names of its kernels' parameters, and the signature of each `extern "C"` kernel.
//!
//! ```
//! use kernel_registry_format::index::{Entry, entries, find};
//!
//! let blas1 = Entry {
//!     source: "cuda/blas1.cu",
//!     image: Some("cuda__blas1.cu.fatbin"),
//!     origin: "nvcc 13.0.88",
//!     signatures: "struct Pair { int a; };\tnames scale(n, x)\tscale(unsigned int, float*)\tfill(?, float*)",
//! };
//! let none = Entry { source: "cuda/none.cu", image: None, origin: "there is no CUDA compiler", signatures: "" };
//! let index = format!("{blas1}{none}");
//!
//! assert_eq!(find(&index, "cuda/blas1.cu"), Ok(Some(blas1)));
//! assert_eq!(find(&index, "cuda/none.cu"), Ok(Some(none)));
//! assert_eq!(find(&index, "cuda/other.cu"), Ok(None));
//! assert_eq!(entries(&index).collect::<Result<Vec<_>, _>>(), Ok(vec![blas1, none]));
//! assert_eq!(blas1.each_signature().count(), 2);
//! assert_eq!(blas1.structs(), "struct Pair { int a; };");
//! assert_eq!(blas1.param_names(), "scale(n, x)");
//! assert!(find("cuda/x.cu\tx\u{1b}[2J.ptx\tnvcc 13\n", "cuda/x.cu").is_err());
//! ```

use core::fmt::{self, Write as _};

use crate::is_control;

/// The folder in `$OUT_DIR` that holds the index and the images.
pub const FOLDER: &str = "kernel-registry";
/// The file name of the index in [`FOLDER`].
pub const FILE: &str = "index";
/// The marker file in [`FOLDER`] that exists if the build script has set [`VARIABLE`] for the package's
/// compilation.
pub const ANNOUNCED: &str = "announced";
/// The environment variable that a build script sets for the package's compilation if it makes images. A
/// build script that no longer makes images leaves its old files in `$OUT_DIR`, but doesn't set the variable.
pub const VARIABLE: &str = "KERNEL_REGISTRY_INDEX";
/// Takes the place of the image's name in a line without an image.
pub const NO_IMAGE: &str = "-";

/// The prefix of the field with structs. No signature begins like this.
const STRUCT: &str = "struct ";

/// The prefix of the field with the names of parameters. No signature begins like this.
pub const NAMES: &str = "names ";

/// One line of the index. `Display` writes that line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The path of the source, relative to the package, with slashes, without tabs and line breaks.
    pub source: &'a str,
    /// The file name of the image in the index's folder, if there is an image.
    pub image: Option<&'a str>,
    /// The compiler that made the image, or why there is no image.
    pub origin: &'a str,
    /// The structs that the source defines, as one C++ text (`struct A { int a; }; struct B { int b; };`),
    /// the names of parameters after [`NAMES`], and the signatures of `extern "C"` kernels, separated by
    /// tabs. Readers ignore fields that they can't parse.
    pub signatures: &'a str,
}

/// The error for an index line from another version of kernel-registry-build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherVersion;

/// Returns the entry of a source, if the index has one.
///
/// # Errors
///
/// [`OtherVersion`], if the line of the source has fewer than three fields, or control characters in them.
pub fn find<'a>(index: &'a str, source: &str) -> Result<Option<Entry<'a>>, OtherVersion> {
    let starts =
        |line: &&str| line.strip_prefix(source).is_some_and(|rest| rest.is_empty() || rest.starts_with('\t'));
    index.lines().find(starts).map(entry).transpose()
}

/// Returns all entries, in the order of the index.
///
/// # Errors
///
/// [`OtherVersion`], if a line has fewer than three fields, or control characters in them.
pub fn entries(index: &str) -> impl Iterator<Item = Result<Entry<'_>, OtherVersion>> {
    index.lines().map(entry)
}

fn entry(line: &str) -> Result<Entry<'_>, OtherVersion> {
    let (source, fields) = line.split_once('\t').ok_or(OtherVersion)?;
    let (image, fields) = fields.split_once('\t').ok_or(OtherVersion)?;
    let (origin, signatures) = fields.split_once('\t').unwrap_or((fields, ""));
    if [source, image, origin].iter().any(|field| field.contains(is_control)) {
        return Err(OtherVersion);
    }
    Ok(Entry { source, image: (image != NO_IMAGE).then_some(image), origin, signatures })
}

impl<'a> Entry<'a> {
    /// Returns the signatures one by one.
    pub fn each_signature(&self) -> impl Iterator<Item = &'a str> {
        self.signatures
            .split('\t')
            .filter(|text| !text.is_empty() && !text.starts_with(STRUCT) && !text.starts_with(NAMES))
    }

    /// Returns the names of the kernels' parameters, or an empty string.
    pub fn param_names(&self) -> &'a str {
        self.signatures.split('\t').find_map(|text| text.strip_prefix(NAMES)).unwrap_or_default()
    }

    /// Returns the text with the structs, or an empty string.
    pub fn structs(&self) -> &'a str {
        self.signatures.split('\t').find(|text| text.starts_with(STRUCT)).unwrap_or_default()
    }
}

impl fmt::Display for Entry<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Entry { source, image, origin, signatures } = self;
        write!(f, "{source}\t{}\t", image.unwrap_or(NO_IMAGE))?;
        for c in origin.chars() {
            f.write_char(if is_control(c) { ' ' } else { c })?;
        }
        if !signatures.is_empty() {
            write!(f, "\t{signatures}")?;
        }
        f.write_char('\n')
    }
}

impl fmt::Display for OtherVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the index of kernel-registry-build is of another version")
    }
}

impl core::error::Error for OtherVersion {}

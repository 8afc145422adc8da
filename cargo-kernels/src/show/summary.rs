//! What `show` has read: how many kernels, which images, and what of these could not be read.

use std::collections::BTreeSet;
use std::io::{self, Write};

use kernel_registry_image::{Image, ImageKind};
use serde::Serialize;

use super::alone::Alone;
use crate::binary::Contents;
use crate::embedded::Recorded;
use crate::plural::many;
use crate::unread::{Unread, UnreadVariant};

/// The images whose kernels are shown.
pub(crate) struct Summary<'a> {
    pub(super) images: Vec<ImageEntry<'a>>,
    pub(crate) unread: Unread,
}

#[derive(Serialize)]
pub(crate) struct ImageEntry<'a> {
    /// None for an image alone, as is what follows.
    binary: Option<String>,
    #[serde(rename = "crate")]
    package: Option<&'a str>,
    version: Option<&'a str>,
    file: String,
    kind: &'static str,
    bytes: u64,
    kernels: usize,
    variants: usize,
    unread: Vec<UnreadVariant>,
}

impl<'a> Summary<'a> {
    pub(super) fn new(images: Vec<ImageEntry<'a>>) -> Self {
        let mut unread = Unread::default();
        images.iter().for_each(|image| unread.add(&image.file, &image.unread));
        Summary { images, unread }
    }

    /// Writes the numbers of all kernels, and in any case what was not read.
    pub(super) fn write(&self, kernels: usize, are_all: bool, out: &mut impl Write) -> io::Result<()> {
        if are_all || !self.unread.sentences.is_empty() {
            writeln!(out, "\n{} of {}", many(kernels, "kernel"), many(self.images.len(), "image"))?;
        }
        self.unread.sentences.iter().try_for_each(|sentence| writeln!(out, "unread: {sentence}"))
    }
}

impl<'a> ImageEntry<'a> {
    pub(super) fn in_binary(binary: &Contents<'_>, recorded: &Recorded<'a>, image: &Image) -> Self {
        ImageEntry {
            binary: Some(binary.path.display().to_string()),
            package: Some(recorded.package),
            version: Some(recorded.version),
            ..ImageEntry::new(recorded.file.to_owned(), recorded.len, image)
        }
    }

    pub(super) fn alone(Alone { file, bytes, image }: &Alone<'_>) -> Self {
        ImageEntry::new(file.display().to_string(), *bytes as u64, image)
    }

    fn new(file: String, bytes: u64, image: &Image) -> Self {
        let entries = image.variants.iter().flat_map(|variant| &variant.entries);
        let symbols: BTreeSet<&str> = entries.map(|entry| entry.symbol.as_str()).collect();
        ImageEntry {
            binary: None,
            package: None,
            version: None,
            file,
            kind: kind(image.kind),
            bytes,
            kernels: symbols.len(),
            variants: image.variants.len(),
            unread: UnreadVariant::in_image(image),
        }
    }
}

/// The kind of an image in one word.
pub(super) const fn kind(kind: ImageKind) -> &'static str {
    match kind {
        ImageKind::Ptx => "ptx",
        ImageKind::Cubin => "cubin",
        ImageKind::Fatbin => "fatbin",
    }
}

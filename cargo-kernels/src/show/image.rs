//! Shows kernels of an image that is in no binary.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::Path;

use kernel_registry_image::{Entry, Error, Image, ParamLayout, Variant};
use serde::Serialize;
use serde_json::Value;

use super::{Compiled, json, text};
use crate::binaries;
use crate::failure::Failure;
use crate::mapped::Mapped;

/// The image in a file of its own.
pub(super) struct Alone<'a> {
    pub(super) file: &'a Path,
    bytes: usize,
    image: Image,
}

/// A kernel in each variant of the image that has it.
struct Kernel<'a> {
    alone: &'a Alone<'a>,
    variants: Vec<(&'a Variant, &'a Entry)>,
}

/// The image in this file, or none if it is something else.
pub(super) fn read(file: &Path) -> Result<Option<Alone<'_>>, Failure> {
    let bytes = Mapped::open(file)?;
    match kernel_registry_image::read(&bytes) {
        Ok(image) => Ok(Some(Alone { file, bytes: bytes.len(), image })),
        Err(Error::NotAnImage) => Ok(None),
        // Binaries are ELF files too, and damage to them has words of its own.
        Err(_) if bytes.starts_with(b"\x7fELF") => Ok(None),
        Err(error) => Err(Failure::Image { path: file.to_owned(), error }),
    }
}

impl Alone<'_> {
    /// Prints the kernels of a name, or all.
    pub(super) fn show(&self, name: Option<&str>, as_json: bool) -> Result<(), Failure> {
        let kernels = match name {
            Some(name) => self.named(name)?,
            None => self.all()?,
        };
        binaries::print(|out| if as_json { write_json(&kernels, out) } else { write_text(&kernels, out) })
    }

    /// The JSON of all kernels.
    pub(super) fn document(&self) -> Result<Value, Failure> {
        Ok(json::value(&Document::of(&self.all()?)))
    }

    /// All kernels.
    pub(super) fn compiled(&self) -> Result<Vec<Compiled<'_>>, Failure> {
        let kernels = self.all()?.into_iter();
        Ok(kernels.map(|kernel| Compiled { declared: None, variants: kernel.variants }).collect())
    }

    fn named(&self, name: &str) -> Result<Vec<Kernel<'_>>, Failure> {
        let kernels = self.kernels(self.image.named(name));
        if kernels.is_empty() {
            let error = self.image.find(name, &self.file.display().to_string()).err();
            let missing = || Failure::NoneNamed { name: name.to_owned(), near: Vec::new() };
            return Err(error.map_or_else(missing, |error| Failure::NotInImage { error }));
        }
        Ok(kernels)
    }

    fn all(&self) -> Result<Vec<Kernel<'_>>, Failure> {
        let kernels = self.kernels(self.image.variants.iter().flat_map(|variant| &variant.entries));
        match kernels.is_empty() {
            true => Err(Failure::WithoutKernels { path: self.file.to_owned() }),
            false => Ok(kernels),
        }
    }

    fn kernels<'a>(&'a self, entries: impl IntoIterator<Item = &'a Entry>) -> Vec<Kernel<'a>> {
        let symbols: BTreeSet<&str> = entries.into_iter().map(|entry| entry.symbol.as_str()).collect();
        let variants = |symbol| {
            let variants = self.image.variants.iter();
            variants.filter_map(move |variant| Some((variant, variant.entry(symbol)?))).collect()
        };
        symbols.into_iter().map(|symbol| Kernel { alone: self, variants: variants(symbol) }).collect()
    }
}

fn write_text(kernels: &[Kernel<'_>], out: &mut impl Write) -> io::Result<()> {
    for (index, Kernel { alone: Alone { image, file, .. }, variants }) in kernels.iter().enumerate() {
        let (_, entry) = variants[0];
        if index > 0 {
            writeln!(out)?;
        }
        writeln!(out, "{} in {}", entry.name(), file.display())?;
        if let Some(signature) = &entry.signature {
            writeln!(out, "    C++       {signature}")?;
        }
        writeln!(out, "    symbol    {}", entry.symbol)?;
        writeln!(out, "    takes     {}", takes(variants))?;
        text::table(variants, None, &image.unread, out)?;
    }
    Ok(())
}

/// The parameters as PTX has them, or as many bytes as machine code gives them.
fn takes(variants: &[(&Variant, &Entry)]) -> String {
    let has_types = |params: &&Vec<ParamLayout>| params.iter().all(|param| param.ptx_type.is_some());
    let mut all = variants.iter().map(|(_, entry)| &entry.params);
    let params = all.clone().find(has_types).or_else(|| all.next());
    let word = |param: &ParamLayout| match &param.ptx_type {
        Some(ty) => format!(".{ty}"),
        None => format!("{} B", param.size),
    };
    match params.map_or(&[][..], Vec::as_slice) {
        [] => "nothing".to_owned(),
        params => params.iter().map(word).collect::<Vec<_>>().join(", "),
    }
}

#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    kernels: Vec<KernelEntry<'a>>,
}

#[derive(Serialize)]
struct KernelEntry<'a> {
    file: String,
    symbol: &'a str,
    cuda: Option<String>,
    image_kind: &'static str,
    image_bytes: usize,
    params: Vec<ParamEntry<'a>>,
    variants: Vec<json::VariantEntry<'a>>,
    unread: Vec<json::UnreadEntry>,
}

#[derive(Serialize)]
struct ParamEntry<'a> {
    offset: u32,
    size: u32,
    align: Option<u32>,
    ptx: Option<&'a str>,
}

fn write_json(kernels: &[Kernel<'_>], out: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, &Document::of(kernels))?;
    writeln!(out)
}

impl<'a> Document<'a> {
    fn of(kernels: &[Kernel<'a>]) -> Self {
        Document { schema: json::SCHEMA, kernels: kernels.iter().map(KernelEntry::of).collect() }
    }
}

impl<'a> KernelEntry<'a> {
    fn of(Kernel { alone: Alone { image, file, bytes }, variants }: &Kernel<'a>) -> Self {
        let (_, entry) = variants[0];
        KernelEntry {
            file: file.display().to_string(),
            symbol: &entry.symbol,
            cuda: entry.signature.as_ref().map(ToString::to_string),
            image_kind: json::kind(image.kind),
            image_bytes: *bytes,
            params: entry.params.iter().map(ParamEntry::of).collect(),
            variants: variants.iter().copied().map(json::VariantEntry::of).collect(),
            unread: image.unread.iter().map(json::UnreadEntry::of).collect(),
        }
    }
}

impl<'a> ParamEntry<'a> {
    fn of(param: &'a ParamLayout) -> Self {
        ParamEntry {
            offset: param.offset,
            size: param.size,
            align: param.align,
            ptx: param.ptx_type.as_deref(),
        }
    }
}

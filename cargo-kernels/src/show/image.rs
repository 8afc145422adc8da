//! Shows kernels of an image that is in no binary.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::Path;

use kernel_registry_image::{Entry, Error, Image, ParamLayout, Variant};
use serde_json::Value;

use super::shown::Compiled;
use super::summary::{ImageEntry, Summary};
use super::{json, text};
use crate::binaries;
use crate::failure::Failure;
use crate::mapped::Mapped;

/// The image in a file of its own.
pub(super) struct Alone<'a> {
    pub(super) file: &'a Path,
    pub(super) bytes: usize,
    pub(super) image: Image,
}

/// A kernel in each variant of the image that has it.
pub(super) struct Kernel<'a> {
    pub(super) alone: &'a Alone<'a>,
    pub(super) variants: Vec<(&'a Variant, &'a Entry)>,
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
        let summary = self.summary();
        binaries::print(|out| {
            if as_json {
                return crate::json::write(&json::of_image(&kernels, &summary), out);
            }
            write_text(&kernels, out)?;
            summary.write(kernels.len(), name.is_none(), out)
        })?;
        summary.check()
    }

    pub(super) fn summary(&self) -> Summary<'_> {
        Summary::of(vec![ImageEntry::alone(self.file, self.bytes, &self.image)])
    }

    /// The JSON of all kernels.
    pub(super) fn document(&self) -> Result<Value, Failure> {
        Ok(json::of_image(&self.all()?, &self.summary()))
    }

    /// All kernels.
    pub(super) fn compiled(&self) -> Result<Vec<Compiled<'_>>, Failure> {
        let kernels = self.all()?.into_iter();
        Ok(kernels.map(|kernel| Compiled { declared: None, variants: kernel.variants }).collect())
    }

    fn named(&self, name: &str) -> Result<Vec<Kernel<'_>>, Failure> {
        let symbols: BTreeSet<&str> =
            self.image.named(name).into_iter().map(|entry| entry.symbol.as_str()).collect();
        let kernels = self.kernels(|entry| symbols.contains(entry.symbol.as_str()));
        if kernels.is_empty() {
            let error = self.image.find(name, &self.file.display().to_string()).err();
            let missing = || Failure::NoneNamed { name: name.to_owned(), near: Vec::new() };
            return Err(error.map_or_else(missing, |error| Failure::NotInImage { error }));
        }
        Ok(kernels)
    }

    fn all(&self) -> Result<Vec<Kernel<'_>>, Failure> {
        let kernels = self.kernels(|_| true);
        match kernels.is_empty() {
            true => Err(Failure::WithoutKernels { path: self.file.to_owned() }),
            false => Ok(kernels),
        }
    }

    /// The kernels whose entries are wanted, in the order of their symbols.
    fn kernels(&self, is_wanted: impl Fn(&Entry) -> bool) -> Vec<Kernel<'_>> {
        let mut kernels = BTreeMap::<&str, Vec<(&Variant, &Entry)>>::new();
        for variant in &self.image.variants {
            for entry in variant.entries.iter().filter(|entry| is_wanted(entry)) {
                kernels.entry(&entry.symbol).or_default().push((variant, entry));
            }
        }
        kernels.into_values().map(|variants| Kernel { alone: self, variants }).collect()
    }
}

fn write_text(kernels: &[Kernel<'_>], out: &mut impl Write) -> io::Result<()> {
    for (index, Kernel { alone: Alone { file, .. }, variants }) in kernels.iter().enumerate() {
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
        text::table(variants, None, out)?;
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

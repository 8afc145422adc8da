//! Compares declarations with images, and collects where they disagree.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use kernel_registry_command::bake::Entry;
use kernel_registry_command::many;
use kernel_registry_format::KernelRecord;
use kernel_registry_image::comparison::{About, OtherNames, compare_names};
use kernel_registry_image::linked::read_each;
use kernel_registry_image::readable;
use kernel_registry_image::{FindError, Image, Target, VariantKind};

use crate::binaries::unlinked::Unlinked;
use crate::binary::Contents;
use crate::binary::fatbins::HandedOver;
use crate::cli::{Check, Deny};
use crate::document::unread::{Unread, UnreadVariant};
use crate::images::compare;
use crate::images::embedded::EmbeddedImages;
use crate::images::ptx::{PtxImage, runs};
use crate::kernels::undeclared::UndeclaredImage;

/// The result of the comparison.
pub(super) struct Report<'a> {
    pub(super) declarations: usize,
    pub(super) images: usize,
    pub(super) findings: Vec<Finding<'a>>,
    pub(super) unread: Unread,
    /// The kernels that nvcc linked and `warm_all` warms.
    pub(super) linked: usize,
}

/// A disagreement between declarations and images, or a warning.
pub(super) struct Finding<'a> {
    pub(super) kind: FindingKind,
    pub(super) subject: Subject<'a>,
    /// The names of the images that the finding concerns.
    pub(super) images: Vec<String>,
    pub(super) message: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FindingKind {
    /// The kernel differs from the declaration. `None` if the name is ambiguous, or the variants' parameters differ.
    Mismatch(Option<About>),
    /// The image does not have the kernel.
    Missing,
    /// There is no image to compare with.
    Unchecked,
    /// The image has an undeclared kernel.
    Unused,
    /// The program doesn't hand the kernels that nvcc linked to kernel-registry.
    Unwarmed,
    /// The driver compiles the image.
    Jit,
    /// The binary lacks a crate with kernels.
    Unlinked,
    /// The parameters have other names than in the source.
    Names,
    /// Some variants of the image unexpectedly lack the kernel.
    Partial,
    /// Variants of the image can't be read.
    Unread,
}

/// The subject of a finding.
pub(super) enum Subject<'a> {
    Declaration {
        binary: &'a Path,
        kernel: &'a KernelRecord<'a>,
    },
    /// An undeclared kernel of an image.
    Entry {
        symbol: String,
    },
    Image,
}

impl FindingKind {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            FindingKind::Mismatch(_) => "mismatch",
            FindingKind::Missing => "missing",
            FindingKind::Unchecked => "unchecked",
            FindingKind::Unused => "unused",
            FindingKind::Unwarmed => "unwarmed",
            FindingKind::Jit => "jit",
            FindingKind::Unlinked => "unlinked",
            FindingKind::Names => "names",
            FindingKind::Partial => "note",
            FindingKind::Unread => "unread",
        }
    }

    /// Returns whether this finding makes the command fail.
    pub(super) fn is_denied(self, options: &Check) -> bool {
        match self {
            FindingKind::Partial => false,
            FindingKind::Names => options.deny.contains(&Deny::Names),
            FindingKind::Unused => options.deny.contains(&Deny::Unused),
            FindingKind::Unwarmed => options.deny.contains(&Deny::Unwarmed),
            FindingKind::Jit => options.deny.contains(&Deny::Jit),
            FindingKind::Mismatch(_)
            | FindingKind::Missing
            | FindingKind::Unchecked
            | FindingKind::Unlinked
            | FindingKind::Unread => true,
        }
    }
}

impl<'a> Report<'a> {
    /// Compares every declaration with its image in the binary.
    pub(super) fn compare_with_own(&mut self, binary: &'a Contents<'a>) {
        let embedded = EmbeddedImages::find(binary, |_| true);
        let linked = UndeclaredImage::from_linked(binary);
        for kernel in &binary.kernels {
            self.add_names(binary, kernel);
            let file = kernel.image.map_or("code that nvcc linked", |image| image.file);
            let image = match (kernel.image, &linked) {
                (None, Some(linked)) => Some(Some(&linked.image)),
                _ => embedded.image_of(kernel).map(|found| found.image.as_deref()),
            };
            match image {
                Some(Some(image)) => {
                    if let Err(missing) = self.compare(binary, kernel, image, file) {
                        self.add_about(binary, kernel, FindingKind::Missing, &[file], missing.to_string());
                    }
                }
                Some(None) => {
                    let message = format!(
                        "its image `{file}` is not in the binary: check the binary as the linker \
                         wrote it, before it is packed"
                    );
                    self.add_about(binary, kernel, FindingKind::Unchecked, &[file], message);
                }
                None => {
                    let message = match kernel.image {
                        None => "nvcc linked no kernels into this binary",
                        Some(_) => "it was compiled without an image: check a build that has one",
                    };
                    let message = message.to_owned();
                    self.add_about(binary, kernel, FindingKind::Unchecked, &[], message);
                }
            }
        }
        if let Some(linked) = &linked {
            self.add_unwarmed(binary, linked);
        }
        for (recorded, found) in embedded.iter() {
            if let Some(image) = &found.image {
                self.images += 1;
                self.add_unread(image, recorded.file);
                self.add_unused(image, recorded.file, |symbol| found.symbols.contains(symbol));
            }
        }
    }

    /// Adds a crate with kernels that the binary lacks.
    pub(super) fn add_unlinked(&mut self, unlinked: &Unlinked) {
        self.add(FindingKind::Unlinked, Subject::Image, &[], unlinked.to_string());
    }

    /// Adds a finding if the parameters have other names than in the source, as the macro recorded.
    fn add_names(&mut self, binary: &'a Contents<'a>, kernel: &'a KernelRecord<'a>) {
        let file = kernel.image.map_or("", |image| image.file);
        let declared: Vec<_> = kernel.params.iter().map(|param| param.name).collect();
        let source: Vec<_> = kernel.source_names.split(", ").filter(|name| !name.is_empty()).collect();
        if let Some(OtherNames::Differ(message)) = compare_names(kernel.name(), &declared, &source, file) {
            self.add_about(binary, kernel, FindingKind::Names, &[file], message);
        }
    }

    /// Adds a finding if kernels that nvcc linked are not warmed.
    fn add_unwarmed(&mut self, binary: &'a Contents<'a>, linked: &UndeclaredImage<'_>) {
        self.add_unread(&linked.image, &binary.path.display().to_string());
        let count = linked.kernels().map_or(0, |kernels| kernels.len());
        match binary.linked.handed_over() {
            HandedOver::All => self.linked += count,
            handed_over if count > 0 => {
                let message = handed_over.describe(count);
                let file = binary.path.display().to_string();
                self.add(FindingKind::Unwarmed, Subject::Image, &[&file], message);
            }
            _ => {}
        }
    }

    /// Adds the images without machine code for these architectures, or for any if none is given: drivers compile them.
    pub(super) fn add_compiled(&mut self, binary: &Contents<'_>, entries: &[Entry], archs: &[Target]) {
        for image in PtxImage::declared(binary) {
            let baked = image.baked(entries);
            let has_code = |arch| image.has_code(arch) || runs(&baked, arch);
            let without: Vec<_> =
                archs.iter().filter(|arch| !has_code(Some(**arch))).map(Target::to_string).collect();
            let devices = match archs {
                [] if has_code(None) => continue,
                [] => "any GPU".to_owned(),
                _ if without.is_empty() => continue,
                _ => without.join(", "),
            };
            let file = &image.name;
            let message = format!(
                "`{file}` has no machine code for {devices}, so the driver compiles it: run `cargo kernels bake`, or embed machine code"
            );
            self.add(FindingKind::Jit, Subject::Image, &[file], message);
        }
        self.add_compiled_linked(binary, archs);
    }

    /// Adds the kernels that nvcc linked without machine code for the architectures. Skips kernels built only for other
    /// architectures, unless that's every kernel.
    fn add_compiled_linked(&mut self, binary: &Contents<'_>, archs: &[Target]) {
        let images = read_each(&binary.linked.sections).into_iter().flatten();
        let images: Vec<_> = images.filter(|image| !image.variants.is_empty()).collect();
        let mut compiled = BTreeMap::<String, BTreeSet<&str>>::new();
        for image in &images {
            let is_compiled = |arch: &&Target| {
                let mut fitting =
                    image.variants.iter().filter(|variant| variant.runs_on(arch.capability())).peekable();
                fitting.peek().is_some() && fitting.all(|variant| variant.kind != VariantKind::Cubin)
            };
            let without: Vec<_> = archs.iter().filter(is_compiled).map(Target::to_string).collect();
            let devices = match archs {
                [] if image.variants.iter().all(|variant| variant.kind != VariantKind::Cubin) => {
                    "any GPU".to_owned()
                }
                _ if without.is_empty() => continue,
                _ => without.join(", "),
            };
            compiled.entry(devices).or_default().extend(symbols(image));
        }
        let file = binary.path.display().to_string();
        let mut add = |count, devices: &str, then: &str| {
            let message = format!(
                "nvcc linked {} without machine code for {devices}, so {then}: add code for your GPUs to nvcc's options, such as \
                 `-gencode arch=compute_90,code=sm_90`",
                many(count, "kernel")
            );
            self.add(FindingKind::Jit, Subject::Image, &[&file], message);
        };
        for (devices, kernels) in compiled {
            add(kernels.len(), &devices, "the driver compiles PTX");
        }
        let kernels: BTreeSet<_> = images.iter().flat_map(symbols).collect();
        let variants = images.iter().flat_map(|image| &image.variants);
        for arch in archs.iter().filter(|_| !images.is_empty()) {
            if !variants.clone().any(|variant| variant.runs_on(arch.capability())) {
                add(kernels.len(), &arch.to_string(), "none runs there");
            }
        }
    }

    /// Compares every declaration with each of the images that has its kernel.
    pub(super) fn compare_with_files(&mut self, binaries: &'a [Contents<'a>], images: &[(String, Image)]) {
        self.images = images.len();
        let mut used = BTreeSet::new();
        for (binary, kernel) in
            binaries.iter().flat_map(|binary| binary.kernels.iter().map(move |k| (binary, k)))
        {
            let mut missing = Vec::new();
            for (name, image) in images {
                match self.compare(binary, kernel, image, name) {
                    Ok(symbol) => drop(used.insert((name, symbol))),
                    Err(error) => missing.push(error),
                }
            }
            // A program's kernels may be spread over several images, so the kernel has to be in one of the images, not
            // in all.
            if missing.len() == images.len() {
                let names: Vec<_> = images.iter().map(|(name, _)| name.as_str()).collect();
                let message = match missing.as_slice() {
                    [error] => error.to_string(),
                    several => {
                        format!("no kernel `{}` in any of {} images", readable(kernel.symbol), several.len())
                    }
                };
                self.add_about(binary, kernel, FindingKind::Missing, &names, message);
            }
        }
        for (name, image) in images {
            self.add_unread(image, name);
            self.add_unused(image, name, |symbol| used.contains(&(name, symbol.to_owned())));
        }
    }

    /// Compares a declaration with one image. Returns the kernel's symbol in the image, or an error if the kernel is
    /// missing.
    fn compare(
        &mut self,
        binary: &'a Contents<'a>,
        kernel: &'a KernelRecord<'a>,
        image: &Image,
        file: &str,
    ) -> Result<String, FindError> {
        let (symbol, wrong) = match compare::compare(kernel, image, file) {
            Err(missing @ FindError::Missing { .. }) => return Err(missing),
            Err(error) => (kernel.symbol, vec![(None, error.to_string())]),
            Ok(compared) => {
                // A kernel that nvcc links may be declared by its C++ name, so a different symbol is no mismatch.
                let by_name = |about| kernel.image.is_none() && about == About::Symbol;
                let wrong = compared.mismatches.into_iter().filter(|wrong| !by_name(wrong.about));
                (&*compared.entry.symbol, wrong.map(|wrong| (Some(wrong.about), wrong.message)).collect())
            }
        };
        for (about, message) in wrong {
            self.add_about(binary, kernel, FindingKind::Mismatch(about), &[file], message);
        }
        if let Some(partial) = compare::partial(kernel, symbol, image) {
            let message = format!("`{}` of `{file}` is only {partial}", readable(kernel.symbol));
            self.add_about(binary, kernel, FindingKind::Partial, &[file], message);
        }
        Ok(symbol.to_owned())
    }

    fn add_about(
        &mut self,
        binary: &'a Contents<'a>,
        kernel: &'a KernelRecord<'a>,
        kind: FindingKind,
        images: &[&str],
        message: String,
    ) {
        self.add(kind, Subject::Declaration { binary: &binary.path, kernel }, images, message);
    }

    fn add(&mut self, kind: FindingKind, subject: Subject<'a>, images: &[&str], message: String) {
        let images = images.iter().map(|image| (*image).to_owned()).collect();
        self.findings.push(Finding { kind, subject, images, message });
    }

    fn add_unread(&mut self, image: &Image, file: &str) {
        let mut unread = Unread::default();
        unread.add(file, &UnreadVariant::in_image(image));
        for message in &unread.sentences {
            self.add(FindingKind::Unread, Subject::Image, &[file], message.clone());
        }
        self.unread.merge(unread);
    }

    fn add_unused(&mut self, image: &Image, file: &str, is_used: impl Fn(&str) -> bool) {
        let entries = image.variants.iter().flat_map(|variant| &variant.entries);
        let mut told = BTreeSet::new();
        for entry in entries.filter(|entry| !is_used(&entry.symbol)) {
            if told.insert(&entry.symbol) {
                let name = entry.signature.as_ref().map_or(entry.symbol.clone(), ToString::to_string);
                let message = format!("`{name}` of `{file}` is declared nowhere");
                let subject = Subject::Entry { symbol: entry.symbol.clone() };
                self.add(FindingKind::Unused, subject, &[file], message);
            }
        }
    }
}

/// Returns the symbols of an image's kernels, once for each variant that has the kernel.
fn symbols(image: &Image) -> impl Iterator<Item = &str> {
    image.variants.iter().flat_map(|variant| &variant.entries).map(|entry| &*entry.symbol)
}

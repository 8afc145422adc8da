//! One kernel of an image, merged from all variants.

use std::collections::BTreeMap;

use kernel_registry_image::{CudaType, Entry, Image};

use super::source::{Function, Source};

/// One kernel of an image.
pub(super) struct Kernel<'a> {
    /// The entry of the variant that tells most: PTX tells types and alignments, machine code only sizes.
    pub(super) entry: &'a Entry,
    /// The least compute capability of the variants that have the kernel, if variants for lower capabilities
    /// lack it.
    pub(super) min_arch: Option<u32>,
    /// The kernel's declaration in the CUDA source.
    pub(super) source: Option<&'a Function>,
}

impl Kernel<'_> {
    /// Returns the type of a parameter in C++, read from the symbol or else from the source.
    pub(super) fn cuda_type(&self, index: usize) -> Option<&CudaType> {
        match &self.entry.signature {
            Some(_) => self.entry.cuda_type(index),
            None => Some(&self.source?.params.get(index)?.ty),
        }
    }

    /// Returns the kernel as C++ declares it, if that is known.
    pub(super) fn signature(&self) -> Option<String> {
        let Entry { symbol, signature, params, .. } = self.entry;
        match signature {
            Some(_) => self.entry.typed_signature().map(ToString::to_string),
            None if params.is_empty() => Some(format!("{symbol}()")),
            None => {
                let types: Vec<String> =
                    self.source?.params.iter().map(|param| param.ty.to_string()).collect();
                Some(format!("{symbol}({})", types.join(", ")))
            }
        }
    }
}

/// Returns the kernels of an image, sorted by name, so that the order of the compiler does not matter.
pub(super) fn collect_kernels<'a>(image: &'a Image, source: &'a Source) -> Vec<Kernel<'a>> {
    let oldest = image.variants.iter().map(|variant| variant.target.sm).min();
    let mut kernels: BTreeMap<(&str, &str), (&Entry, u32)> = BTreeMap::new();
    for variant in &image.variants {
        for entry in &variant.entries {
            let sm = variant.target.sm;
            let known = kernels.entry((entry.name(), &entry.symbol)).or_insert((entry, sm));
            known.1 = known.1.min(sm);
            if !known.0.tells_types() && entry.tells_types() {
                known.0 = entry;
            }
        }
    }
    let kernel = |(entry, sm)| Kernel {
        entry,
        min_arch: oldest.filter(|oldest| *oldest < sm).map(|_| sm),
        source: source.function(entry),
    };
    kernels.into_values().map(kernel).collect()
}

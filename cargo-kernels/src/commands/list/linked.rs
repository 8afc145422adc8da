//! Writes the kernels that nvcc linked, as a table.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use kernel_registry_image::{CudaType, Entry, VariantKind};

use crate::kernels::undeclared::{Kernel, UndeclaredImage};
use crate::output::table;

/// The kernel is last, because names of templates can be very long, and the last column isn't padded.
const HEADINGS: [&str; 6] = ["VARIANTS", "REGISTERS", "STACK", "SHARED", "NEEDS", "KERNEL"];

pub(super) fn write(
    image: &UndeclaredImage<'_>,
    kernels: &[Kernel<'_>],
    out: &mut impl Write,
) -> io::Result<()> {
    let mut rows = vec![HEADINGS.map(str::to_owned)];
    rows.extend(kernels.iter().map(row));
    table::columns(&rows, "", out)?;
    image.unread().sentences.iter().try_for_each(|sentence| writeln!(out, "unread: {sentence}"))
}

fn row(variants: &Kernel<'_>) -> [String; HEADINGS.len()] {
    let compiled = variants.iter().filter(|(variant, _)| variant.kind == VariantKind::Cubin);
    let newest = compiled.max_by_key(|(variant, _)| variant.target.sm).map(|(_, entry)| *entry);
    let entry = newest.unwrap_or(variants[0].1);
    let resources = entry.resources.as_ref();
    let number = |number: Option<u32>| number.map_or("-".to_owned(), |number| number.to_string());
    let stack = match entry.frames.recursive {
        Some(least) => format!("{least} or more"),
        None => number(resources.and_then(|resources| resources.stack)),
    };
    let needs: Vec<_> = entry.needs.words().collect();
    [
        targets(variants),
        number(resources.map(|resources| resources.registers)),
        stack,
        number(resources.map(|resources| resources.static_shared)),
        if needs.is_empty() { "-".to_owned() } else { needs.join(", ") },
        format!("{}{}", entry.name(), parameters(entry)),
    ]
}

/// Returns the targets, `sm_80, sm_90, compute_75`, and the number of copies if several sources instantiate the kernel.
fn targets(variants: &Kernel<'_>) -> String {
    let mut counted = BTreeMap::new();
    for (variant, _) in variants {
        let target = variant.target.to_string();
        let name = match variant.kind {
            VariantKind::Cubin => target,
            VariantKind::Ptx { .. } => target.replacen("sm_", "compute_", 1),
        };
        *counted.entry((variant.kind != VariantKind::Cubin, variant.target.sm, name)).or_insert(0) += 1;
    }
    let names: BTreeSet<_> = counted.keys().collect();
    let names: Vec<&str> = names.into_iter().map(|(_, _, name)| &**name).collect();
    match counted.values().max() {
        Some(1) | None => names.join(", "),
        Some(copies) => format!("{}, {copies} copies", names.join(", ")),
    }
}

/// Returns the parameters' types, or the size of each parameter whose type the symbol doesn't encode.
fn parameters(entry: &Entry) -> String {
    let param = |index| match entry.cuda_type(index) {
        Some(ty) => CudaType::to_string(ty),
        None => format!("{} B", entry.params[index].size),
    };
    format!("({})", (0..entry.params.len()).map(param).collect::<Vec<_>>().join(", "))
}

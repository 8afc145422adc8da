//! Shows kernels of an image that is in no binary.

use std::io::{self, Write};
use std::path::Path;

use kernel_registry_image::ParamLayout;

use super::alone::{Alone, Kernel};
use super::{json, text};
use crate::binaries;
use crate::failure::Failure;

/// Prints the kernels of a name, or all.
pub(super) fn show(alone: &Alone<'_>, name: Option<&str>, as_json: bool) -> Result<(), Failure> {
    let kernels = match name {
        Some(name) => alone.named(name)?,
        None => alone.all()?,
    };
    let summary = alone.summary();
    binaries::print(|out| {
        if as_json {
            return crate::json::write(&json::image(alone, &kernels), out);
        }
        write_text(alone.file, &kernels, out)?;
        summary.write(kernels.len(), name.is_none(), out)
    })?;
    summary.unread.check()
}

fn write_text(file: &Path, kernels: &[Kernel<'_>], out: &mut impl Write) -> io::Result<()> {
    for (index, variants) in kernels.iter().enumerate() {
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
fn takes(variants: &Kernel<'_>) -> String {
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

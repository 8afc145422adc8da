//! Writes the declared kernels of a binary as a table.

use std::io::{self, Write};

use kernel_registry_command::many;

use crate::binary::Contents;
use crate::binary::copies;
use crate::document::{Declaration, RecordedImage};
use crate::output::table;

/// Parameters come last, because they are the longest and need no padding there.
const HEADINGS: [&str; 5] = ["KERNEL", "DECLARED AT", "LAUNCH", "IMAGE", "PARAMETERS"];

pub(super) fn write(binary: &Contents<'_>, out: &mut impl Write) -> io::Result<()> {
    let count = binary.kernels.len();
    writeln!(out, "{}: {}, {}", binary.path.display(), many(count, "kernel"), binary.library_names())?;
    if !binary.copies.is_empty() {
        copies::write(&binary.copies, out)?;
    }
    if count > 0 {
        writeln!(out)?;
        write_rows(binary, out)?;
    }
    Ok(())
}

fn write_rows(binary: &Contents<'_>, out: &mut impl Write) -> io::Result<()> {
    let mut rows = vec![HEADINGS.map(str::to_owned)];
    rows.extend(binary.kernels.iter().map(|kernel| row(&Declaration::new(binary, kernel))));
    table::columns(&rows, "", out)
}

fn row(kernel: &Declaration) -> [String; HEADINGS.len()] {
    let params: Vec<_> = kernel.params.iter().map(|param| format!("{}: {}", param.name, param.ty)).collect();
    [
        kernel.place.path.clone(),
        format!("{}:{}", kernel.place.file, kernel.place.line),
        launch(kernel),
        kernel.image.as_ref().map_or("linked by nvcc".to_owned(), image),
        format!("({})", params.join(", ")),
    ]
}

fn image(image: &RecordedImage) -> String {
    match (image.bytes, &image.baked[..]) {
        (0, _) => format!("{} (not compiled)", image.file),
        (_, []) => image.file.clone(),
        (_, baked) => format!("{} (baked for {})", image.file, baked.join(", ")),
    }
}

/// Describes what the declaration fixes about a launch (`sm_80+, block 32x8, shared 48 KiB`), and what is known of the stack.
pub(crate) fn launch(kernel: &Declaration) -> String {
    let mut parts = Vec::new();
    if let Some(arch) = kernel.min_arch {
        parts.push(format!("sm_{arch}+"));
    }
    match kernel.block {
        Some([x, 1, 1]) => parts.push(format!("block {x}")),
        Some([x, y, 1]) => parts.push(format!("block {x}x{y}")),
        Some([x, y, z]) => parts.push(format!("block {x}x{y}x{z}")),
        None => {}
    }
    parts.extend(kernel.shared.map(|bytes| format!("shared {}", size(bytes))));
    match (kernel.stack, kernel.frames.recursive) {
        (Some(bytes), _) => parts.push(format!("stack {}", size(bytes))),
        (None, Some(least)) => {
            parts.push(format!("stack not known (recursive, at least {})", size(least)));
        }
        (None, None) => {}
    }
    parts
        .extend(kernel.frames.launched.map(|bytes| format!("stack {} for kernels it launches", size(bytes))));
    if parts.is_empty() { "any".to_owned() } else { parts.join(", ") }
}

fn size(bytes: u32) -> String {
    if bytes > 0 && bytes.is_multiple_of(1024) {
        format!("{} KiB", bytes / 1024)
    } else {
        format!("{bytes} B")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Frames;

    #[test]
    fn the_stack_is_shown_where_the_driver_does_not_know_it() {
        let stack = |stack, recursive, launched| {
            launch(&Declaration { stack, frames: Frames { recursive, launched }, ..Declaration::default() })
        };
        assert_eq!(stack(None, None, None), "any");
        assert_eq!(stack(Some(16 * 1024), Some(8224), None), "stack 16 KiB");
        assert_eq!(stack(None, Some(8224), None), "stack not known (recursive, at least 8224 B)");
        assert_eq!(stack(None, None, Some(12_288)), "stack 12 KiB for kernels it launches");
    }
}

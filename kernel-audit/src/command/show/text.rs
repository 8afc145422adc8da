//! Writes what a preload has for people.

use std::collections::BTreeMap;
use std::fmt;

use kernel_registry_command::many;

use super::{Contents, ImagesOfFile};

impl fmt::Display for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.preload.display(), Size(self.bytes))?;
        for (index, device) in self.devices.iter().enumerate() {
            let before = if index == 0 { ", recorded on" } else { "," };
            write!(f, "{before} {} ({})", device.name, device.compute_capability)?;
        }
        writeln!(f)?;
        for file in &self.files {
            writeln!(f, "  {file}")?;
        }
        self.write_nvrtc(f)?;
        self.write_machine_code(f)?;
        let sizes = [("stack", self.stack), ("printf buffer", self.printf), ("heap", self.heap)];
        for (what, bytes) in sizes.into_iter().filter(|(_, bytes)| *bytes > 0) {
            writeln!(f, "  a {what} of {bytes} bytes")?;
        }
        if self.files.is_empty() && self.nvrtc.is_empty() && self.ptx == 0 {
            writeln!(f, "  nothing was late when it was recorded")?;
        }
        Ok(())
    }
}

impl Contents {
    fn write_nvrtc(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // By architecture, how many results there are and how large they are.
        let (mut used, mut unused) = (BTreeMap::<_, (usize, u64)>::new(), BTreeMap::<_, usize>::new());
        for compiled in &self.nvrtc {
            match &compiled.unused {
                Some(why) => *unused.entry(why).or_default() += 1,
                None => {
                    let (count, bytes) = used.entry(compiled.arch.as_deref()).or_default();
                    (*count, *bytes) = (*count + 1, *bytes + compiled.bytes);
                }
            }
        }
        for (arch, (count, bytes)) in used {
            let arch = arch.map(|arch| format!(" for {arch}")).unwrap_or_default();
            writeln!(f, "  {} of NVRTC{arch}, {}", many(count, "result"), Size(bytes))?;
        }
        for (why, count) in unused {
            writeln!(f, "  {} of NVRTC: not used, {why}", many(count, "result"))?;
        }
        Ok(())
    }

    fn write_machine_code(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(why) = &self.machine_code_unused {
            return writeln!(f, "  machine code of PTX: not used, {why}");
        }
        for code in &self.machine_code {
            let (images, size) = (many(code.images, "PTX image"), Size(code.bytes));
            writeln!(f, "  machine code of {images} for {}, {size}, by {}", code.arch, code.compiler)?;
        }
        if self.ptx > 0 && self.machine_code.is_empty() {
            writeln!(
                f,
                "  {} without machine code: `kernel-audit bake` makes it",
                many(self.ptx, "PTX image")
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for ImagesOfFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.are_copies { "copies in " } else { "" };
        write!(f, "{what}{}: ", self.path.display())?;
        if self.kernels > 0 {
            write!(f, "{} of ", many(self.kernels, "kernel"))?;
        }
        f.write_str(&many(self.images, "image"))?;
        match (self.changed, self.path.exists()) {
            (0, _) => Ok(()),
            (_, false) => f.write_str("; not there, so loaded late"),
            (changed, true) => {
                write!(f, "; {changed} not as recorded, so loaded late: record again if the file was updated")
            }
        }
    }
}

/// A number of bytes, rounded.
struct Size(u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes @ 0..10_000 => write!(f, "{bytes} bytes"),
            bytes @ ..10_000_000 => write!(f, "{} KB", bytes / 1000),
            bytes => write!(f, "{:.1} MB", bytes as f64 / 1e6),
        }
    }
}

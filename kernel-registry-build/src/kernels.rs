//! The kernels of an image, cached in a small file beside it, because images take long to read.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use kernel_registry_image::{Entry, Signature};

use crate::fingerprint::Stamp;
use crate::{Error, Result, files};

/// Raised when the meaning of the file changes.
const VERSION: &str = "kernel-registry kernels 1";

/// A kernel by its names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kernel {
    /// As the driver knows it.
    symbol: String,
    /// As C++ does: `ns::reduce<float, 128u>`. The symbol again if it is not mangled.
    pub(crate) name: String,
    /// The same without template arguments: `ns::reduce`.
    base: String,
}

impl Kernel {
    /// Without namespaces: what follows `fn` in a declaration that says no other name.
    pub(crate) fn ident(&self) -> &str {
        self.base.rsplit("::").next().unwrap_or(&self.base)
    }

    pub(crate) fn is_called(&self, name: &str) -> bool {
        [&*self.symbol, &self.name, &self.base, self.ident()].contains(&name)
    }
}

impl From<&Entry> for Kernel {
    fn from(entry: &Entry) -> Self {
        let symbol = entry.symbol.clone();
        match &entry.signature {
            Some(Signature { name, base_name, .. }) => {
                Kernel { symbol, name: name.clone(), base: base_name.clone() }
            }
            None => Kernel { name: symbol.clone(), base: symbol.clone(), symbol },
        }
    }
}

/// The kernels of an image, each once. An image that cannot be read has none here; the macro reports it at declarations.
pub(crate) fn of(image: &Path) -> Result<Vec<Kernel>> {
    let beside = beside(image);
    if let Some(kernels) = fs::read_to_string(&beside).ok().and_then(|text| parse(&text)) {
        return Ok(kernels);
    }
    // Before the bytes: if the image changes in between, the stamp is outdated and does not hold.
    let stamp = Stamp::of(image);
    let bytes = fs::read(image).map_err(Error::file("read", image))?;
    let variants = kernel_registry_image::read(&bytes).map(|image| image.variants).unwrap_or_default();
    let mut kernels: Vec<Kernel> = Vec::new();
    for entry in variants.iter().flat_map(|variant| &variant.entries) {
        if kernels.iter().all(|kernel| kernel.symbol != entry.symbol) {
            kernels.push(Kernel::from(entry));
        }
    }
    if let Some(stamp) = stamp {
        files::replace(&beside, print(&stamp, &kernels).as_bytes())?;
    }
    Ok(kernels)
}

fn beside(image: &Path) -> PathBuf {
    let mut name = OsString::from(image);
    name.push(".kernels");
    PathBuf::from(name)
}

fn print(stamp: &Stamp, kernels: &[Kernel]) -> String {
    let mut text = format!("{VERSION}\n{}\n", stamp.print());
    for Kernel { symbol, name, base } in kernels {
        text.push_str(&format!("{symbol}\t{name}\t{base}\n"));
    }
    text + "end\n"
}

/// `None` too if the image is no longer as it was.
fn parse(text: &str) -> Option<Vec<Kernel>> {
    let mut lines = text.strip_suffix("end\n")?.lines();
    if lines.next()? != VERSION || !Stamp::parse(lines.next()?)?.holds() {
        return None;
    }
    let kernel = |line: &str| {
        let [symbol, name, base] = line.split('\t').collect::<Vec<_>>()[..] else { return None };
        Some(Kernel { symbol: symbol.to_owned(), name: name.to_owned(), base: base.to_owned() })
    };
    lines.map(kernel).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PTX: &str = ".version 8.0\n.target sm_75\n.address_size 64\n\
                       .visible .entry _ZN2ns6reduceIfLj128EEEvPT_(.param .u64 x) { ret; }\n\
                       .visible .entry plain() { ret; }\n";

    #[test]
    fn an_image_is_read_again_when_it_changed() {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("a.ptx");
        fs::write(&image, PTX).unwrap();
        let first = of(&image).unwrap();
        let names: Vec<&str> = first.iter().map(|kernel| &*kernel.name).collect();
        assert_eq!(names, ["ns::reduce<float, 128u>", "plain"]);
        for name in ["reduce", "ns::reduce", "ns::reduce<float, 128u>", "_ZN2ns6reduceIfLj128EEEvPT_"] {
            assert!(first[0].is_called(name) && !first[1].is_called(name), "{name}");
        }
        assert_eq!(of(&image).unwrap(), first);

        // The file beside the image is read: a changed name in it appears.
        let edited = fs::read_to_string(beside(&image)).unwrap().replace("plain\tplain", "plain\tedited");
        fs::write(beside(&image), edited).unwrap();
        assert_eq!(of(&image).unwrap()[1].name, "edited");
        fs::write(&image, PTX.replace("plain", "longer")).unwrap();
        assert_eq!(of(&image).unwrap()[1].name, "longer");
        for damaged in ["", "end\n", "kernel-registry kernels 1\nx\nend\n"] {
            fs::write(beside(&image), damaged).unwrap();
            assert_eq!(of(&image).unwrap().len(), 2, "{damaged:?}");
        }
        fs::write(&image, "no image").unwrap();
        assert_eq!(of(&image).unwrap(), []);
    }
}

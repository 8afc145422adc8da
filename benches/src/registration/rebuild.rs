//! How long a rebuild takes after an edit, as the person who edits sees it: all of `cargo build`.

use super::crates::{Compared, module_file};
use crate::Result;
use crate::sample::Sample;
use crate::workshop::{Package, Profile};

/// What is edited. Neither changes the program, but the compiler has to find that out.
#[derive(Clone, Copy, Debug)]
pub enum Edit {
    /// A comment at the end of `main.rs`, where no kernels are.
    Main,
    /// A comment in the first line of a module: each of its kernels is declared one line further down.
    Module,
}

/// The times of rebuilds after one kind of edit.
#[derive(Default)]
pub struct Rebuilds {
    /// Of the annotated crate.
    pub annotated: Sample,
    /// Of the crate made by hand.
    pub bare: Sample,
}

impl Rebuilds {
    /// Rebuilds both crates again and again, in turn, so that whatever else the machine does meets both alike.
    pub fn measure(crates: &Compared, edit: Edit, profile: Profile, pairs: usize) -> Result<Self> {
        // The first build, and the first one after it, which fills the incremental caches.
        for package in [&crates.annotated, &crates.bare] {
            package.build(profile)?;
            edit.apply(package)?;
            package.build(profile)?;
        }
        let mut rebuilds = Rebuilds::default();
        for pair in 0..pairs {
            let mut turns =
                [(&crates.annotated, &mut rebuilds.annotated), (&crates.bare, &mut rebuilds.bare)];
            if pair % 2 == 1 {
                turns.reverse();
            }
            for (package, sample) in turns {
                edit.apply(package)?;
                sample.push(package.build(profile)?);
            }
        }
        Ok(rebuilds)
    }

    /// How much longer the annotated crate takes.
    pub fn ratio(&self) -> f64 {
        self.annotated.median() / self.bare.median()
    }
}

impl Edit {
    fn apply(self, package: &Package) -> Result<()> {
        let (path, edited) = match self {
            Edit::Main => ("src/main.rs".to_owned(), package.read("src/main.rs")? + "// edited\n"),
            Edit::Module => {
                let path = module_file(7);
                let text = package.read(&path)?;
                (path, format!("// edited\n{text}"))
            }
        };
        package.write(&path, edited.as_bytes())
    }
}

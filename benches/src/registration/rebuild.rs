//! How long a build takes after an edit, as the person who edits sees it: all of `cargo build`.

use super::Each;
use super::crates::module_file;
use crate::Result;
use crate::sample::Sample;
use crate::workshop::{Package, Profile};

/// What is edited. Neither changes what the program does, but the compiler has to find that out.
#[derive(Clone, Copy, Debug)]
pub enum Edit {
    /// A comment at the end of `main.rs`, where no kernels are.
    Main,
    /// A comment in the first line of a module: each of its kernels is declared one line further down.
    Module,
}

/// The times that `cargo build` took.
#[derive(Default)]
pub struct Builds {
    /// For the annotated crate.
    pub annotated: Sample,
    /// For the one made by hand.
    pub bare: Sample,
}

impl Builds {
    /// Builds both crates once, from nothing but their dependencies.
    pub fn first(crates: &Each<Package>) -> Result<Self> {
        let mut builds = Builds::default();
        for (package, sample) in builds.turns(crates) {
            package.build(Profile::Debug)?;
            package.clean()?;
            sample.push(package.build(Profile::Debug)?);
        }
        Ok(builds)
    }

    /// Rebuilds both crates again and again, in turn, so that whatever else the machine does meets both alike.
    pub fn after(edit: Edit, crates: &Each<Package>, profile: Profile, pairs: usize) -> Result<Self> {
        // The first build after another one of the kind fills the incremental caches.
        for package in [&crates.annotated, &crates.bare] {
            package.build(profile)?;
            edit.apply(package)?;
            package.build(profile)?;
        }
        let mut builds = Builds::default();
        for pair in 0..pairs {
            let mut turns = builds.turns(crates);
            if pair % 2 == 1 {
                turns.reverse();
            }
            for (package, sample) in turns {
                edit.apply(package)?;
                sample.push(package.build(profile)?);
            }
        }
        Ok(builds)
    }

    /// How many times as long the annotated crate takes.
    pub fn ratio(&self) -> f64 {
        self.annotated.median() / self.bare.median()
    }

    fn turns<'a>(&'a mut self, crates: &'a Each<Package>) -> [(&'a Package, &'a mut Sample); 2] {
        [(&crates.annotated, &mut self.annotated), (&crates.bare, &mut self.bare)]
    }
}

impl Edit {
    fn apply(self, package: &Package) -> Result<()> {
        match self {
            Edit::Main => {
                let path = "src/main.rs";
                package.write(path, format!("{}// edited\n", package.read(path)?).as_bytes())
            }
            Edit::Module => {
                let path = module_file(7);
                package.write(&path, format!("// edited\n{}", package.read(&path)?).as_bytes())
            }
        }
    }
}

//! Measures how long `cargo build` takes after an edit.

use super::Each;
use super::crates::module_file;
use crate::Result;
use crate::sample::Sample;
use crate::workshop::{Package, Profile};

/// An edit that doesn't change the program's behaviour, which the compiler has to find out.
#[derive(Clone, Copy, Debug)]
pub enum Edit {
    /// A comment at the end of `main.rs`, which has no kernels.
    Main,
    /// A comment in the first line of a module, which moves each of its kernels down a line.
    Module,
}

/// Builds each crate once, with only its dependencies built.
pub fn first(crates: &Each<&Package>) -> Result<Each<Sample>> {
    crates.try_map(|package| {
        package.build(Profile::Debug)?;
        package.clean()?;
        let mut sample = Sample::default();
        sample.push(package.build(Profile::Debug)?);
        Ok(sample)
    })
}

/// Rebuilds the crates in turn, many times, so that other load affects all of them equally.
pub fn after(edit: Edit, crates: &Each<&Package>, profile: Profile, rounds: usize) -> Result<Each<Sample>> {
    // The first build after an edit fills the incremental caches.
    crates.try_map(|package| {
        package.build(profile)?;
        edit.apply(package)?;
        package.build(profile)
    })?;
    let mut builds = Each::<Sample>::default();
    for round in 0..rounds {
        let mut turns = [
            (crates.annotated, &mut builds.annotated),
            (crates.by_hand, &mut builds.by_hand),
            (crates.bare, &mut builds.bare),
        ];
        turns.rotate_left(round % 3);
        for (package, sample) in turns {
            edit.apply(package)?;
            sample.push(package.build(profile)?);
        }
    }
    Ok(builds)
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

//! Runs all phases for a declaration, except the last one, which generates code.

use super::arguments::Arguments;
use super::declaration::{Declaration, Name};
use super::image::Image;
use super::verdict::{self, Verdict};
use super::written;
use crate::errors::Errors;

/// The result of the checks: a kernel, or errors.
pub(crate) enum Checked {
    Kernel(Box<Kernel>),
    /// A declaration with errors. Its name is kept, so that uses of it raise no further errors.
    Broken(Box<Name>, Errors),
}

/// A kernel that passed all checks.
pub(crate) struct Kernel {
    pub(crate) name: Name,
    pub(crate) declaration: Declaration,
    pub(crate) image: Image,
    /// One verdict for each instance of the declaration.
    pub(crate) verdicts: Vec<Verdict>,
}

impl Checked {
    /// Checks a declaration. `errors` has the errors in its arguments.
    pub(crate) fn new(written: written::Declaration, args: &Arguments, mut errors: Errors) -> Self {
        let name = Name::resolve(&written, args, &mut errors);
        match phases(&name, written, args, errors) {
            Ok((declaration, image, verdicts)) => {
                Checked::Kernel(Box::new(Kernel { name, declaration, image, verdicts }))
            }
            Err(errors) => Checked::Broken(Box::new(name), errors),
        }
    }
}

fn phases(
    name: &Name,
    written: written::Declaration,
    args: &Arguments,
    mut errors: Errors,
) -> Result<(Declaration, Image, Vec<Verdict>), Errors> {
    let declaration = Declaration::resolve(name, written, args, &mut errors);
    let image = Image::load(args, name, &mut errors);
    let (declaration, image) = errors.propagate(declaration.zip(image))?;
    let verdicts = verdict::compare_all(name, &declaration, &image, &mut errors);
    let verdicts = errors.propagate(verdicts)?;
    Ok((declaration, image, verdicts))
}

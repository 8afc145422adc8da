//! Takes a declaration through all phases but the last, which writes code.

use super::arguments::Arguments;
use super::declaration::{Declaration, Name};
use super::image::Image;
use super::verdict::{self, Verdict};
use super::written;
use crate::errors::Errors;

/// A declaration that went through all phases but the last, code.
pub(crate) enum Checked {
    Kernel(Box<Kernel>),
    /// The name is kept, so that its uses raise no further errors.
    Broken(Box<Name>, Errors),
}

/// A kernel that passed all checks.
pub(crate) struct Kernel {
    pub(crate) name: Name,
    pub(crate) declaration: Declaration,
    pub(crate) image: Image,
    /// One for each instance of the declaration.
    pub(crate) verdicts: Vec<Verdict>,
}

impl Checked {
    /// `errors` holds the errors in the arguments.
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

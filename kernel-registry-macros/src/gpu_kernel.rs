//! `#[gpu_kernel]`: from a declaration without a body to a registered kernel.

mod arguments;
mod code;
mod declaration;
mod facts;
mod image;
mod module;
mod verdict;
mod written;

use proc_macro2::TokenStream;
use quote::quote;

use self::arguments::Arguments;
use self::declaration::{Declaration, Name};
use self::image::Image;
use self::verdict::Verdict;
use self::written::Item;
use crate::errors::Errors;

pub(crate) fn expand(args: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let args = Arguments::parse(args, &mut errors);
    match written::parse(item) {
        Ok(Item::Kernel(written)) => Checked::new(*written, &args, errors).expand(),
        Ok(Item::Module(item)) => module::expand(item, &args, errors),
        Err(error) => {
            errors.push(error);
            errors.into_items(&[])
        }
    }
}

/// A declaration that went through all phases but the last, code.
enum Checked {
    Kernel(Box<Kernel>),
    /// The name stays, so that its uses raise no further errors.
    Broken(Box<Name>, Errors),
}

/// A kernel that passed all checks.
struct Kernel {
    name: Name,
    declaration: Declaration,
    image: Image,
    /// One for each instance of the declaration.
    verdicts: Vec<Verdict>,
}

impl Checked {
    /// `errors` holds the errors in the arguments.
    fn new(written: written::Declaration, args: &Arguments, mut errors: Errors) -> Self {
        let name = Name::resolve(&written, args, &mut errors);
        match phases(&name, written, args, errors) {
            Ok((declaration, image, verdicts)) => {
                Checked::Kernel(Box::new(Kernel { name, declaration, image, verdicts }))
            }
            Err(errors) => Checked::Broken(Box::new(name), errors),
        }
    }

    fn expand(self) -> TokenStream {
        match self {
            Checked::Kernel(kernel) => code::kernel(&kernel),
            Checked::Broken(name, errors) => {
                let (errors, code) = (errors.into_items(&name.cfgs), code::broken(&name));
                quote!(#errors #code)
            }
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
    let verdicts = verdict::all(name, &declaration, &image, &mut errors);
    let verdicts = errors.propagate(verdicts)?;
    Ok((declaration, image, verdicts))
}

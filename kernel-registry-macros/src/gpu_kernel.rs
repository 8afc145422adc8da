//! `#[gpu_kernel]`: expands a declaration without a body to a registered kernel.

mod arguments;
mod checked;
mod code;
mod declaration;
mod facts;
mod image;
mod module;
mod verdict;
mod written;

use proc_macro2::TokenStream;

use self::arguments::Arguments;
use self::checked::Checked;
use self::written::Item;
use crate::errors::Errors;

pub(crate) fn expand(args: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let args = Arguments::parse(args, &mut errors);
    match written::parse(item) {
        Ok(Item::Kernel(written)) => code::expand(Checked::new(*written, &args, errors)),
        Ok(Item::Module(item)) => module::expand(item, &args, errors),
        Err(error) => {
            errors.push(error);
            errors.into_items(&[])
        }
    }
}

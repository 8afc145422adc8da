//! Collects what is wrong, each on its own tokens, so that a declaration can be mended in one go.

use std::fmt::Display;

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::Attribute;

#[derive(Default)]
pub(crate) struct Report {
    errors: Option<syn::Error>,
}

impl Report {
    /// Says what is wrong with these tokens. Messages are lower case, state the rule, then the remedy.
    pub(crate) fn at(&mut self, tokens: impl ToTokens, message: impl Display) {
        self.push(syn::Error::new_spanned(tokens, message));
    }

    pub(crate) fn push(&mut self, error: syn::Error) {
        match &mut self.errors {
            Some(errors) => errors.combine(error),
            None => self.errors = Some(error),
        }
    }

    /// The errors as items, which disappear together with what they are about.
    pub(crate) fn into_items(self, cfgs: &[Attribute]) -> TokenStream {
        let errors = self.errors.into_iter().flatten().map(|error| error.to_compile_error());
        errors.map(|error| quote!(#(#cfgs)* #error)).collect()
    }

    /// How many errors were collected, to know whether a step added any.
    pub(crate) fn count(&self) -> usize {
        self.errors.iter().flatten().count()
    }
}

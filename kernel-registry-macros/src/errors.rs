//! Collects errors, each at its own tokens, so that the user sees all errors of a declaration at once.

use std::fmt::Display;
use std::mem;

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::Attribute;

/// The errors of one item. Each phase adds its errors, and [`Errors::propagate`] ends the work after a phase
/// with errors.
#[derive(Default)]
pub(crate) struct Errors {
    all: Option<syn::Error>,
}

impl Errors {
    /// Adds an error about these tokens. Messages are in lower case, and state the rule, then the remedy.
    pub(crate) fn at(&mut self, tokens: impl ToTokens, message: impl Display) {
        self.push(syn::Error::new_spanned(tokens, message));
    }

    pub(crate) fn push(&mut self, error: syn::Error) {
        match &mut self.all {
            Some(errors) => errors.combine(error),
            None => self.all = Some(error),
        }
    }

    pub(crate) fn append(&mut self, other: Errors) {
        if let Some(error) = other.all {
            self.push(error);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_none()
    }

    /// Returns the result of a phase, or all errors so far. A phase that returns `None` has added an error.
    pub(crate) fn propagate<T>(&mut self, made: Option<T>) -> Result<T, Errors> {
        made.filter(|_| self.is_empty()).ok_or_else(|| mem::take(self))
    }

    /// Returns the errors as items with these attributes, so that `#[cfg]` removes the errors along with the
    /// item.
    pub(crate) fn into_items(self, cfgs: &[Attribute]) -> TokenStream {
        let errors = self.all.into_iter().flatten().map(|error| error.to_compile_error());
        errors.map(|error| quote!(#(#cfgs)* #error)).collect()
    }
}

//! Collects what is wrong, each on its own tokens, so that a declaration can be mended in one go.

use std::fmt::Display;

use proc_macro2::TokenStream;
use quote::ToTokens;

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

    pub(crate) fn prepend_to(self, expansion: TokenStream) -> TokenStream {
        let mut tokens = self.errors.map(|errors| errors.to_compile_error()).unwrap_or_default();
        tokens.extend(expansion);
        tokens
    }

    /// How many errors were collected, to know whether a step added any.
    pub(crate) fn count(&self) -> usize {
        self.errors.iter().flatten().count()
    }
}

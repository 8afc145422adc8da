//! Parses the item with the attribute: a function without a body, or a module of such functions.

use proc_macro2::{TokenStream, TokenTree};
use syn::parse::{Parse, ParseStream, Parser};
use syn::{Attribute, Block, ItemMod, LitStr, Signature, Token, Visibility};

pub(crate) enum Item {
    Kernel(Box<Declaration>),
    Module(ItemMod),
}

/// A function as written, which may or may not be a valid kernel.
pub(crate) struct Declaration {
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) vis: Visibility,
    pub(crate) sig: Signature,
    /// The body, which is only parsed to refuse it with a message.
    pub(crate) body: Option<Block>,
}

pub(crate) fn parse(tokens: TokenStream) -> syn::Result<Item> {
    item.parse2(tokens)
}

fn item(input: ParseStream<'_>) -> syn::Result<Item> {
    let attrs = input.call(Attribute::parse_outer)?;
    let vis: Visibility = input.parse()?;
    if input.peek(Token![mod]) || (input.peek(Token![unsafe]) && input.peek2(Token![mod])) {
        let module = input.parse::<ItemMod>()?;
        return Ok(Item::Module(ItemMod { attrs, vis, ..module }));
    }
    if !looks_like_fn(input) {
        return Err(input.error(
            "`#[gpu_kernel]` goes on a declaration without a body, `unsafe fn name(..);`, \
             or on a module of such declarations, `mod name { .. }`",
        ));
    }
    declaration(attrs, vis, input).map(Box::new).map(Item::Kernel)
}

/// Returns whether the tokens look like a function. Then the parser's errors are more precise than the
/// macro's.
fn looks_like_fn(ahead: ParseStream<'_>) -> bool {
    let ahead = ahead.fork();
    while !ahead.is_empty() && !ahead.peek(Token![fn]) {
        let qualifies = ahead.peek(Token![const])
            || ahead.peek(Token![async])
            || ahead.peek(Token![unsafe])
            || ahead.peek(Token![extern])
            || ahead.peek(LitStr);
        if !qualifies || ahead.parse::<TokenTree>().is_err() {
            return false;
        }
    }
    ahead.peek(Token![fn])
}

impl Parse for Declaration {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        declaration(input.call(Attribute::parse_outer)?, input.parse()?, input)
    }
}

/// Parses a function from its signature on.
fn declaration(attrs: Vec<Attribute>, vis: Visibility, input: ParseStream<'_>) -> syn::Result<Declaration> {
    let sig = input.parse()?;
    let body = if input.peek(Token![;]) {
        input.parse::<Token![;]>()?;
        None
    } else if input.peek(syn::token::Brace) {
        Some(input.parse()?)
    } else {
        return Err(input.error("expected `;`: a kernel is declared without a body"));
    };
    Ok(Declaration { attrs, vis, sig, body })
}

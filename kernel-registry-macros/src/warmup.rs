//! `#[warmup]`: registers a function that runs when kernels are warmed.

use std::env;

use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::spanned::Spanned;
use syn::{FnArg, ItemFn, Lit, Path, ReturnType, Safety, Token};

use crate::errors::Errors;
use crate::source::{self, Position};

/// The arguments: `order = 10, crate = path`.
struct Args {
    order: i32,
    krate: TokenStream,
}

pub(crate) fn expand(args: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let args = Args::parse(args, &mut errors);
    let item: ItemFn = match syn::parse2(item.clone()) {
        Ok(function) => function,
        Err(error) => {
            errors.push(error);
            let errors = errors.into_items(&[]);
            return quote!(#errors #item);
        }
    };
    check(&item, &mut errors);
    let is_fine = errors.is_empty();
    let cfgs = source::cfgs(&item.attrs);
    let registration = if is_fine { register(&item, &args) } else { TokenStream::new() };
    let errors = errors.into_items(&cfgs);
    // A function with errors isn't registered. The attribute keeps the compiler from reporting it as unused
    // too.
    let allow = if is_fine { quote!() } else { quote!(#[allow(dead_code)]) };
    quote!(#errors #allow #item #(#cfgs)* #registration)
}

impl Args {
    fn parse(tokens: TokenStream, errors: &mut Errors) -> Self {
        let mut args = Args { order: 0, krate: quote!(::kernel_registry) };
        let read = |input: ParseStream<'_>| {
            while !input.is_empty() {
                let key = input.call(Ident::parse_any)?;
                if !input.peek(Token![=]) {
                    return Err(syn::Error::new_spanned(
                        &key,
                        format!("expected a value, as in `{key} = ..`"),
                    ));
                }
                input.parse::<Token![=]>()?;
                match key.to_string().as_str() {
                    "order" => args.order = order(input)?,
                    "crate" => args.krate = input.parse::<Path>()?.into_token_stream(),
                    _ => {
                        return Err(syn::Error::new_spanned(&key, "`warmup` takes `order` and `crate`"));
                    }
                }
                if !input.is_empty() {
                    input.parse::<Token![,]>()?;
                }
            }
            Ok(())
        };
        if let Err(error) = read.parse2(tokens) {
            errors.push(error);
        }
        args
    }
}

fn order(input: ParseStream<'_>) -> syn::Result<i32> {
    let is_negative = input.parse::<Option<Token![-]>>()?.is_some();
    let number: Lit = input.parse()?;
    let value = match &number {
        Lit::Int(number) => number.base10_parse::<i32>().ok(),
        _ => None,
    };
    let rule = "`order` takes a number, as in `order = 10`";
    let value = value.ok_or_else(|| syn::Error::new_spanned(&number, rule))?;
    Ok(if is_negative { -value } else { value })
}

fn check(item: &ItemFn, errors: &mut Errors) {
    let sig = &item.sig;
    if let Some(token) = &sig.asyncness {
        errors
            .at(token, "a `#[warmup]` function cannot be `async`: wait for what it starts before it returns");
    }
    if let Safety::Unsafe(token) = &sig.safety {
        errors.at(
            token,
            "a `#[warmup]` function is called by the library, which cannot uphold safety conditions: use `unsafe` inside it",
        );
    }
    if !sig.generics.params.is_empty() {
        errors.at(&sig.generics, "a function that runs by itself has no generic parameters");
    }
    let takes_one = sig.inputs.len() == 1 && matches!(sig.inputs.first(), Some(FnArg::Typed(_)));
    if !takes_one {
        errors.at(&sig.ident, "it takes the context that is warmed: declare `(warm: &WarmContext<'_>)`");
    }
}

fn register(item: &ItemFn, Args { order, krate }: &Args) -> TokenStream {
    let ident = &item.sig.ident;
    let private = quote!(#krate::__private_0_1);
    let path = format!("::{}", ident.unraw());
    let package = env::var("CARGO_PKG_NAME").unwrap_or_default();
    let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let Position { file, line, .. } = Position::from_span(ident.span());
    let (order, line) = (Literal::i32_unsuffixed(*order), Literal::u32_unsuffixed(line));
    // The compiler shows an error in the types of the parameter or result at this span.
    let span = match &item.sig.output {
        ReturnType::Type(_, ty) => ty.span(),
        ReturnType::Default => ident.span(),
    };
    // Macro hygiene: this name differs from the function's, even if that's called `warm`.
    let warm = Ident::new("warm", Span::mixed_site().located_at(span));
    let call = quote_spanned!(span=> #private::Outcome::text(#ident(#warm)));
    quote! {
        #private::inventory::submit! {
            #private::Hook::new(
                #krate::Place::new(
                    ::core::concat!(::core::module_path!(), #path),
                    #package,
                    #version,
                    #file,
                    #line,
                ),
                #order,
                |#warm: &#krate::WarmContext<'_>| #call,
            )
        }
    }
}

//! Generates the checks that only the compiler can make: of types whose layout the macro doesn't know, and of
//! constants. A check's tokens have the span of the type or constant, so the compiler shows the error there.

use kernel_registry_image::comparison::{BlockRule, Expected};
use kernel_registry_image::source::PlacedField;
use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{quote, quote_spanned};
use syn::Expr;
use syn::spanned::Spanned;

use crate::gpu_kernel::declaration::Instance;
use crate::gpu_kernel::declaration::block::Block;
use crate::gpu_kernel::declaration::bytes::{self, number};
use crate::gpu_kernel::declaration::param::Param;
use crate::gpu_kernel::verdict::{Layout, Verdict};

/// Returns the calls that check an instance.
pub(crate) fn emit(instance: &Instance, verdict: &Verdict, krate: &TokenStream) -> Vec<TokenStream> {
    let params = instance.params.iter().zip(&verdict.layouts);
    let mut checks: Vec<_> = params.filter_map(|(param, layout)| check_param(param, layout, krate)).collect();
    checks.extend(instance.block.as_ref().and_then(|block| check_block(block, verdict, krate)));
    checks.extend(instance.shared.as_ref().and_then(|shared| check_shared(shared, verdict, krate)));
    checks.extend(instance.stack.as_ref().and_then(|stack| check_stack(stack, krate)));
    checks
}

fn check_param(param: &Param, layout: &Layout, krate: &TokenStream) -> Option<TokenStream> {
    let Layout::Checked(expected, message) = layout else { return None };
    let element = &param.element;
    let span = element.span();
    let check = |name: &str| function(name, krate, span);
    Some(match expected {
        Expected::Scalar(scalar) => {
            let (check, path) = (check("scalar"), check("Scalar"));
            let scalar = Ident::new(&format!("{scalar:?}"), span);
            quote_spanned!(span=> #check::<#element>(#path::#scalar, #message))
        }
        Expected::Pointer => {
            let check = check("address");
            quote_spanned!(span=> #check::<#element>(#message))
        }
        Expected::Layout { size, align, fields } if fields.is_empty() => {
            let check = check("sized");
            quote_spanned!(span=> #check::<#element>(#size, #align, #message))
        }
        Expected::Layout { size, align, fields } => {
            let check = check("fields");
            let fields = fields.iter().map(|PlacedField { field, offset, .. }| {
                let (name, declared) = (&field.name, field.to_string());
                let (size, is_float) = field.number().unwrap_or((0, false));
                quote_spanned!(span=> (#name, #declared, #offset, #size, #is_float))
            });
            quote_spanned!(span=> #check::<#element>(#size, #align, &[#(#fields),*], #message))
        }
        Expected::Named { name, size, align } => {
            let check = check("named");
            quote_spanned!(span=> #check::<#element>(#name, #size, #align, #message))
        }
    })
}

/// Returns the check of a block. `None` if the block is written in numbers, which the macro has checked.
fn check_block(block: &Block, verdict: &Verdict, krate: &TokenStream) -> Option<TokenStream> {
    if block.numbers().is_some() {
        return None;
    }
    let [x, y, z] = &block.axes;
    let span = x.span();
    let check = |name: &str| function(name, krate, span);
    Some(match &verdict.block {
        None => {
            let check = check("block");
            quote_spanned!(span=> #check([#x, #y, #z]))
        }
        Some((BlockRule::Exactly([a, b, c]), message)) => {
            let check = check("block_exactly");
            quote_spanned!(span=> #check([#x, #y, #z], [#a, #b, #c], #message))
        }
        Some((BlockRule::AtMost(most), message)) => {
            let check = check("block_at_most");
            quote_spanned!(span=> #check([#x, #y, #z], #most, #message))
        }
    })
}

fn check_shared(shared: &Expr, verdict: &Verdict, krate: &TokenStream) -> Option<TokenStream> {
    let (most, message) = verdict.shared.as_ref().filter(|_| number(shared).is_none())?;
    Some(check_bytes(shared, *most, message, krate))
}

fn check_stack(stack: &Expr, krate: &TokenStream) -> Option<TokenStream> {
    let is_expression = number(stack).is_none();
    is_expression.then(|| check_bytes(stack, bytes::MOST_STACK, &bytes::stack_too_large(), krate))
}

fn check_bytes(bytes: &Expr, most: u32, message: &str, krate: &TokenStream) -> TokenStream {
    let span = bytes.span();
    let check = function("bytes", krate, span);
    quote_spanned!(span=> #check(#bytes, #most, #message))
}

fn function(name: &str, krate: &TokenStream, span: Span) -> TokenStream {
    let name = Ident::new(name, span);
    respanned(quote!(#krate::__private_0_1::checks::#name), span)
}

/// Returns the tokens with this span.
pub(crate) fn respanned(tokens: TokenStream, span: Span) -> TokenStream {
    let respan = |mut token: TokenTree| {
        token.set_span(span);
        token
    };
    tokens.into_iter().map(respan).collect()
}

//! The stack that a declaration asks for, where no tool knows what the kernel needs.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Expr, ExprLit, Lit};

use crate::report::Report;

/// Local memory that a thread can have at most: CUDA's programming guide, table of compute capabilities.
const MOST: u32 = 512 * 1024;

/// Bytes of stack of a thread, or an expression for them.
pub(crate) struct Stack(Expr);

impl Stack {
    pub(crate) fn parse(value: &Expr, report: &mut Report) -> Stack {
        let fits = match value {
            Expr::Lit(ExprLit { lit: Lit::Int(bytes), .. }) => match bytes.base10_parse::<u32>() {
                Ok(bytes) if bytes > MOST => {
                    report.at(value, format!("a thread can have a stack of {MOST} bytes at most"));
                    true
                }
                parsed => parsed.is_ok(),
            },
            Expr::Lit(_) | Expr::Unary(_) => false,
            _ => true,
        };
        if !fits {
            report
                .at(value, "`stack` takes the bytes of stack that a thread needs, as in `stack = 16 * 1024`");
        }
        Stack(value.clone())
    }

    /// The bytes. The compiler checks expressions.
    pub(crate) fn expand(&self, krate: &TokenStream) -> TokenStream {
        let bytes = &self.0;
        match bytes {
            Expr::Lit(_) => quote!(#bytes),
            _ => {
                let check = quote_spanned!(bytes.span()=> __stack(#bytes, #MOST));
                quote!({ use #krate::__private::stack as __stack; #check })
            }
        }
    }
}

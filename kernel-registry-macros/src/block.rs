//! The threads of a block: what a declaration says of them, and whether the hardware and the kernel allow it.

use kernel_registry_image::Entry;
use kernel_registry_image::declared::BlockRule;
use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Expr, ExprLit, Lit, LitInt};

use crate::report::Report;

/// The most threads that a block can have in all, and along each axis, on every GPU there is.
const MAX_THREADS: u64 = 1024;
const MAX_AXES: [u64; 3] = [1024, 1024, 64];

/// The axes as written, or padded with ones; what is not a literal is checked by the compiler.
pub(crate) struct Block {
    axes: [Expr; 3],
    /// What the kernel was compiled for, with the words for a block that is something else.
    rule: Option<(BlockRule, String)>,
}

impl Block {
    pub(crate) fn parse(value: &Expr, report: &mut Report) -> Option<Block> {
        let mut axes: Vec<Expr> = match value {
            Expr::Tuple(tuple) => tuple.elems.iter().cloned().collect(),
            value => vec![value.clone()],
        };
        if !(1..=3).contains(&axes.len()) {
            report.at(
                value,
                "`block` takes the threads of a block, as in `block = 256` or `block = (32, 8, 1)`",
            );
            return None;
        }
        let mut threads = 1;
        for (axis, max) in axes.iter().zip(MAX_AXES) {
            let Expr::Lit(ExprLit { lit, .. }) = axis else { continue };
            let count = match lit {
                Lit::Int(count) => count.base10_parse::<u64>().ok(),
                _ => None,
            };
            match count {
                Some(count @ 1..) if count <= max => threads *= count,
                _ => report.at(axis, format!("a block has 1 to {max} threads along this axis")),
            }
        }
        if threads > MAX_THREADS {
            report.at(
                value,
                format!("a block has at most {MAX_THREADS} threads in all, and this one has {threads}"),
            );
        }
        let one = Lit::Int(LitInt::new("1", Span::call_site()));
        axes.resize(3, Expr::Lit(ExprLit { attrs: Vec::new(), lit: one }));
        Some(Block { axes: axes.try_into().ok()?, rule: None })
    }

    /// Compares the block with what the kernel was compiled for, as far as it is written in numbers.
    pub(crate) fn compare(&mut self, entry: &Entry, report: &mut Report) {
        self.rule = BlockRule::of(entry).map(|rule| (rule, rule.message(entry)));
        if let (Some(block), Some((rule, message))) = (self.numbers(), &self.rule)
            && !rule.allows(block)
        {
            report.at(&self.axes[0], message);
        }
    }

    fn numbers(&self) -> Option<[u32; 3]> {
        let number = |axis: &Expr| match axis {
            Expr::Lit(ExprLit { lit: Lit::Int(count), .. }) => count.base10_parse::<u32>().ok(),
            _ => None,
        };
        let [Some(x), Some(y), Some(z)] = self.axes.each_ref().map(number) else { return None };
        Some([x, y, z])
    }

    /// The axes as an array. What the macro has not seen to be right is checked by the compiler, in code
    /// that has the span of what was written, so that an error in it is shown there.
    pub(crate) fn expand(&self, krate: &TokenStream) -> TokenStream {
        let [x, y, z] = &self.axes;
        if self.numbers().is_some() {
            return quote!([#x, #y, #z]);
        }
        let span = x.span();
        let check = match &self.rule {
            None => quote_spanned!(span=> __block([#x, #y, #z])),
            Some((BlockRule::Exactly([a, b, c]), message)) => {
                quote_spanned!(span=> __block([#x, #y, #z]).exactly([#a, #b, #c], #message))
            }
            Some((BlockRule::AtMost(max), message)) => {
                quote_spanned!(span=> __block([#x, #y, #z]).at_most(#max, #message))
            }
        };
        quote!({ use #krate::__private::block as __block; #check.axes() })
    }
}

//! Parses `block = ..`, the threads of a block, and checks them against the limits of every GPU.

use proc_macro2::Span;
use syn::{Expr, ExprLit, Lit, LitInt};

use super::bytes::number;
use crate::errors::Errors;

/// The most threads of a block on every GPU, all axes together.
const MAX_THREADS: u64 = 1024;
/// The most threads of a block along each axis, on every GPU.
const MAX_AXES: [u64; 3] = [1024, 1024, 64];

/// The threads along each axis as written, padded with ones to three axes. The compiler checks axes that
/// aren't literals.
pub(crate) struct Block {
    pub(crate) axes: [Expr; 3],
}

impl Block {
    pub(crate) fn parse(value: &Expr, errors: &mut Errors) -> Option<Block> {
        let mut axes: Vec<Expr> = match value {
            Expr::Tuple(tuple) => tuple.elems.iter().cloned().collect(),
            value => vec![value.clone()],
        };
        let is_number =
            |axis: &Expr| !matches!(axis, Expr::Lit(ExprLit { lit, .. }) if !matches!(lit, Lit::Int(_)));
        if !(1..=3).contains(&axes.len()) || !axes.iter().all(is_number) {
            errors.at(
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
                _ => errors.at(axis, format!("a block has 1 to {max} threads along this axis")),
            }
        }
        if threads > MAX_THREADS {
            errors.at(
                value,
                format!("a block has at most {MAX_THREADS} threads in all, and this one has {threads}"),
            );
        }
        let one = Lit::Int(LitInt::new("1", Span::call_site()));
        axes.resize(3, Expr::Lit(ExprLit { attrs: Vec::new(), lit: one }));
        Some(Block { axes: axes.try_into().ok()? })
    }

    /// Returns the axes, if all of them are written as numbers.
    pub(crate) fn numbers(&self) -> Option<[u32; 3]> {
        let [Some(x), Some(y), Some(z)] = self.axes.each_ref().map(number) else { return None };
        Some([x, y, z])
    }
}

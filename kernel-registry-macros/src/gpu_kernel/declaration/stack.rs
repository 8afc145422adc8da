//! The argument `stack = ..`: bytes of stack per thread, for kernels whose image does not show how much they need.

use syn::{Expr, ExprLit, Lit};

use crate::errors::Errors;

/// The most local memory of a thread: CUDA's programming guide, table of compute capabilities.
pub(crate) const MOST: u32 = 512 * 1024;

/// The error message for more, which ends where the number of bytes follows.
pub(crate) fn too_large() -> String {
    format!("a thread can have a stack of {MOST} bytes at most, and this is ")
}

/// Bytes of stack per thread, as an expression.
pub(crate) struct Stack(pub(crate) Expr);

impl Stack {
    pub(crate) fn parse(value: &Expr, errors: &mut Errors) -> Stack {
        let fits = match value {
            Expr::Lit(ExprLit { lit: Lit::Int(bytes), .. }) => match bytes.base10_parse::<u32>() {
                Ok(bytes) if bytes > MOST => {
                    errors.at(value, format!("{}{bytes}", too_large()));
                    true
                }
                parsed => parsed.is_ok(),
            },
            Expr::Lit(_) | Expr::Unary(_) => false,
            _ => true,
        };
        if !fits {
            errors
                .at(value, "`stack` takes the bytes of stack that a thread needs, as in `stack = 16 * 1024`");
        }
        Stack(value.clone())
    }
}

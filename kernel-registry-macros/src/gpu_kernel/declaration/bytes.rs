//! Checks the arguments `shared = ..`, the dynamic shared memory of a block, and `stack = ..`, the stack of a
//! thread. They're for kernels whose image doesn't have these numbers.

use syn::{Expr, ExprLit, Lit};

use crate::errors::Errors;

/// The most local memory of a thread, from the table of compute capabilities in CUDA's programming guide.
pub(crate) const MOST_STACK: u32 = 512 * 1024;

/// Returns the start of the message for a larger stack. The caller appends the number of bytes.
pub(crate) fn stack_too_large() -> String {
    format!("a thread can have a stack of {MOST_STACK} bytes at most, and this is ")
}

/// Checks a number of bytes of shared memory, or an expression for it.
pub(crate) fn shared(value: Expr, errors: &mut Errors) -> Expr {
    const RULE: &str = "`shared` takes the bytes of dynamic shared memory, as in `shared = 48 * 1024`";
    checked(value, RULE, errors)
}

/// Checks a number of bytes of stack, or an expression for it.
pub(crate) fn stack(value: Expr, errors: &mut Errors) -> Expr {
    const RULE: &str = "`stack` takes the bytes of stack that a thread needs, as in `stack = 16 * 1024`";
    if let Some(bytes) = number(&value).filter(|bytes| *bytes > MOST_STACK) {
        errors.at(&value, format!("{}{bytes}", stack_too_large()));
    }
    checked(value, RULE, errors)
}

fn checked(value: Expr, rule: &str, errors: &mut Errors) -> Expr {
    if number(&value).is_none() && matches!(value, Expr::Lit(_) | Expr::Unary(_)) {
        errors.at(&value, rule);
    }
    value
}

/// Returns the value of a literal number.
pub(crate) fn number(value: &Expr) -> Option<u32> {
    match value {
        Expr::Lit(ExprLit { lit: Lit::Int(number), .. }) => number.base10_parse().ok(),
        _ => None,
    }
}

//! The dynamic shared memory that a declaration asks for.

use syn::{Expr, ExprLit, Lit};

use crate::errors::Errors;

/// A number of bytes, or an expression for it.
pub(crate) struct Shared(pub(crate) Expr);

impl Shared {
    pub(crate) fn parse(value: &Expr, errors: &mut Errors) -> Shared {
        let shared = Shared(value.clone());
        let can_be_number = !matches!(value, Expr::Lit(_) | Expr::Unary(_));
        if shared.number().is_none() && !can_be_number {
            errors.at(value, "`shared` takes the bytes of dynamic shared memory, as in `shared = 48 * 1024`");
        }
        shared
    }

    /// The bytes, if they are written as a number.
    pub(crate) fn number(&self) -> Option<u32> {
        match &self.0 {
            Expr::Lit(ExprLit { lit: Lit::Int(bytes), .. }) => bytes.base10_parse().ok(),
            _ => None,
        }
    }
}

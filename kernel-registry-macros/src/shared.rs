//! Dynamic shared memory: what a declaration asks for, and what the devices it is for can give a block.

use kernel_registry_image::{Entry, Image};
use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Expr, ExprLit, Lit};

use crate::report::Report;

/// A number of bytes, or an expression for which the compiler finds that out.
pub(crate) struct Shared {
    bytes: Expr,
    limit: Option<Limit>,
}

/// The most dynamic shared memory there can be, with the words for more.
struct Limit {
    bytes: u32,
    message: String,
}

impl Shared {
    pub(crate) fn parse(value: &Expr, report: &mut Report) -> Shared {
        let fits = match value {
            Expr::Lit(ExprLit { lit: Lit::Int(bytes), .. }) => bytes.base10_parse::<u32>().is_ok(),
            Expr::Lit(_) | Expr::Unary(_) => false,
            _ => true,
        };
        if !fits {
            report.at(value, "`shared` takes the bytes of dynamic shared memory, as in `shared = 48 * 1024`");
        }
        Shared { bytes: value.clone(), limit: None }
    }

    /// Compares it with what the oldest device gives a block that the kernel is for: the one that the declaration
    /// names, or the oldest that the image is for.
    pub(crate) fn compare(
        &mut self,
        entry: &Entry,
        image: &Image,
        file: &str,
        min_arch: Option<u32>,
        report: &mut Report,
    ) {
        let Some(oldest) = image.variants.iter().map(|variant| variant.target.sm).min() else { return };
        let arch = min_arch.unwrap_or(oldest).max(oldest);
        let variants = image.variants.iter().filter_map(|variant| variant.entry(&entry.symbol));
        let fixed = variants.filter_map(|entry| Some(entry.resources.as_ref()?.static_shared)).max();
        let fixed = fixed.unwrap_or(0);
        let most = most(arch);
        let bytes = most.saturating_sub(fixed);
        let remedy = if most < MOST_OF_ALL { ": say where it runs, as in `arch = \">=90\"`" } else { "" };
        let fixed = if fixed > 0 { format!(" beside its own {fixed}") } else { String::new() };
        let reason = if min_arch.is_some() { String::new() } else { format!(", which `{file}` is for,") };
        let message = format!(
            "on sm_{arch}{reason} a block can have {bytes} bytes of dynamic shared memory{fixed}, and this is more{remedy}"
        );
        if self.number().is_some_and(|asked| asked > bytes) {
            report.at(&self.bytes, &message);
        }
        self.limit = Some(Limit { bytes, message });
    }

    fn number(&self) -> Option<u32> {
        match &self.bytes {
            Expr::Lit(ExprLit { lit: Lit::Int(bytes), .. }) => bytes.base10_parse().ok(),
            _ => None,
        }
    }

    /// The bytes. What the macro has not seen to be right is checked by the compiler.
    pub(crate) fn expand(&self, krate: &TokenStream) -> TokenStream {
        let bytes = &self.bytes;
        match &self.limit {
            Some(Limit { bytes: most, message }) if self.number().is_none() => {
                let check = quote_spanned!(bytes.span()=> __shared(#bytes, #most, #message));
                quote!({ use #krate::__private::shared as __shared; #check })
            }
            _ => quote!(#bytes),
        }
    }
}

/// What the largest devices give.
const MOST_OF_ALL: u32 = 227 * 1024;

/// The most shared memory that a block can ask for: CUDA's programming guide, table of compute capabilities.
fn most(arch: u32) -> u32 {
    1024 * match arch {
        ..70 => 48,
        70..75 => 96,
        75..80 => 64,
        86 | 89 => 99,
        80..90 => 163,
        120.. => 99,
        _ => MOST_OF_ALL / 1024,
    }
}

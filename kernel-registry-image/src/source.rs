//! Parses the kernels of a CUDA source: the names of their parameters, and the types that `extern "C"` names
//! lack.
//!
//! The source may be preprocessed or not. This isn't a C++ compiler: code that it doesn't understand is left
//! out, or marked as not certain.
//!
//! ```
//! use kernel_registry_image::source::{c_signatures, kernels};
//!
//! let text = "using real = float;
//!     extern \"C\" __global__ void scale(size_t n, real *__restrict__ x, Other how) { .. }";
//! let scale = &kernels(text)[0];
//! assert_eq!(scale.params[0].name.as_deref(), Some("n"));
//! assert_eq!(scale.params[1].ty.to_string(), "float*");
//!
//! let signatures = c_signatures(text, |name| name == "FAST");
//! assert_eq!(signatures[0].to_string(), "scale(unsigned long, float*, ?)");
//! ```

mod c_signature;
mod functions;
mod layouts;
mod nesting;
mod param_names;
mod records;
mod tokens;
mod types;

pub use c_signature::{CSignature, c_signatures};
pub use functions::Function;
pub use layouts::certain_structs;
pub use param_names::param_names;
pub use records::{Field, PlacedField};
pub use types::Parameter;

use std::collections::HashMap;

use self::nesting::Plain;
use self::records::Record;
use self::types::Names;

/// Returns the kernels of a source, in order. Prototypes count too.
pub fn kernels(text: &str) -> Vec<Function> {
    kernels_among_macros(text, &|_| false)
}

/// Returns the kernels of a source whose headers define macros.
fn kernels_among_macros(text: &str, is_macro: &dyn Fn(&str) -> bool) -> Vec<Function> {
    read(text, is_macro, functions::kernels)
}

/// Returns the fields of a source's structs, by name without namespaces. Leaves out structs that have more
/// than plain fields, or that share a name.
pub fn structs(text: &str) -> HashMap<String, Vec<Field>> {
    let records = records_among_macros(text, &|_| false);
    records.into_iter().map(|(name, record)| (name, record.fields)).collect()
}

/// Returns the structs of a source whose headers define macros.
fn records_among_macros(text: &str, is_macro: &dyn Fn(&str) -> bool) -> HashMap<String, Record> {
    read(text, is_macro, records::collect)
}

/// Splits a source into tokens, and calls `read` with the tokens and the meanings of names.
fn read<T>(
    text: &str,
    is_macro: &dyn Fn(&str) -> bool,
    read: impl FnOnce(&[&str], &[Plain], &Names<'_, '_>) -> T,
) -> T {
    let tokens = tokens::split(text);
    let plain = nesting::plain(&tokens);
    let macros = functions::macros(&tokens);
    let is_macro = |word: &str| macros.contains(word) || is_macro(word);
    read(&tokens, &plain, &Names::collect(&tokens, &plain, &is_macro))
}

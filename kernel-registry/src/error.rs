//! Errors of the registry, and the error that `main` returns.

use std::error::Error;
use std::fmt;

use kernel_registry_format::Printable;

use crate::copies::{OtherCopy, REMEDY, VERSION};
use crate::driver::OfCudarc;
use crate::place::Place;
use crate::records;

/// Why a query of the registry failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RegistryError {
    /// The binary holds records of kernels that did not register themselves when the program started, because the linker
    /// dropped their initialisers.
    RegistrationsLost {
        /// How many kernels the binary holds records of.
        records: usize,
        /// How many of these kernels registered themselves.
        registrations: usize,
        /// The kernels that did not register themselves.
        missing: Vec<Place>,
    },
    /// More kernels registered themselves than the binary holds records of.
    RecordsLost {
        /// How many kernels the binary holds records of.
        records: usize,
        /// How many kernels with a record in this binary registered themselves.
        registrations: usize,
    },
    /// The link section of the records contains bytes that are no record.
    SectionDamaged {
        /// The offset of these bytes, and what is wrong with them.
        reason: String,
    },
    /// No kernel has this path, or a path that ends with it.
    NotFound {
        /// The path that was looked up.
        path: String,
        /// Similar paths.
        near: Vec<&'static str>,
        /// Another copy of kernel-registry in the program, if that copy has a kernel with this path.
        other_copy: Option<&'static OtherCopy>,
    },
    /// No kernel has this symbol in its image.
    SymbolNotFound {
        /// The symbol that was looked up.
        symbol: String,
        /// Similar symbols.
        near: Vec<&'static str>,
    },
    /// Several kernels have this path, or a path that ends with it, or this symbol.
    Ambiguous {
        /// The path or symbol that was looked up.
        path: String,
        /// Where these kernels are declared.
        places: Vec<Place>,
    },
}

/// Any error, for `main` to return. Rust prints the error that `main` returns with `Debug`. Here, `Debug` writes the error's text,
/// followed by the texts of its sources. Of an error of cudarc, which has no text of its own, it writes code, name, the driver's
/// text and the remedy.
///
/// ```no_run
/// fn main() -> Result<(), kernel_registry::MainError> {
///     let context = kernel_registry::context(0)?;
///     kernel_registry::warm_all(&context)?;
///     Ok(())
/// }
/// ```
pub struct MainError(Box<dyn Error + Send + Sync>);

impl<E: Error + Send + Sync + 'static> From<E> for MainError {
    fn from(error: E) -> Self {
        MainError(Box::new(error))
    }
}

impl fmt::Debug for MainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", WithCauses(&*self.0))
    }
}

/// An error, written in one line with the texts of its sources.
pub(crate) struct WithCauses<'a>(pub(crate) &'a (dyn Error + 'static));

impl fmt::Display for WithCauses<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut error = self.0;
        loop {
            match error.downcast_ref() {
                Some(of_cudarc) => write!(f, "{}", OfCudarc(of_cudarc))?,
                None => write!(f, "{error}")?,
            }
            let Some(cause) = error.source() else { return Ok(()) };
            f.write_str(": ")?;
            error = cause;
        }
    }
}

/// The section with the initialisers that register kernels, and who is known to drop them.
const INITIALISERS: &str = if cfg!(windows) { "`.CRT$XCU`" } else { "`.init_array` (mold 1.0.3 does)" };

impl fmt::Display for RegistryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RegistryError::RegistrationsLost { records, registrations, missing } => {
                write!(
                    f,
                    "the binary holds {records} kernels, but only {registrations} registered themselves at start: \
                     the linker dropped initialisers of {INITIALISERS}; use another linker"
                )?;
                missing.iter().try_for_each(|place| write!(f, "\n  lost: `{}` at {place}", place.path))
            }
            RegistryError::RecordsLost { records, registrations } => write!(
                f,
                "{registrations} kernels of this binary registered themselves, but it holds records of only {records}: \
                 the linker dropped part of a section that it had to keep; use another linker"
            ),
            RegistryError::SectionDamaged { reason } => write!(
                f,
                "the section `{}` of this binary does not consist of records: {reason}; \
                 does something else use this section?",
                records::NAME
            ),
            RegistryError::NotFound { path, other_copy: Some(OtherCopy { version, .. }), .. } => write!(
                f,
                "no kernel `{path}` in this copy of kernel-registry (version {VERSION}): it is registered with another copy \
                 in this program (version {version}); {REMEDY}"
            ),
            RegistryError::NotFound { path, near, .. } => {
                write!(f, "no kernel `{}`", Printable(path))?;
                did_you_mean(near, f)
            }
            RegistryError::SymbolNotFound { symbol, near } => {
                write!(f, "no kernel with the symbol `{}`", Printable(symbol))?;
                did_you_mean(near, f)
            }
            RegistryError::Ambiguous { path, places } => {
                write!(f, "{} kernels are called `{path}`; give more of the path:", places.len())?;
                places.iter().try_for_each(|place| match place.path == path {
                    true => write!(f, "\n  {place}"),
                    false => write!(f, "\n  `{}` at {place}", place.path),
                })
            }
        }
    }
}

fn did_you_mean(near: &[&str], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match near {
        [] => f.write_str(
            ": is its crate named in this program? `link_kernels!` names a crate that is there only for its kernels",
        ),
        [first, rest @ ..] => {
            write!(f, ": did you mean `{first}`")?;
            rest.iter().try_for_each(|other| write!(f, " or `{other}`"))?;
            f.write_str("?")
        }
    }
}

impl Error for RegistryError {}

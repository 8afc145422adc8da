//! `cargo kernels declare`: writes a Rust module that declares the kernels of an image or a CUDA source, or checks one
//! that was written before.
//!
//! The files, in the order in which data flows through them:
//!
//! - `input` reads the image, and `source` the parameters and structs that a CUDA source declares;
//! - `kernel` merges what image and source tell of each kernel;
//! - `types` chooses Rust types for parameters, `structs` lists the structs to be defined, and `fields` lays out their fields;
//! - `template` gathers the instances of templates;
//! - `kept` reads what people added to an earlier file, `module` builds the model of the new file, and `text` writes it;
//! - `file` does all of this for one file, and `difference` compares the result with an earlier file;
//! - `folder` declares the kernels of a whole folder, and `shared` finds the structs that its files share.
//!
//! These files use `known_types` (Rust types for CUDA's types), `layout` and `names` (identifiers).

mod difference;
mod fields;
mod file;
mod folder;
mod input;
mod kept;
mod kernel;
mod known_types;
mod layout;
mod module;
pub(crate) mod names;
mod shared;
mod source;
mod structs;
mod template;
mod text;
mod types;

use std::fs;
use std::io::Write;
use std::path::Path;

use self::input::Unit;
use self::structs::Shared;
use crate::cli::Declare;
use crate::failure::Failure;
use crate::output;

pub(crate) fn run(options: &Declare) -> Result<(), Failure> {
    if options.file.is_dir() {
        return folder::run(options);
    }
    let target = options.output.as_deref().or(options.check.as_deref());
    let unit = Unit::read(options)?;
    let text = file::module(&unit, &Shared::default(), "", target, &file::command(options, target))?;
    match (&options.check, &options.output) {
        (Some(path), _) => check(&text, path, options)?,
        (None, Some(path)) => file::write(&text, path)?,
        (None, None) => output::print(|out| out.write_all(text.as_bytes()))?,
    }
    unit.unread.check()
}

fn check(text: &str, path: &Path, options: &Declare) -> Result<(), Failure> {
    let old = fs::read_to_string(path).map_err(Failure::of_io(path))?;
    let differences = difference::between(&old, text);
    if differences.is_empty() {
        return Ok(());
    }
    output::print(|out| differences.iter().try_for_each(|difference| writeln!(out, "{difference}")))?;
    let remedy = file::command(options, Some(path));
    Err(Failure::Outdated { path: path.to_owned(), count: differences.len(), remedy })
}

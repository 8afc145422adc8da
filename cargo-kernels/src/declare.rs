//! `cargo kernels declare`: writes a Rust module that declares the kernels of an image or a CUDA source, or checks one
//! that was written before.
//!
//! `input` has the image, and `source` the parameters and structs as a CUDA source declares them; `kernel` collects what these
//! say of each kernel; `types` finds Rust types for its parameters, `structs` those that have to be defined, and `fields`
//! their fields; `template` gathers instances; `names` makes identifiers; `module` puts it together, `text` writes it, and
//! `difference` compares it with a file. `folder` does all that for a whole folder.

mod difference;
mod fields;
mod folder;
mod input;
mod kernel;
mod module;
pub(crate) mod names;
mod source;
mod structs;
mod template;
mod text;
mod types;

use std::fs;
use std::io::Write;
use std::path::Path;

use crate::binaries;
use crate::cli::Declare;
use crate::failure::Failure;
use crate::terminal;

use self::input::Input;
use self::module::Module;
use self::source::Source;

pub(crate) fn run(options: &Declare) -> Result<(), Failure> {
    if options.file.is_dir() {
        return folder::run(options);
    }
    let target = options.output.as_deref().or(options.check.as_deref());
    let text = module(options, &command(options, target))?;
    match (&options.check, &options.output) {
        (Some(file), _) => check(&text, file, options),
        (None, Some(file)) => write(&text, file),
        (None, None) => binaries::print(|out| out.write_all(text.as_bytes())),
    }
}

/// The text of a module. `command` is what writes it again.
fn module(options: &Declare, command: &str) -> Result<String, Failure> {
    let path = &options.file;
    let input = Input::read(options)?;
    let image = kernel_registry_image::read(&input.bytes)
        .map_err(|error| Failure::Image { path: path.clone(), error })?;
    let source = match &input.source {
        Some(source) => Source::read(source, &options.flags, &image)?,
        None => Source::default(),
    };
    let module = Module::of(&image, &source, &input);
    for (kernel, reason) in &module.left_out {
        terminal::say(format_args!("warning: `{kernel}` is not declared: {reason}"));
    }
    if let Some(source) = &input.source {
        for name in module.declarations.iter().filter(|kernel| kernel.is_vague).map(|kernel| &kernel.name) {
            terminal::say(format_args!(
                "warning: the types of `{name}` are not known: `{}` has no such kernel",
                source.display()
            ));
        }
    }
    if module.is_empty() {
        return Err(Failure::NothingToDeclare { path: path.clone() });
    }
    Ok(text::of(&module, command))
}

/// The command that writes the file again.
fn command(options: &Declare, target: Option<&Path>) -> String {
    let mut line = format!("cargo kernels declare {}", options.file.display());
    if let Some(image) = &options.image {
        line += &format!(" --image {image}");
    }
    if let Some(source) = &options.source {
        line += &format!(" --source {}", source.display());
    }
    match target {
        Some(file) => line += &format!(" --output {}", file.display()),
        None => line += " --output FILE",
    }
    if !options.flags.is_empty() {
        line += &format!(" -- {}", options.flags.join(" "));
    }
    line
}

/// Leaves a file alone that has these bytes, so that cargo does not build again.
fn write(text: &str, file: &Path) -> Result<(), Failure> {
    if fs::read(file).is_ok_and(|old| old == text.as_bytes()) {
        return Ok(());
    }
    fs::write(file, text).map_err(|error| Failure::NotWritten { path: file.to_owned(), error })
}

fn check(text: &str, file: &Path, options: &Declare) -> Result<(), Failure> {
    let old = fs::read_to_string(file).map_err(|error| Failure::of_io(file.to_owned(), error))?;
    let differences = difference::between(&old, text);
    if differences.is_empty() {
        return Ok(());
    }
    binaries::print(|out| differences.iter().try_for_each(|difference| writeln!(out, "{difference}")))?;
    let remedy = command(options, Some(file));
    Err(Failure::Outdated { path: file.to_owned(), count: differences.len(), remedy })
}

//! `cargo kernels declare`: writes a Rust module that declares the kernels of an image or a CUDA source, or checks one
//! that was written before.
//!
//! `input` has the image, and `source` the parameters and structs as a CUDA source declares them; `kernel` collects what these
//! say of each kernel; `types` finds Rust types for its parameters, `structs` those that have to be defined, and `fields`
//! their fields; `template` gathers instances; `names` makes identifiers; `module` puts it together, `text` writes it, and
//! `kept` has what people added to the file, and `difference` compares it with a file. `folder` does all that for a whole folder, and `shared` has its structs.

mod difference;
mod fields;
mod folder;
mod input;
mod kept;
mod kernel;
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

use crate::binaries;
use crate::cli::Declare;
use crate::failure::Failure;
use crate::terminal;

use self::input::Unit;
use self::kept::Kept;
use self::module::Module;
use self::shared::Shared;

pub(crate) fn run(options: &Declare) -> Result<(), Failure> {
    if options.file.is_dir() {
        return folder::run(options);
    }
    let target = options.output.as_deref().or(options.check.as_deref());
    let unit = Unit::read(options)?;
    let text = module(&unit, &Shared::default(), "", target, &command(options, target))?;
    match (&options.check, &options.output) {
        (Some(file), _) => check(&text, file, options)?,
        (None, Some(file)) => write(&text, file)?,
        (None, None) => binaries::print(|out| out.write_all(text.as_bytes()))?,
    }
    unit.unread().check()
}

/// The text of a module. `command` is what writes it again, and `import` the path of the structs that modules share.
/// `old` is the file that was written before.
fn module(
    unit: &Unit,
    shared: &Shared,
    import: &str,
    old: Option<&Path>,
    command: &str,
) -> Result<String, Failure> {
    let kept = Kept::read(old)?;
    let module = Module::of(unit, shared, &kept);
    let names = module.declarations.iter().map(|kernel| kernel.name.as_str()).collect();
    for kernel in kept.lost(&names) {
        eprintln!("warning: `{kernel}` is gone, and with it what was added to its declaration");
    }
    for (kernel, reason) in &module.left_out {
        terminal::say(format_args!("warning: `{kernel}` is not declared: {reason}"));
    }
    for sentence in unit.unread().sentences() {
        terminal::say(format_args!("warning: {sentence}"));
    }
    if let Some(source) = &unit.input.source {
        for name in module.declarations.iter().filter(|kernel| kernel.is_vague).map(|kernel| &kernel.name) {
            terminal::say(format_args!(
                "warning: the types of `{name}` are not known: `{}` has no such kernel",
                source.display()
            ));
        }
    }
    if module.is_empty() {
        return Err(Failure::NothingToDeclare { path: unit.path.clone() });
    }
    Ok(text::of(&module, import, command))
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

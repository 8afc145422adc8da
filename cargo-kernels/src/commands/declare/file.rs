//! Builds the text of one file of declarations, and writes the file.

use std::fs;
use std::path::Path;

use kernel_registry_command::terminal;

use super::input::Unit;
use super::kept::Kept;
use super::module::Module;
use super::structs::Shared;
use super::text;
use crate::cli::Declare;
use crate::failure::Failure;

/// Builds the text of a module. `command` is the command that writes the file again, `import` the path of the structs that modules
/// share, and `old` the file that was written before.
pub(super) fn module(
    unit: &Unit,
    shared: &Shared,
    import: &str,
    old: Option<&Path>,
    command: &str,
) -> Result<String, Failure> {
    let kept = Kept::read(old)?;
    let module = Module::build(unit, shared, &kept);
    let names = module.declarations.iter().map(|kernel| kernel.name.as_str()).collect();
    for kernel in kept.lost(&names) {
        eprintln!("warning: `{kernel}` is gone, and with it what was added to its declaration");
    }
    for (kernel, reason) in &module.left_out {
        terminal::say(format_args!("warning: `{kernel}` is not declared: {reason}"));
    }
    for sentence in &unit.unread.sentences {
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
    if module.declarations.is_empty() {
        return Err(Failure::NothingToDeclare { path: unit.path.clone() });
    }
    Ok(text::module(&module, import, command))
}

/// Returns the command that writes the file again.
pub(super) fn command(options: &Declare, target: Option<&Path>) -> String {
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

/// Writes a file, unless it is unchanged: then cargo need not rebuild.
pub(super) fn write(text: &str, file: &Path) -> Result<(), Failure> {
    if fs::read(file).is_ok_and(|old| old == text.as_bytes()) {
        return Ok(());
    }
    fs::write(file, text).map_err(Failure::not_written(file))
}

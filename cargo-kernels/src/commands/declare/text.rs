//! Writes a module of declarations, formatted like rustfmt.

use std::fmt::Write;

use kernel_registry_format::is_control;

use super::fields::RustField;
use super::kept::Kept;
use super::layout::Layout;
use super::module::{Declaration, Module};
use super::names;
use super::structs::{Struct, Structs};
use super::template::Generic;

/// The most columns that rustfmt fills: of a line, and of an attribute's arguments.
const WIDTH: usize = 100;
const ATTRIBUTE: usize = 70;

/// The note to readers in the head of a file, after the mark.
pub(super) const KEEPS: &str = "What you add to it is kept when you update it:";

/// Writes the module of structs that other modules share.
pub(super) fn structs(structs: &Structs<'_>, kept: &Kept, folder: &str, command: &str) -> String {
    let mut text = head(&format!("The structs of the kernels of `{}`.", printable(folder)), kept, command);
    if structs.list().any(|known| known.layout.is_some()) {
        text += "\nuse kernel_registry::KernelParam;\n";
    }
    kept.uses.iter().for_each(|import| text += &format!("{import}\n"));
    structs.list().for_each(|known| structure(&known, kept, &mut text));
    others(structs, kept, &mut text);
    text
}

/// Writes the head of a file, with the command that writes the file again.
fn head(about: &str, kept: &Kept, command: &str) -> String {
    let inner: String = kept.inner.iter().map(|line| format!("{line}\n")).collect();
    let command = printable(command);
    format!("//! {about}\n{inner}\n// Written by `cargo kernels declare`. {KEEPS}\n//     {command}\n")
}

/// Writes the items that people added, except structs that are written already.
fn others(structs: &Structs<'_>, kept: &Kept, text: &mut String) {
    let is_written = |name: &str| structs.list().any(|known| known.name == name);
    let more = kept.structs.iter().filter(|(name, item)| !is_written(name) && !item.contains("/// C++'s `"));
    more.map(|(_, item)| item).chain(&kept.others).for_each(|item| *text += &format!("\n{item}\n"));
}

/// Writes the module. `command` writes the file again, and `import` is the path of the structs that modules share.
pub(super) fn module(module: &Module<'_>, import: &str, command: &str) -> String {
    let image = printable(&module.path);
    let mut text = head(&format!("The kernels of `{image}`."), module.kept, command);
    if !module.has_source && module.declarations.iter().any(|declaration| declaration.is_vague) {
        text += "//\n// Names of `extern \"C\"` kernels carry no types. To have them exact, name the CUDA source, as in\n//     cargo kernels declare x.ptx --source x.cu\n";
    }
    if mentions_half(module) {
        text += "//\n// For `half::f16` and `half::bf16`: `cargo add half` and `cargo add kernel-registry --features half`.\n";
    }
    for (kernel, reason) in &module.left_out {
        let line = format!("`{kernel}` is not declared: {reason}");
        let _ = write!(text, "//\n// {}\n", printable(&line));
    }
    let imports = match module.structs.list().any(|known| known.layout.is_some()) {
        true => "{KernelParam, gpu_kernel}",
        false => "gpu_kernel",
    };
    let _ = write!(text, "\nuse kernel_registry::{imports};\n");
    let used: Vec<_> = module.structs.used().collect();
    match used.as_slice() {
        [] => {}
        [one] => text += &format!("\npub use {import}::{one};\n"),
        all => text += &imported(import, all),
    }
    module.kept.uses.iter().for_each(|import| text += &format!("{import}\n"));
    module.structs.list().for_each(|known| structure(&known, module.kept, &mut text));
    module.declarations.iter().for_each(|kernel| declaration(kernel, &module.code, &mut text));
    others(&module.structs, module.kept, &mut text);
    text
}

/// Writes an import of names, broken into lines as rustfmt does.
fn imported(import: &str, names: &[&str]) -> String {
    let line = format!("pub use {import}::{{{}}};", names.join(", "));
    if line.len() <= WIDTH {
        return format!("\n{line}\n");
    }
    let mut lines = vec![String::new()];
    for name in names {
        let last = lines.last().map_or(0, String::len);
        if last > 0 && 4 + last + 1 + name.len() + 1 > WIDTH {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            *line += &format!("{}{name},", if line.is_empty() { "" } else { " " });
        }
    }
    format!("\npub use {import}::{{\n    {}\n}};\n", lines.join("\n    "))
}

/// Replaces control characters: a line break would end a comment.
pub(super) fn printable(text: &str) -> String {
    text.replace(is_control, "?")
}

fn mentions_half(module: &Module<'_>) -> bool {
    let of_half =
        |text: &str| ["half::", "types::Half2", "types::Bfloat162"].iter().any(|half| text.contains(half));
    let fields = module.structs.list().filter_map(|known| known.fields).flatten();
    let mut fields = fields.map(|field| field.ty);
    fields.any(|ty| of_half(&ty))
        || module.declarations.iter().any(|declaration| {
            let args = || declaration.instances.iter().flat_map(|(args, _)| args);
            declaration.params.iter().any(|(_, ty)| of_half(ty)) || args().any(|arg| of_half(&arg.spelled()))
        })
}

fn structure(known: &Struct<'_>, kept: &Kept, text: &mut String) {
    let Struct { name, cuda, layout, fields } = known;
    let what = if cuda.is_empty() {
        "A struct".to_owned()
    } else {
        format!("C++'s `{}`", printable(&names::shortened(cuda)))
    };
    if let Some(fields) = fields {
        let _ = write!(
            text,
            "\n/// {what}.\n#[derive(Clone, Copy, Debug, KernelParam)]\n#[repr(C)]\npub struct {name} {{\n"
        );
        for RustField { name, ty, cuda } in fields {
            let _ = write!(text, "    /// `{}`\n    pub {name}: {ty},\n", printable(&names::shortened(cuda)));
        }
        text.push_str("}\n");
        return;
    }
    if let Some(item) = kept.structs.get(*name) {
        *text += &format!("\n{item}\n");
        return;
    }
    let (about, derives, repr, size) = match layout {
        None => (", to which kernels take pointers", "Clone, Copy, Debug", "C".to_owned(), 0),
        Some(Layout { size, align, is_certain }) => {
            let about = match is_certain {
                true => ": its size is known, and its fields are not",
                false => ": its size is known, its alignment is a guess, and its fields are not known",
            };
            (about, "Clone, Copy, Debug, KernelParam", format!("C, align({align})"), *size)
        }
    };
    let _ = write!(
        text,
        "\n/// {what}{about}.\n#[derive({derives})]\n#[repr({repr})]\npub struct {name}(pub [u8; {size}]);\n"
    );
}

fn declaration(kernel: &Declaration<'_>, code: &str, text: &mut String) {
    text.push('\n');
    let before = kernel.before;
    before.iter().flat_map(|before| &before.comments).for_each(|line| *text += &format!("{line}\n"));
    for line in &kernel.docs {
        let space = if line.is_empty() { "" } else { " " };
        let _ = writeln!(text, "///{space}{}", printable(line));
    }
    before.iter().flat_map(|before| &before.attributes).for_each(|line| *text += &format!("{line}\n"));
    attribute(kernel, code, text);
    function(kernel, text);
}

fn attribute(kernel: &Declaration<'_>, code: &str, text: &mut String) {
    let mut arguments = vec![code.to_owned()];
    arguments.extend(kernel.wanted.as_ref().map(|name| format!("name = {name:?}")));
    let instances: Vec<String> = kernel
        .instances
        .iter()
        .map(|(args, name)| {
            let args: Vec<String> = args.iter().map(|arg| arg.spelled()).collect();
            let name = name.as_ref().map_or_else(String::new, |name| format!(" = {name:?}"));
            format!("<{}>{name}", args.join(", "))
        })
        .collect();
    if !instances.is_empty() {
        arguments.push(listed("instances", &instances));
    }
    arguments.extend(kernel.min_arch.map(|arch| format!("arch = \">={arch}\"")));
    arguments.extend(kernel.block.map(|[x, y, z]| match (y, z) {
        (1, 1) => format!("block = {x}"),
        (_, 1) => format!("block = ({x}, {y})"),
        _ => format!("block = ({x}, {y}, {z})"),
    }));
    let more = kernel.before.map(|before| before.arguments(&arguments));
    arguments.extend(more.into_iter().flatten());
    let line = arguments.join(", ");
    let is_short = arguments.len() == 1 || line.len() <= ATTRIBUTE && !line.contains('\n');
    let _ = match is_short {
        true => writeln!(text, "#[gpu_kernel({line})]"),
        false => writeln!(text, "#[gpu_kernel(\n    {}\n)]", arguments.join(",\n    ")),
    };
}

/// Writes a list in an attribute, with one item a line if there are many.
fn listed(key: &str, items: &[String]) -> String {
    let line = format!("{key}({})", items.join(", "));
    match line.len() <= WIDTH - 5 {
        true => line,
        false => format!("{key}(\n        {}\n    )", items.join(",\n        ")),
    }
}

fn function(kernel: &Declaration<'_>, text: &mut String) {
    let generics: Vec<String> = kernel.generics.iter().map(Generic::spelled).collect();
    let generics = if generics.is_empty() { String::new() } else { format!("<{}>", generics.join(", ")) };
    let param = |(name, ty): &(String, String)| format!("{name}: {ty}");
    let params: Vec<String> = kernel.params.iter().map(param).collect();
    let vis = kernel.before.map_or("pub", |before| &before.vis);
    let start = format!("{vis} unsafe fn {}{generics}", kernel.name);
    let start = start.trim_start();
    let line = format!("{start}({});", params.join(", "));
    let _ = match line.len() <= WIDTH {
        true => writeln!(text, "{line}"),
        false => writeln!(text, "{start}(\n    {},\n);", params.join(",\n    ")),
    };
}

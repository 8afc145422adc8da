//! Writes the module as rustfmt leaves it.

use std::fmt::Write;

use kernel_registry_format::is_control;

use super::fields::RustField;
use super::module::{Declaration, Module};
use super::names;
use super::structs::{Layout, Struct};
use super::template::Generic;
use super::types::ParamType;

/// Columns that rustfmt fills: in all, and with the arguments of an attribute.
const WIDTH: usize = 100;
const ATTRIBUTE: usize = 70;

/// The module, with the command that writes it again.
pub(super) fn of(module: &Module<'_>, command: &str) -> String {
    let image = printable(&module.path);
    let mut text = format!(
        "//! The kernels of `{image}`.\n\n\
         // Written by `cargo kernels declare`. To update it, do not edit it, but run\n//     {}\n",
        printable(command)
    );
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
    let imports = match module.structs.all().any(|known| known.layout.is_some()) {
        true => "{KernelParam, gpu_kernel}",
        false => "gpu_kernel",
    };
    let _ = write!(text, "\nuse kernel_registry::{imports};\n");
    module.structs.all().for_each(|known| structure(&known, &mut text));
    module.declarations.iter().for_each(|kernel| declaration(kernel, &module.code, &mut text));
    text
}

/// The text without control characters: a line break would end a comment.
pub(super) fn printable(text: &str) -> String {
    text.replace(is_control, "?")
}

fn mentions_half(module: &Module<'_>) -> bool {
    let of_half =
        |text: &str| ["half::", "types::Half2", "types::Bfloat162"].iter().any(|half| text.contains(half));
    let fields = module.structs.all().filter_map(|known| known.fields).flatten();
    let mut fields = fields.map(|field| field.ty);
    fields.any(|ty| of_half(&ty))
        || module.declarations.iter().any(|declaration| {
            let args = || declaration.instances.iter().flat_map(|(args, _)| args);
            declaration.params.iter().any(|(_, ty)| of_half(&ty.element))
                || args().any(|arg| of_half(&arg.spelled()))
        })
}

fn structure(known: &Struct<'_>, text: &mut String) {
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

fn declaration(kernel: &Declaration, code: &str, text: &mut String) {
    text.push('\n');
    for line in &kernel.docs {
        let space = if line.is_empty() { "" } else { " " };
        let _ = writeln!(text, "///{space}{}", printable(line));
    }
    attribute(kernel, code, text);
    function(kernel, text);
}

fn attribute(kernel: &Declaration, code: &str, text: &mut String) {
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
    let line = arguments.join(", ");
    let is_short = arguments.len() == 1 || line.len() <= ATTRIBUTE && !line.contains('\n');
    let _ = match is_short {
        true => writeln!(text, "#[gpu_kernel({line})]"),
        false => writeln!(text, "#[gpu_kernel(\n    {}\n)]", arguments.join(",\n    ")),
    };
}

/// A list in an attribute, one item a line if there are many.
fn listed(key: &str, items: &[String]) -> String {
    let line = format!("{key}({})", items.join(", "));
    match line.len() <= WIDTH - 5 {
        true => line,
        false => format!("{key}(\n        {}\n    )", items.join(",\n        ")),
    }
}

fn function(kernel: &Declaration, text: &mut String) {
    let generic = |generic: &Generic| match generic.of {
        Some(of) => format!("const {}: {of}", generic.name),
        None => generic.name.clone(),
    };
    let generics: Vec<String> = kernel.generics.iter().map(generic).collect();
    let generics = if generics.is_empty() { String::new() } else { format!("<{}>", generics.join(", ")) };
    let param = |(name, ty): &(String, ParamType)| format!("{name}: {}", ty.spelled(&ty.element));
    let params: Vec<String> = kernel.params.iter().map(param).collect();
    let start = format!("pub unsafe fn {}{generics}", kernel.name);
    let line = format!("{start}({});", params.join(", "));
    let _ = match line.len() <= WIDTH {
        true => writeln!(text, "{line}"),
        false => writeln!(text, "{start}(\n    {},\n);", params.join(",\n    ")),
    };
}

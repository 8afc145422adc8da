//! Builds the fallback archive for targets without kernel-registry. Its functions pass nvcc's registrations
//! on to the runtime library, as if there were no `--wrap`.

use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

/// Compiles the functions into an archive, using the rustc that builds the package.
pub(super) fn archive(arch: &str, names: &[&str]) -> Result<PathBuf, String> {
    let variable = |name| env::var_os(name).ok_or(format!("cargo does not set `{name}`"));
    let out = PathBuf::from(variable("OUT_DIR")?);
    let source = out.join("kernel_registry_passing.rs");
    let functions: String = names.iter().map(|name| function(arch, name)).collect();
    let att = if arch == "x86_64" { ", options(att_syntax)" } else { "" };
    let text = format!("#![no_std]\ncore::arch::global_asm!(r#\"{functions}\"#{att});\n");
    fs::write(&source, text).map_err(|error| format!("{}: {error}", source.display()))?;
    let archive = out.join("libkernel_registry_passing.rlib");
    let mut compile = Command::new(variable("RUSTC")?);
    compile
        .args(["--crate-type", "rlib", "--edition", "2021", "-Cpanic=abort", "--target"])
        .arg(variable("TARGET")?);
    let done = compile.arg(&source).arg("-o").arg(&archive).output().map_err(|error| error.to_string())?;
    if done.status.success() { Ok(archive) } else { Err(String::from_utf8_lossy(&done.stderr).into_owned()) }
}

/// Returns the assembly of `__wrap_NAME`, which jumps to `__real_NAME`, the linker's name for the original
/// function. `__real_NAME` is weak, because it's missing if nothing registers kernels. `__wrap_NAME` is weak
/// like kernel-registry's function of that name: mold prefers a strong function, and takes the first of
/// several weak ones.
fn function(arch: &str, name: &str) -> String {
    let jump = match arch {
        "x86_64" => format!("jmp *kernel_registry_to_{name}(%rip)"),
        _ => format!(
            "adrp x16, kernel_registry_to_{name}\nldr x16, [x16, :lo12:kernel_registry_to_{name}]\nbr x16"
        ),
    };
    format!(
        "
.weak __real_{name}
.pushsection .data.rel.ro.kernel_registry_to_{name},\"aw\",@progbits
.balign 8
kernel_registry_to_{name}: .quad __real_{name}
.popsection
.pushsection .text.kernel_registry_passing,\"ax\",@progbits
.weak __wrap_{name}
.hidden __wrap_{name}
.type __wrap_{name},@function
__wrap_{name}: {jump}
.size __wrap_{name}, . - __wrap_{name}
.popsection
"
    )
}

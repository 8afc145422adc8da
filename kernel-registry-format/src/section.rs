//! Names of the link section that holds the records, for every object format, in one place.
//!
//! The version is part of the name, so that a reader never meets records whose framing it cannot
//! know; one that finds only [`ELF_PREFIX`] with a higher number can say so.

/// ELF. A valid C identifier, because only for those the linker defines `__start_` and `__stop_`.
pub const ELF: &str = "kernel_registry_v1";

/// What the ELF names of all versions begin with.
pub const ELF_PREFIX: &str = "kernel_registry_v";

/// Mach-O: segment and section, the latter of at most 16 bytes.
pub const MACH_O: &str = "__DATA,__kernel_reg_v1";

/// The section's own name in Mach-O, without its segment.
pub const MACH_O_SECTION: &str = "__kernel_reg_v1";

/// PE. The image keeps eight bytes of a name; the linker sorts by what follows the dollar sign and drops it.
pub const PE: &str = ".krnl1$b";

/// The name that is left of [`PE`] in an executable or DLL.
pub const PE_SECTION: &str = ".krnl1";

/// The version of the records in a section of this name, if the section has records of kernels.
///
/// ```
/// use kernel_registry_format::section;
/// assert_eq!(section::version(section::ELF), Some(1));
/// assert_eq!(section::version("kernel_registry_v7"), Some(7));
/// assert_eq!(section::version(".text"), None);
/// ```
pub fn version(name: &str) -> Option<u16> {
    if name == MACH_O_SECTION || name == PE_SECTION || name == PE {
        return Some(crate::VERSION);
    }
    name.strip_prefix(ELF_PREFIX)?.parse().ok()
}

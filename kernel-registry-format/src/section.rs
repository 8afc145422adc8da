//! Defines the names of the link section that holds the records, for every object format.
//!
//! The version is part of the name, so that a reader never reads records whose framing it doesn't know. A
//! reader that only finds [`ELF_PREFIX`] with a higher number can report that version.

/// The section's name in ELF. It's a valid C identifier, because the linker only defines the symbols
/// `__start_..` and `__stop_..` for such names.
pub const ELF: &str = "kernel_registry_v1";

/// The prefix of the ELF names of all versions.
pub const ELF_PREFIX: &str = "kernel_registry_v";

/// The segment and the section in Mach-O. The section's name has at most 16 bytes.
pub const MACH_O: &str = "__DATA,__kernel_reg_v1";

/// The section's name in Mach-O, without its segment.
pub const MACH_O_SECTION: &str = "__kernel_reg_v1";

/// The section's name in object files for PE. An executable keeps eight bytes of a name. The linker sorts by
/// the part from the dollar sign on, and removes it.
pub const PE: &str = ".krnl1$b";

/// The section's name in an executable or DLL: the part of [`PE`] that the linker keeps.
pub const PE_SECTION: &str = ".krnl1";

/// Returns the version of the records in a section with this name, or `None` if it isn't a section with
/// records.
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

//! Renames the registration functions in the objects of a static library in place, which works because the
//! new names have the same lengths.

use std::fmt;

use object::elf::{FileHeader64, SHT_SYMTAB};
use object::read::archive::ArchiveFile;
use object::read::elf::{FileHeader, SectionHeader, Sym};
use object::{LittleEndian, SectionIndex};

/// The functions of CUDA's runtime library that nvcc's code calls before `main` to register kernels and their
/// fatbins.
pub(super) const REGISTER: [&str; 2] = ["__cudaRegisterFunction", "__cudaRegisterFatBinary"];

/// kernel-registry's functions, in the order of `REGISTER`.
const OURS: [&str; 2] = ["kernel_registry_linked", "kernel_registry_linkfat"];

const _: () = assert!(OURS[0].len() == REGISTER[0].len() && OURS[1].len() == REGISTER[1].len());

/// Why a static library isn't rewritten.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused {
    NotAnArchive,
    Thin,
    /// A member is intermediate code, which becomes machine code only when it's linked.
    Intermediate {
        member: String,
    },
    /// Another symbol's name ends with the function's name, so both share one string.
    SharedName {
        member: String,
    },
    Damaged {
        member: String,
        why: String,
    },
    NoKernels,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::NotAnArchive => f.write_str("it is not a static library: name a file made by `ar`"),
            Refused::Thin => f.write_str(
                "it is a thin archive, which only refers to its objects: make it without `T` or `--thin`",
            ),
            Refused::Intermediate { member } => {
                write!(f, "`{member}` is intermediate code: compile for the host without `-flto`")
            }
            Refused::SharedName { member } => write!(
                f,
                "in `{member}`, the name of a registration function shares its text with another: call \
                 `kernel_registry_build::linked()` in the program's build script instead"
            ),
            Refused::Damaged { member, why } => write!(f, "`{member}` is damaged: {why}"),
            Refused::NoKernels => write!(
                f,
                "it registers no kernels: none of its objects calls `{}`; code compiled with `-rdc=true` does so only once `nvcc -dlink` \
                 has linked it",
                REGISTER[0]
            ),
        }
    }
}

/// Renames the functions, and returns how many names were changed: 0 if the file was rewritten before.
pub(super) fn rename(bytes: &mut [u8]) -> Result<usize, Refused> {
    let archive = ArchiveFile::parse(&*bytes).map_err(|_| Refused::NotAnArchive)?;
    if archive.is_thin() {
        return Err(Refused::Thin);
    }
    let (mut found, mut known) = (Vec::new(), 0);
    for member in archive.members() {
        let damaged = |member: String, why: object::Error| Refused::Damaged { member, why: why.to_string() };
        let member = member.map_err(|error| damaged("the archive".to_owned(), error))?;
        let name = String::from_utf8_lossy(member.name()).into_owned();
        let object = member.data(&*bytes).map_err(|error| damaged(name.clone(), error))?;
        let (start, _) = member.file_range();
        for RegistrationName { at, renamed, new } in names_in(object, &name)? {
            known += usize::from(renamed);
            if !renamed {
                found.push((start as usize + at, new));
            }
        }
    }
    if found.is_empty() && known == 0 {
        return Err(Refused::NoKernels);
    }
    for (at, new) in &found {
        bytes[*at..][..new.len()].copy_from_slice(new.as_bytes());
    }
    Ok(found.len())
}

/// The name of a registration function in an object.
struct RegistrationName {
    /// The offset at which the name begins.
    at: usize,
    /// Whether the name is kernel-registry's already.
    renamed: bool,
    /// kernel-registry's name for the function.
    new: &'static str,
}

/// Finds the registration functions among the undefined symbols of an object.
fn names_in(object: &[u8], member: &str) -> Result<Vec<RegistrationName>, Refused> {
    const BITCODE: [&[u8]; 2] = [b"BC\xc0\xde", &[0xde, 0xc0, 0x17, 0x0b]];
    if BITCODE.iter().any(|magic| object.starts_with(magic)) {
        return Err(Refused::Intermediate { member: member.to_owned() });
    }
    if !object.starts_with(b"\x7fELF") {
        return Ok(Vec::new());
    }
    let found = names_in_elf(object)
        .map_err(|error| Refused::Damaged { member: member.to_owned(), why: error.to_string() })?;
    match found {
        Ok(found) => Ok(found),
        Err(Unsupported::Intermediate) => Err(Refused::Intermediate { member: member.to_owned() }),
        Err(Unsupported::SharedName) => Err(Refused::SharedName { member: member.to_owned() }),
    }
}

/// Why an ELF object can't be rewritten.
enum Unsupported {
    Intermediate,
    SharedName,
}

type RegistrationNames = Result<Vec<RegistrationName>, Unsupported>;

fn names_in_elf(object: &[u8]) -> Result<RegistrationNames, object::Error> {
    let header = FileHeader64::<LittleEndian>::parse(object)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, object)?;
    for section in sections.iter() {
        if sections.section_name(endian, section)?.starts_with(b".gnu.lto_") {
            return Ok(Err(Unsupported::Intermediate));
        }
    }
    let symbols = sections.symbols(endian, object, SHT_SYMTAB)?;
    let strings: SectionIndex = symbols.string_section();
    if symbols.is_empty() {
        return Ok(Ok(Vec::new()));
    }
    let table = sections.section(strings)?.sh_offset(endian) as usize;
    let shares_sections = header.section_strings_index(endian, object)? == strings;
    let names = || {
        let of_sections = sections.iter().filter(|_| shares_sections).map(|section| section.sh_name(endian));
        symbols.iter().map(|symbol| symbol.st_name(endian)).chain(of_sections)
    };
    let mut found = Vec::new();
    for symbol in symbols.iter().filter(|symbol| symbol.is_undefined(endian)) {
        let name = symbol.name(endian, symbols.strings())?;
        let is = |known: &str| name == known.as_bytes();
        let renamed = OURS.iter().position(|ours| is(ours));
        let Some(which) = renamed.or_else(|| REGISTER.iter().position(|theirs| is(theirs))) else {
            continue;
        };
        let start = symbol.st_name(endian);
        let end = start.saturating_add(name.len() as u32);
        let sharing = names().filter(|other| (start..=end).contains(other)).count();
        // The name is the tail of a longer one unless a zero precedes it.
        let before = start.checked_sub(1).and_then(|at| object.get(table + at as usize)).copied();
        if sharing > 1 || before.is_some_and(|byte| byte != 0) {
            return Ok(Err(Unsupported::SharedName));
        }
        found.push(RegistrationName {
            at: table + start as usize,
            renamed: renamed.is_some(),
            new: OURS[which],
        });
    }
    Ok(Ok(found))
}

// The tests need the C compiler and `ar` of a system with linked kernels.
#[cfg(all(test, unix))]
mod tests;

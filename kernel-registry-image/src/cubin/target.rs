//! Reads which architecture a cubin is for, and which toolkit made it.

use crate::bytes;
use crate::elf::Elf;
use crate::{Error, Portability, Target};

/// The flag that, up to CUDA 12, marks code that runs on this architecture only (`sm_90a`).
const EF_ACCELERATED: u32 = 0x800;

/// Returns the architecture.
///
/// The header's flags have its number and, up to CUDA 12, its suffix. Since CUDA 13 the suffix is in a note
/// with the assembler's command line, and an `a` also in `.nv.compat`. So an `sm_100f` without that note
/// reads as `sm_100`, which runs on the same devices.
pub(super) fn target(elf: &Elf<'_>) -> Result<Target, Error> {
    let (sm, accelerated) = match elf.abi {
        0..8 => (elf.flags & 0xff, elf.flags & EF_ACCELERATED != 0),
        _ => ((elf.flags >> 8) & 0xffff, is_accelerated(elf)),
    };
    if !(10..10_000).contains(&sm) {
        return Err(Error::malformed("the ELF header", format!("no architecture has number {sm}")));
    }
    let noted = tools(elf).into_iter().filter_map(|tool| target_argument(tool.arguments));
    let noted = noted.filter(|noted| noted.sm == sm).max_by_key(|noted| noted.portability);
    let portability = match noted {
        Some(noted) if noted.portability != Portability::Forward => noted.portability,
        _ if accelerated => Portability::Exact,
        _ => Portability::Forward,
    };
    Ok(Target { sm, portability })
}

/// Returns the release of the toolkit, such as `13.0`.
pub(super) fn toolkit(elf: &Elf<'_>) -> Option<String> {
    if elf.abi < 8 {
        return (elf.version >= 10).then(|| format!("{}.{}", elf.version / 10, elf.version % 10));
    }
    let tools = tools(elf);
    let (_, release) = tools.first()?.version.split_once("release ")?;
    let (release, _) = release.split_once(',')?;
    let is_number = release.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    (is_number && release.len() <= 16).then(|| release.to_owned())
}

/// A tool that worked on the cubin: the assembler, the linker.
struct Tool<'a> {
    /// `Cuda compilation tools, release 13.0, V13.0.88`
    version: &'a str,
    /// `-arch sm_90a -m 64`
    arguments: &'a str,
}

/// Returns the tools that left notes, up to the first malformed note.
fn tools<'a>(elf: &Elf<'a>) -> Vec<Tool<'a>> {
    /// The length of a note's head: three numbers, and the owner's name, which is the same in every note.
    const OWNER: usize = 12 + "NVIDIA Corp\0".len();
    /// The length of the numbers after the head: a version and the offsets of five strings. The strings
    /// follow.
    const NUMBERS: usize = 6 * 4;

    let mut tools = Vec::new();
    let mut rest = elf.section(".note.nv.tkinfo").map_or(&[][..], |section| section.data);
    while let Some(length) = bytes::u32_at(rest, 4) {
        let length = (length as usize).next_multiple_of(4);
        let Some((note, behind)) = rest.split_at_checked(OWNER + length) else { break };
        let string = |number: usize| {
            let offset = bytes::u32_at(note, OWNER + number * 4)? as usize;
            let text = note.get(OWNER + NUMBERS..)?.get(offset..)?;
            str::from_utf8(text.split(|byte| *byte == 0).next()?).ok()
        };
        let (Some(version), Some(arguments)) = (string(3), string(5)) else { break };
        tools.push(Tool { version, arguments });
        rest = behind;
    }
    tools
}

/// Returns the target in `-arch sm_90a`.
fn target_argument(arguments: &str) -> Option<Target> {
    let (_, arch) = arguments.split_once("-arch")?;
    arch.trim_start_matches([' ', '=']).split(' ').next()?.parse().ok()
}

/// Returns attribute 9 of `.nv.compat`, CUDA_ACCELERATOR_TARGET.
fn is_accelerated(elf: &Elf<'_>) -> bool {
    let data = elf.section(".nv.compat").map_or(&[][..], |section| section.data);
    let mut rest = data;
    while let [format, attribute, value, high, tail @ ..] = rest {
        if (*format, *attribute) == (2, 9) {
            return *value == 1;
        }
        // Format 4 has a length in place of the value.
        let length = if *format == 4 { usize::from(u16::from_le_bytes([*value, *high])) } else { 0 };
        rest = tail.get(length..).unwrap_or_default();
    }
    false
}

//! Reads cubins: ELF files with machine code for one architecture.
//!
//! NVIDIA doesn't document the format. This code is based on cubins of CUDA 12.0 and 13.0, and on the output
//! of `cuobjdump -elf` and `ptxas -v`.

mod frames;
mod info;
mod target;

use std::collections::{BTreeMap, BTreeSet};

use crate::bytes;
use crate::elf::{Elf, Function, Section};
use crate::entry::threads;
use crate::needs::{self, Calls};
use crate::stack::Stack;
use crate::{Entry, Error, Limits, ParamLayout, Resources, Variant, VariantKind};
use info::{Attribute, Attributes};

/// Shared memory that CUDA reserves in each block from sm_90 on.
const RESERVED_SHARED: u32 = 1024;

/// The version of the format since CUDA 13. Newer versions may record needs in another way.
const NEWEST_ABI: u8 = 8;

/// The stack size that the linker records for kernels with recursive functions.
const UNKNOWN_STACK: u32 = u32::MAX;

/// Reads a cubin.
pub(crate) fn read(image: &[u8]) -> Result<Variant, Error> {
    let elf = Elf::read(image)?;
    let target = target::target(&elf)?;
    let named: BTreeMap<&str, &Section<'_>> = elf.sections.iter().map(|s| (s.name, s)).collect();

    let functions = Functions::read(&elf)?;
    let calls = calls(&elf, &named)?;
    let stacks = calls.stacks(|function| functions.frame(function));
    // A linked image contains even the functions that launch kernels, but `vprintf` and its like always come
    // from the driver.
    let callees = elf.functions.iter().filter(|function| !function.is_kernel);
    let needs = calls.needs(callees.map(|function| (function.index, needs::function_needs(function.name))));
    let mut entries = Vec::new();
    for kernel in elf.functions.iter().filter(|function| function.is_kernel) {
        let mut entry = Entry::new(kernel.name);
        if let Some(section) = named.get(format!(".nv.info.{}", kernel.name).as_str()) {
            attributes(section, &mut entry)?;
        }
        let code = named.get(format!(".text.{}", kernel.name).as_str());
        let size = |kind: &str| {
            let section = named.get(format!("{kind}.{}", kernel.name).as_str());
            section.map_or(0, |section| u32::try_from(section.size).unwrap_or(u32::MAX))
        };
        let shared = size(".nv.shared");
        // The linker adds the reserved shared memory.
        let reserved = if target.sm >= 90 && !elf.is_object { shared.min(RESERVED_SHARED) } else { 0 };

        let known = functions.known.get(&kernel.index).copied().unwrap_or_default();
        // Before CUDA 13, the top byte of `sh_info` held the number of registers too.
        let registers = known.registers.or(code.filter(|_| elf.abi < 8).map(|code| code.info >> 24));
        let recursive = functions.recursive(kernel, &stacks);
        entry.resources = Some(Resources {
            registers: registers.unwrap_or(0),
            static_shared: shared - reserved,
            reserved_shared: reserved,
            constants: size(".nv.constant0"),
            local_frame: known.frame,
            stack: known.stack.or(Some(0)).filter(|_| recursive.is_none()),
        });
        entry.code_size = size(".text");
        entry.needs = needs.get(&kernel.index).copied().unwrap_or_default();
        entry.needs.unknown |= elf.abi > NEWEST_ABI;
        entry.frames.recursive = recursive;
        entries.push(entry);
    }
    let largest = functions.largest().max(entries.iter().filter_map(|entry| entry.frames.recursive).max());
    for entry in entries.iter_mut().filter(|entry| entry.needs.device_launch) {
        entry.frames.launched = largest;
    }
    Ok(Variant {
        kind: VariantKind::Cubin,
        target,
        toolkit: target::toolkit(&elf),
        entries,
        separable: false,
        variable: variable(&elf),
    })
}

/// Sections in device memory that programs can't write: code, and constants that the compiler makes for each
/// kernel. Shared and local memory only lasts as long as a block or thread. Mercury's sections describe the
/// others a second time.
const UNWRITTEN: [&str; 7] =
    [".text.", ".nv.constant0.", ".nv.constant2.", ".nv.constant4", ".nv.shared.", ".nv.local.", ".nv.merc."];

/// Returns a section with variables, or a texture. Machine code doesn't show which of its variables are
/// constants.
fn variable(elf: &Elf<'_>) -> Option<String> {
    let is_unwritten = |section: &&Section<'_>| UNWRITTEN.iter().any(|known| section.name.starts_with(known));
    let written = elf.sections.iter().find(|section| section.is_allocated && !is_unwritten(section));
    let texture = || elf.has_textures.then(|| "a texture".to_owned());
    written.map(|section| section.name.to_owned()).or_else(texture)
}

/// Reads the attributes in `.nv.info.<kernel>`.
fn attributes(section: &Section<'_>, entry: &mut Entry) -> Result<(), Error> {
    let mut params = BTreeMap::new();
    let mut total = None;
    for attribute in Attributes::new(section.name, section.data) {
        let attribute = attribute?;
        let short =
            || Error::malformed(section.name, format!("attribute {:#x} is too short", attribute.kind));
        match attribute.kind {
            info::KPARAM_INFO | info::KPARAM_INFO_V2 => {
                let (ordinal, offset, size) = attribute.param().ok_or_else(short)?;
                params.insert(ordinal, ParamLayout { offset, size, ..ParamLayout::default() });
            }
            info::CBANK_PARAM_SIZE => total = attribute.half(0),
            _ => limit(attribute, &mut entry.limits).ok_or_else(short)?,
        }
    }
    let in_order = params.keys().enumerate().all(|(index, ordinal)| index == usize::from(*ordinal));
    entry.set_params(params.into_values().collect());
    if !in_order {
        return Err(Error::malformed(section.name, "a parameter is missing"));
    }
    match total {
        Some(total) if u32::from(total) < entry.params_size() => {
            Err(Error::malformed(section.name, "the parameters are larger than their sum"))
        }
        _ => Ok(()),
    }
}

fn limit(attribute: Attribute<'_>, limits: &mut Limits) -> Option<()> {
    match attribute.kind {
        info::MAX_THREADS => limits.max_threads = Some(threads(attribute.dimensions()?)),
        info::REQNTID => {
            let block = attribute.dimensions()?;
            limits.required_threads = Some(block);
            limits.max_threads = Some(threads(block));
        }
        info::CTA_PER_CLUSTER => limits.cluster = Some(attribute.dimensions()?),
        info::MAX_CLUSTER_RANK => limits.max_cluster = Some(attribute.word(0)?),
        _ => {}
    }
    Some(())
}

/// Known facts about functions.
#[derive(Default)]
struct Functions {
    /// The facts about each function, by symbol index.
    known: BTreeMap<u32, Known>,
    /// For each section with a kernel, the largest frame of the other functions in it. These are copies made
    /// for this kernel.
    largest_copy: BTreeMap<u16, u32>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Known {
    registers: Option<u32>,
    /// The frame in `.nv.info`. For copied functions it's the kernel's.
    frame: u32,
    stack: Option<u32>,
    /// The frame in `.debug_frame`.
    described: Option<u32>,
}

impl Known {
    fn frame(&self) -> u32 {
        self.described.unwrap_or(self.frame)
    }
}

impl Functions {
    fn read(elf: &Elf<'_>) -> Result<Self, Error> {
        let mut functions = Functions::default();
        let section = elf.section(".nv.info");
        for attribute in section.into_iter().flat_map(|section| Attributes::new(section.name, section.data)) {
            let attribute = attribute?;
            let (Some(function), Some(value)) = (attribute.word(0), attribute.word(1)) else {
                continue;
            };
            let mut known = |set: fn(&mut Known, u32)| {
                set(functions.known.entry(function).or_default(), value);
            };
            match attribute.kind {
                info::REGCOUNT => known(|known, value| known.registers = Some(value)),
                info::FRAME_SIZE => known(|known, value| known.frame = value),
                info::MIN_STACK_SIZE => known(|known, value| known.stack = Some(value)),
                _ => {}
            }
        }
        let frames = frames::frames(elf);
        let sections: BTreeSet<u16> =
            elf.functions.iter().filter(|f| f.is_kernel).map(|f| f.place.section).collect();
        for function in elf.functions.iter().filter(|function| function.is_defined) {
            let described = frames.get(&function.place).copied();
            if described.is_some() {
                functions.known.entry(function.index).or_default().described = described;
            }
            let section = function.place.section;
            if !function.is_kernel && sections.contains(&section) {
                let largest = functions.largest_copy.entry(section).or_default();
                *largest = functions.known.get(&function.index).map_or(0, Known::frame).max(*largest);
            }
        }
        Ok(functions)
    }

    fn frame(&self, function: u32) -> u32 {
        self.known.get(&function).map_or(0, Known::frame)
    }

    /// Returns the largest frame or stack of any function.
    fn largest(&self) -> Option<u32> {
        let bounded = |known: &Known| known.stack.filter(|stack| *stack != UNKNOWN_STACK).unwrap_or(0);
        self.known.values().map(|known| known.frame().max(known.frame).max(bounded(known))).max()
    }

    /// Returns the least stack of a kernel with unbounded stack: the frames of one pass through its calls.
    ///
    /// If CUDA 13 compiles a kernel together with the functions that it calls, it doesn't record that the
    /// stack is unbounded. Instead it leaves the functions' frames out of the kernel's.
    fn recursive(&self, kernel: &Function<'_>, stacks: &BTreeMap<u32, Stack>) -> Option<u32> {
        let known = self.known.get(&kernel.index)?;
        let copy = self.largest_copy.get(&kernel.place.section).copied().unwrap_or(0);
        let is_said = known.stack == Some(UNKNOWN_STACK);
        let counted = known.frame.max(known.stack.unwrap_or(0));
        let is_left_out = copy > 0 && known.described.is_some_and(|own| own.saturating_add(copy) > counted);
        let through_calls = stacks.get(&kernel.index).map_or(0, |stack| stack.bytes);
        let own = known.frame.max(known.frame());
        (is_said || is_left_out).then(|| own.saturating_add(copy).max(through_calls))
    }
}

/// Reads the call graph.
///
/// A kernel's EXTERNS attribute names the undefined functions that its own code refers to. In code that was
/// compiled separately and linked, calls between functions are in `.nv.callgraph`.
fn calls(elf: &Elf<'_>, named: &BTreeMap<&str, &Section<'_>>) -> Result<Calls, Error> {
    let mut calls = Calls::default();
    let mut seen = BTreeSet::new();
    // Each name once. Otherwise many functions with one name would read the same section again and again.
    for function in elf.functions.iter().filter(|function| function.is_defined && seen.insert(function.name))
    {
        let Some(section) = named.get(format!(".nv.info.{}", function.name).as_str()) else {
            continue;
        };
        for attribute in Attributes::new(section.name, section.data) {
            let attribute = attribute?;
            if attribute.kind == info::EXTERNS {
                let callees = attribute.value.chunks_exact(4).filter_map(|c| bytes::u32_at(c, 0));
                callees.for_each(|callee| calls.call(function.index, callee));
            }
        }
    }
    if let Some(section) = named.get(".nv.callgraph") {
        callgraph(section.data, &mut calls);
    }
    Ok(calls)
}

/// Reads pairs of symbol indices, in four tables. Each table begins with a pair of 0 and the table's negated
/// number.
fn callgraph(data: &[u8], calls: &mut Calls) {
    let mut table = 0;
    for pair in data.chunks_exact(8) {
        let (Some(first), Some(second)) = (bytes::u32_at(pair, 0), bytes::u32_at(pair, 4)) else {
            return;
        };
        match (first, second, table) {
            (0, 0xffff_fff0.., _) => table = second.wrapping_neg(),
            // Caller and callee.
            (_, _, 1) => calls.call(first, second),
            // Functions whose address is taken.
            (_, _, 2) => calls.take_address(first),
            // Functions that call through pointers.
            (_, _, 3) => calls.call_pointer(first),
            _ => {}
        }
    }
}

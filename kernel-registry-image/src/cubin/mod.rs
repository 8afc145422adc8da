//! Cubins: ELF files with machine code for one architecture.
//!
//! NVIDIA does not document the format either. What is here was learned from cubins of CUDA 12.0
//! and 13.0, from what `cuobjdump -elf` prints of them, and from `ptxas -v`.

mod info;
mod target;

use std::collections::BTreeMap;

use crate::bytes;
use crate::elf::{Elf, Section};
use crate::needs::{self, Calls};
use crate::{Entry, Error, Limits, Needs, ParamLayout, Resources, Variant, VariantKind};
use info::{Attribute, Attributes};

/// Shared memory that the system reserves in each block from sm_90 on.
const RESERVED_SHARED: u32 = 1024;

/// What the linker says of kernels with recursive functions.
const UNKNOWN_STACK: u32 = u32::MAX;

/// Reads a cubin.
pub(crate) fn read(image: &[u8]) -> Result<Variant, Error> {
    let elf = Elf::read(image)?;
    let target = target::target(&elf)?;
    let named: BTreeMap<&str, &Section<'_>> = elf.sections.iter().map(|s| (s.name, s)).collect();

    let functions = Functions::read(&elf)?;
    let needs = functions.needs(&elf, &named)?;
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
        let reserved = if target.sm >= 90 { shared.min(RESERVED_SHARED) } else { 0 };

        let known = functions.resources.get(&kernel.index).copied().unwrap_or_default();
        // Before CUDA 13 the top byte of `sh_info` was the number of registers, too.
        let registers = known.registers.or(code.filter(|_| elf.abi < 8).map(|code| code.info >> 24));
        entry.resources = Some(Resources {
            registers: registers.unwrap_or(0),
            static_shared: shared - reserved,
            reserved_shared: reserved,
            constants: size(".nv.constant0"),
            local_frame: known.frame,
            stack: Some(known.stack).filter(|stack| *stack != UNKNOWN_STACK),
        });
        entry.needs = needs.get(&kernel.index).copied().unwrap_or_default();
        entries.push(entry);
    }
    Ok(Variant { kind: VariantKind::Cubin, target, toolkit: target::toolkit(&elf), entries })
}

/// What `.nv.info.<kernel>` says.
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
                let layout = ParamLayout { offset, size, align: None, ptx_type: None, pointee_align: None };
                params.insert(ordinal, layout);
            }
            info::CBANK_PARAM_SIZE => total = attribute.half(0),
            _ => limit(attribute, &mut entry.limits).ok_or_else(short)?,
        }
    }
    let in_order = params.keys().enumerate().all(|(index, ordinal)| index == usize::from(*ordinal));
    entry.params = params.into_values().collect();
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
    let product = |block: [u32; 3]| block.into_iter().fold(1, u32::saturating_mul);
    match attribute.kind {
        info::MAX_THREADS => limits.max_threads = Some(product(attribute.dimensions()?)),
        info::REQNTID => {
            let block = attribute.dimensions()?;
            limits.required_threads = Some(block);
            limits.max_threads = Some(product(block));
        }
        info::CTA_PER_CLUSTER => limits.cluster = Some(attribute.dimensions()?),
        info::MAX_CLUSTER_RANK => limits.max_cluster = Some(attribute.word(0)?),
        _ => {}
    }
    Some(())
}

/// What `.nv.info` says about functions, by symbol index.
struct Functions {
    resources: BTreeMap<u32, Known>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Known {
    registers: Option<u32>,
    frame: u32,
    stack: u32,
}

impl Functions {
    fn read(elf: &Elf<'_>) -> Result<Self, Error> {
        let mut resources = BTreeMap::<u32, Known>::new();
        let Some(section) = elf.section(".nv.info") else {
            return Ok(Functions { resources });
        };
        for attribute in Attributes::new(section.name, section.data) {
            let attribute = attribute?;
            let (Some(function), Some(value)) = (attribute.word(0), attribute.word(1)) else {
                continue;
            };
            let known = |resources: &mut BTreeMap<u32, Known>, set: fn(&mut Known, u32)| {
                set(resources.entry(function).or_default(), value);
            };
            match attribute.kind {
                info::REGCOUNT => known(&mut resources, |known, value| known.registers = Some(value)),
                info::FRAME_SIZE => known(&mut resources, |known, value| known.frame = value),
                info::MIN_STACK_SIZE => known(&mut resources, |known, value| known.stack = value),
                _ => {}
            }
        }
        Ok(Functions { resources })
    }

    /// What each function needs, by symbol index.
    ///
    /// A kernel's EXTERNS attribute names the undefined functions that its own code refers to. In
    /// code that was compiled separately and linked, calls between functions are in `.nv.callgraph`.
    fn needs(
        &self,
        elf: &Elf<'_>,
        named: &BTreeMap<&str, &Section<'_>>,
    ) -> Result<BTreeMap<u32, Needs>, Error> {
        let mut calls = Calls::default();
        for function in elf.functions.iter().filter(|function| function.is_defined) {
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
        let undefined = elf.functions.iter().filter(|function| !function.is_defined);
        Ok(calls.needs(undefined.map(|function| (function.index, needs::of_function(function.name)))))
    }
}

/// Pairs of symbol indices, in four tables. Each begins with the pair of 0 and its negated number.
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

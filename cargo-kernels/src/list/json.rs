//! Writes the list as JSON. docs/list-json.md is the schema: change it first.

use std::io::{self, Write};

use kernel_registry_format::{KernelRecord, LibraryRecord, Param, SliceLength, StackFrames};
use serde::Serialize;

use crate::binary::Contents;

/// Raised by every change that could break a reader.
const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    binaries: Vec<BinaryEntry<'a>>,
    kernels: Vec<KernelEntry<'a>>,
}

#[derive(Serialize)]
struct BinaryEntry<'a> {
    path: String,
    libraries: Vec<LibraryEntry<'a>>,
}

#[derive(Serialize)]
struct LibraryEntry<'a> {
    version: &'a str,
    compiler: &'a str,
    copy: String,
}

#[derive(Serialize)]
pub(crate) struct KernelEntry<'a> {
    binary: String,
    path: &'a str,
    symbol: &'a str,
    #[serde(rename = "crate")]
    package: &'a str,
    version: &'a str,
    file: &'a str,
    line: u32,
    column: u32,
    summary: &'a str,
    signature: String,
    params: Vec<ParamEntry<'a>>,
    min_arch: Option<u32>,
    block: Option<[u32; 3]>,
    shared: Option<u32>,
    stack: Option<u32>,
    frames: FramesEntry,
    needs: Vec<&'static str>,
    image: Option<ImageEntry<'a>>,
    copy: String,
}

#[derive(Serialize)]
pub(crate) struct FramesEntry {
    recursive: Option<u32>,
    launched: Option<u32>,
}

#[derive(Serialize)]
struct ParamEntry<'a> {
    name: &'a str,
    #[serde(rename = "type")]
    ty: &'a str,
    pass: &'static str,
    nullable: bool,
    length: Option<&'static str>,
    direction: &'static str,
    size: u32,
    align: u32,
    element_size: u32,
    element_align: u32,
}

#[derive(Serialize)]
struct ImageEntry<'a> {
    file: &'a str,
    bytes: u64,
    variants: Vec<&'a str>,
}

pub(crate) fn write(binaries: &[Contents<'_>], out: &mut impl Write) -> io::Result<()> {
    let document = Document {
        schema: SCHEMA,
        binaries: binaries.iter().map(BinaryEntry::of).collect(),
        kernels: binaries
            .iter()
            .flat_map(|binary| binary.kernels.iter().map(|kernel| KernelEntry::of(binary, kernel)))
            .collect(),
    };
    serde_json::to_writer_pretty(&mut *out, &document)?;
    writeln!(out)
}

/// Hexadecimal, because not every JSON reader can hold a 64-bit number.
fn hex(copy: u64) -> String {
    format!("{copy:016x}")
}

impl<'a> BinaryEntry<'a> {
    fn of(binary: &Contents<'a>) -> Self {
        let libraries = binary.libraries.iter();
        BinaryEntry {
            path: binary.path.display().to_string(),
            libraries: libraries
                .map(|&LibraryRecord { version, compiler, copy }| LibraryEntry {
                    version,
                    compiler,
                    copy: hex(copy),
                })
                .collect(),
        }
    }
}

impl<'a> KernelEntry<'a> {
    pub(crate) fn of(binary: &Contents<'a>, kernel: &KernelRecord<'a>) -> Self {
        KernelEntry {
            binary: binary.path.display().to_string(),
            path: kernel.path,
            symbol: kernel.symbol,
            package: kernel.package,
            version: kernel.version,
            file: kernel.file,
            line: kernel.line,
            column: kernel.column,
            summary: kernel.summary,
            signature: kernel.signature().to_string(),
            params: kernel.params.iter().map(ParamEntry::of).collect(),
            min_arch: kernel.min_arch,
            block: kernel.block,
            shared: kernel.shared,
            stack: kernel.stack,
            frames: FramesEntry::of(kernel.frames),
            needs: kernel.needs.words().collect(),
            image: kernel.image.map(|image| ImageEntry {
                file: image.file,
                bytes: image.len,
                variants: image.variants.split(',').filter(|variant| !variant.is_empty()).collect(),
            }),
            copy: hex(kernel.copy),
        }
    }
}

impl FramesEntry {
    pub(crate) fn of(frames: StackFrames) -> Self {
        let StackFrames { recursive, launched } = frames;
        FramesEntry { recursive, launched }
    }
}

impl<'a> ParamEntry<'a> {
    fn of(param: Param<'a>) -> Self {
        ParamEntry {
            name: param.name,
            ty: param.ty,
            pass: param.pass.as_str(),
            nullable: param.nullable,
            length: param.length.map(SliceLength::as_str),
            direction: param.direction().as_str(),
            size: param.size,
            align: param.align,
            element_size: param.element_size,
            element_align: param.element_align,
        }
    }
}

//! Writes the doctor's answer as JSON. docs/doctor-json.md is the schema: change it first.

use std::io::{self, Write};

use kernel_registry_format::CudaVersion;
use serde::Serialize;

use super::facts::{Driver, Facts, Found, Gpu};
use super::line::{self, Level, Line};

/// Raised by every change that could break a reader.
const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    problems: usize,
    notes: usize,
    driver: Option<DriverEntry>,
    gpus: Vec<GpuEntry<'a>>,
    lines: &'a [Line],
}

#[derive(Serialize)]
struct DriverEntry {
    library: Option<String>,
    simulated: bool,
    release: Option<String>,
    cuda: Option<String>,
    loading: Option<&'static str>,
}

#[derive(Serialize)]
struct GpuEntry<'a> {
    ordinal: usize,
    name: &'a str,
    arch: u32,
    memory: u64,
    free: Option<u64>,
    stack: Option<u64>,
}

pub(super) fn write(facts: &Facts, lines: &[Line], out: &mut impl Write) -> io::Result<()> {
    let document = Document {
        schema: SCHEMA,
        problems: line::count(lines, Level::Problem),
        notes: line::count(lines, Level::Note),
        driver: match &facts.driver {
            Driver::Found(found) => Some(DriverEntry::of(found)),
            Driver::Missing { .. } | Driver::Silent { .. } => None,
        },
        gpus: facts.gpus().iter().enumerate().map(GpuEntry::of).collect(),
        lines,
    };
    serde_json::to_writer_pretty(&mut *out, &document)?;
    writeln!(out)
}

impl DriverEntry {
    fn of(found: &Found) -> Self {
        let lazy = found.started.as_ref().ok().and_then(|started| started.lazy);
        DriverEntry {
            library: found.library.as_ref().map(|path| path.display().to_string()),
            simulated: found.simulated,
            release: found.release().map(str::to_owned),
            cuda: found.version.as_ref().map(CudaVersion::to_string),
            loading: lazy.map(|lazy| if lazy { "lazy" } else { "eager" }),
        }
    }
}

impl<'a> GpuEntry<'a> {
    fn of((ordinal, gpu): (usize, &'a Gpu)) -> Self {
        let context = gpu.context.as_ref().ok();
        GpuEntry {
            ordinal,
            name: &gpu.name,
            arch: gpu.arch,
            memory: gpu.memory,
            free: context.map(|context| context.free),
            stack: context.map(|context| context.stack),
        }
    }
}

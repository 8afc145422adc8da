//! Writes the doctor's answer as JSON. docs/doctor-json.md is the schema.

use kernel_registry_cuda::CudaVersion;
use serde_json::{Value, json};

use super::facts::{Driver, Facts, Found, Gpu};
use super::line::{self, Level, Line};

/// The version of the JSON. Every change that could break a reader raises it.
const SCHEMA: u32 = 1;

pub(super) fn document(facts: &Facts, lines: &[Line]) -> Value {
    let found = match &facts.driver {
        Driver::Found(found) => Some(driver(found)),
        Driver::Missing { .. } | Driver::Silent { .. } => None,
    };
    json!({
        "schema": SCHEMA,
        "problems": line::count(lines, Level::Problem),
        "notes": line::count(lines, Level::Note),
        "driver": found,
        "gpus": facts.gpus().iter().enumerate().map(gpu).collect::<Value>(),
        "lines": lines,
    })
}

fn driver(found: &Found) -> Value {
    let lazy = found.started.as_ref().ok().and_then(|started| started.lazy);
    json!({
        "library": found.library.as_ref().map(|path| path.display().to_string()),
        "simulated": found.simulated,
        "release": found.release(),
        "cuda": found.version.as_ref().map(CudaVersion::to_string),
        "loading": lazy.map(|lazy| if lazy { "lazy" } else { "eager" }),
    })
}

fn gpu((ordinal, gpu): (usize, &Gpu)) -> Value {
    let context = gpu.context.as_ref().ok();
    json!({
        "ordinal": ordinal,
        "name": gpu.name,
        "arch": gpu.arch,
        "memory": gpu.memory,
        "free": context.map(|context| context.free),
        "stack": context.map(|context| context.stack),
    })
}

//! The report for programs: docs/audit-json.md.

use kernel_registry_audit::record;
use serde::Serialize;

use super::comparison::{KernelLoads, ProcessLoads, compare_kernels};
use super::groups::{self, Group};
use super::process::{Audit, Process};
use crate::kernel_name::readable;

const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct Report<'a> {
    schema: u32,
    findings: usize,
    causes: Vec<CauseEntry>,
    processes: Vec<ProcessEntry<'a>>,
    left_out: &'a [String],
    kernels: Vec<KernelEntry<'a>>,
    libraries: Vec<Group<'a>>,
    callers: Vec<Group<'a>>,
}

#[derive(Serialize)]
struct CauseEntry {
    cause: String,
    remedy: Option<&'static str>,
    findings: usize,
}

#[derive(Serialize)]
struct ProcessEntry<'a> {
    name: &'a str,
    #[serde(flatten)]
    report: &'a record::Report,
}

#[derive(Serialize)]
struct KernelEntry<'a> {
    symbol: &'a str,
    signature: String,
    loads: Vec<ProcessLoads<'a>>,
}

pub(super) fn text(audit: &Audit) -> String {
    let report = Report {
        schema: SCHEMA,
        findings: audit.findings(),
        causes: audit
            .causes()
            .into_iter()
            .map(|cause| CauseEntry {
                cause: cause.to_string(),
                remedy: cause.remedy(),
                findings: cause.count(),
            })
            .collect(),
        processes: { audit.processes.iter() }
            .map(|Process { name, report, .. }| ProcessEntry { name, report })
            .collect(),
        left_out: &audit.left_out,
        kernels: { compare_kernels(audit).into_iter() }
            .map(|KernelLoads { kernel, loads }| KernelEntry {
                symbol: kernel,
                signature: readable(kernel),
                loads,
            })
            .collect(),
        libraries: groups::libraries(audit.events()),
        callers: groups::callers(audit.events()),
    };
    let mut text = serde_json::to_string_pretty(&report).unwrap_or_default();
    text.push('\n');
    text
}

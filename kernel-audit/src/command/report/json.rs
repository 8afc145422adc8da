//! Writes the report as JSON for programs, as docs/audit-json.md describes it.

use kernel_registry_image::readable;
use serde::Serialize;
use serde_json::{Value, json};

use crate::command::process::{Audit, Outcome, Process};
use crate::command::report::comparison::{KernelLoads, compare_kernels};
use crate::command::report::groups::{self, Group};
use crate::{Cause, record};

const SCHEMA: u32 = 2;

#[derive(Serialize)]
struct Report<'a> {
    schema: u32,
    tool: &'static str,
    ended: Option<&'a Outcome>,
    findings: usize,
    causes: Vec<Value>,
    processes: Vec<ProcessEntry<'a>>,
    left_out: &'a [String],
    kernels: Vec<Value>,
    libraries: Vec<Group<'a>>,
    callers: Vec<Group<'a>>,
}

#[derive(Serialize)]
struct ProcessEntry<'a> {
    name: &'a str,
    #[serde(flatten)]
    report: &'a record::Report,
}

pub(crate) fn text(audit: &Audit) -> String {
    let cause = |cause: &Cause<'_>| json!({ "cause": cause.to_string(), "remedy": cause.remedy(), "findings": cause.count() });
    let kernel = |KernelLoads { kernel, loads }: &KernelLoads<'_>| json!({ "symbol": kernel, "signature": readable(kernel), "loads": loads });
    let report = Report {
        schema: SCHEMA,
        tool: concat!("kernel-audit ", env!("CARGO_PKG_VERSION")),
        ended: audit.ended.as_ref(),
        findings: audit.findings(),
        causes: audit.causes().iter().map(cause).collect(),
        processes: { audit.processes.iter() }
            .map(|Process { name, report, .. }| ProcessEntry { name, report })
            .collect(),
        left_out: &audit.left_out,
        kernels: compare_kernels(audit).iter().map(kernel).collect(),
        libraries: groups::libraries(audit),
        callers: groups::callers(audit),
    };
    let mut text = serde_json::to_string_pretty(&report).unwrap_or_default();
    text.push('\n');
    text
}

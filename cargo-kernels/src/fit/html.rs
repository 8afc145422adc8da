//! Writes what fits as a page: for each GPU the multiprocessor as bars, with a block of each kernel beside the resident kernel.

use std::fmt::Write as _;

use super::budget::Budget;
use super::json;
use super::report::{GpuReport, Launched, Report};
use super::text::{processors, shared, spread};
use crate::page::{self, Cell, Page, Table, Text};

const STYLE: &str = "\
.budget { display: grid; grid-template-columns: max-content minmax(6rem, 30rem) max-content; gap: 0.25rem 0.75rem; align-items: center; margin: 0.5rem 0; }
.bar { display: flex; height: 1rem; background: var(--raised); border: 1px solid var(--line); }
.bar i { display: block; height: 100%; flex: none; }
.stays, .legend .stays { background: var(--mark-blue); }
.block, .legend .block { background: var(--mark-green); }
.over, .legend .over { background: var(--mark-orange); }
.legend i { display: inline-block; width: 1.5rem; height: 0.55rem; margin: 0 0.25rem 0 0.75rem; }
";

pub(super) fn page(report: &Report<'_>) -> String {
    let name = report.gpus.first().map_or("", |gpu| gpu.resident.kernel.name.as_str());
    let refusals: Vec<_> = report.refusals().collect();
    let verdict = match refusals.len() {
        0 => "<p class=\"good\">Everything fits.</p>".to_owned(),
        _ => {
            let items: String = refusals
                .iter()
                .map(|refusal| format!("<li>{}</li>\n", page::with_code(refusal, str::to_owned)))
                .collect();
            format!("<p class=\"bad\">Does not fit</p>\n<ul>\n{items}</ul>")
        }
    };
    let mut body = String::from(
        "<p class=\"legend\">Bars are what one multiprocessor has, with the fewest blocks that stay:\
         <i class=\"stays\"></i>taken by them<i class=\"block\"></i>a block of the other kernel\
         <i class=\"over\"></i>the same where it has no room</p>\n",
    );
    report.gpus.iter().for_each(|gpu| body += &section(gpu));
    body += &page::data("fit", &json::document(report));
    let title = format!("What fits beside {name}");
    Page { title: &title, style: STYLE, summary: &verdict, body: &body }.to_string()
}

fn section(gpu: &GpuReport<'_>) -> String {
    let GpuReport { device, resident, residency, .. } = gpu;
    let mut section = format!(
        "<h2>sm_{}, {}</h2>\n<p><code>{}</code> stays with {} blocks of {} threads, {} registers, {} of shared memory: \
         {}. There is room for {}, limited by {}.</p>\n",
        device.sm,
        Text(processors(device)),
        Text(&resident.kernel.name),
        residency.grid,
        resident.launch.threads,
        resident.launch.registers,
        shared(&resident.launch),
        spread(residency),
        residency.capacity,
        residency.limit
    );
    if gpu.companions.is_empty() {
        section += &bars(gpu, None);
        return section;
    }
    let rows = gpu.companions.iter().map(|(other, room)| {
        vec![
            Cell::code(&other.kernel.name),
            Cell::number(other.launch.threads.into(), other.launch.threads),
            Cell::number(other.launch.registers.into(), other.launch.registers),
            Cell::text(shared(&other.launch)),
            Cell::number(room.per_processor.into(), room.per_processor),
            Cell::number(room.at_once as f64, room.at_once),
            Cell::text(room.limit),
        ]
    });
    let headings = ["kernel", "block", "registers", "shared", "on each", "at once", "limit"];
    let label = format!("Kernels beside {} on sm_{}", resident.kernel.name, device.sm);
    section += &Table { label: &label, headings: &headings, rows: rows.collect() }.to_string();
    for (other, _) in &gpu.companions {
        let _ = writeln!(section, "<h3><code>{}</code></h3>", Text(&other.kernel.name));
        section += &bars(gpu, Some(other));
    }
    section
}

/// A bar for each budget, with a block of another kernel.
fn bars(gpu: &GpuReport<'_>, other: Option<&Launched<'_>>) -> String {
    let mut bars = String::from("<div class=\"budget\">\n");
    for budget in &gpu.budgets {
        let needs = other.map_or(0, |other| budget.of_block(&gpu.device, &other.launch));
        bars += &bar(budget, needs);
    }
    bars + "</div>\n"
}

fn bar(budget: &Budget, needs: u32) -> String {
    let Budget { resource, total, taken } = *budget;
    let has_room = taken.saturating_add(needs) <= total;
    let class = if has_room { "block" } else { "over" };
    let percent = |part: u32| 100.0 * budget.share(part);
    let of_block = percent(needs).min(100.0 - percent(taken));
    let words =
        if needs > 0 { format!("{taken} + {needs} of {total}") } else { format!("{taken} of {total}") };
    format!(
        "<span>{}</span><span class=\"bar\"><i class=\"stays\" style=\"width:{:.2}%\"></i>\
         <i class=\"{class}\" style=\"width:{of_block:.2}%\"></i></span><span>{words}</span>\n",
        resource.name(),
        percent(taken)
    )
}

//! `cargo kernels fit`: computes which kernels fit beside a resident kernel.

mod json;
mod kernels;
mod report;
mod text;

use crate::cli::Fit;
use crate::failure::Failure;
use crate::output;
use kernels::Kernels;
use report::Report;

pub(crate) fn run(options: &Fit) -> Result<(), Failure> {
    let kernels = Kernels::read(options)?;
    let report = Report::compute(options, &kernels)?;
    output::print(|out| {
        if options.json {
            output::json::write(&json::document(&report), out)
        } else {
            text::write(&report, out)
        }
    })?;
    match report.refusals().count() {
        0 => kernels.unread.check(),
        count => Err(Failure::DoesNotFit { count }),
    }
}

//! `cargo kernels doctor`: checks whether kernels can be warmed and launched here, and what prevents it.
//!
//! `ask` collects [`Facts`]: no other step touches the machine. Each check is a function from facts to lines.

pub(crate) mod ask;
mod compiler;
mod cudarc;
mod driver;
pub(crate) mod facts;
mod gpus;
mod json;
mod line;
mod loading;
mod metadata;
mod text;
mod variables;

use crate::cli::Doctor;
use crate::failure::Failure;
use crate::output;
use facts::Facts;
use line::{Level, Line};

pub(crate) fn run(options: &Doctor) -> Result<(), Failure> {
    let facts = ask::facts(options.manifest_path.as_deref());
    let lines = lines(&facts);
    output::print(|out| match options.json {
        true => output::json::write(&json::document(&facts, &lines), out),
        false => text::write(&lines, out),
    })?;
    match line::count(&lines, Level::Problem) {
        0 => Ok(()),
        count => Err(Failure::Problems { count }),
    }
}

/// Runs all checks.
fn lines(facts: &Facts) -> Vec<Line> {
    let checks: [fn(&Facts) -> Vec<Line>; 6] =
        [driver::check, loading::check, variables::check, gpus::check, compiler::check, cudarc::check];
    checks.iter().flat_map(|check| check(facts)).collect()
}

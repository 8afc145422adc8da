//! Compares measured values with requirements, and prints them as a table.

use std::process::ExitCode;

use crate::Result;

/// One requirement and its measured value.
#[derive(Debug)]
pub struct Requirement {
    what: String,
    measured: String,
    bound: String,
    met: bool,
}

impl Requirement {
    /// Creates the requirement that a number is at most `bound`, both in the same unit.
    pub fn at_most(what: impl Into<String>, measured: f64, bound: f64, unit: &str) -> Self {
        Requirement {
            what: what.into(),
            measured: format!("{measured:.2} {unit}"),
            bound: format!("at most {bound} {unit}"),
            // NaN is not within bounds.
            met: measured <= bound,
        }
    }

    /// Creates the requirement that a number is at least `bound`, both in the same unit.
    pub fn at_least(what: impl Into<String>, measured: f64, bound: f64, unit: &str) -> Self {
        Requirement {
            what: what.into(),
            measured: format!("{measured:.2} {unit}"),
            bound: format!("at least {bound} {unit}"),
            met: measured >= bound,
        }
    }

    /// Creates the requirement that a count is `wanted`.
    pub fn exactly(what: impl Into<String>, measured: usize, wanted: usize, unit: &str) -> Self {
        Requirement {
            what: what.into(),
            measured: format!("{measured} {unit}"),
            bound: format!("exactly {wanted} {unit}"),
            met: measured == wanted,
        }
    }
}

/// Measures times, at most three times over, until all are within their bounds, because other work on the
/// machine only makes times longer. The third measurement counts.
pub fn of_times(mut measure: impl FnMut() -> Result<Vec<Requirement>>) -> Result<Vec<Requirement>> {
    const MORE: usize = 2;
    for _ in 0..MORE {
        let requirements = measure()?;
        if requirements.iter().all(|requirement| requirement.met) {
            return Ok(requirements);
        }
        println!("\nNOT WITHIN A BOUND, SO ONCE MORE");
    }
    measure()
}

/// Ends a benchmark. Returns the exit code: 0 if all requirements are met, 1 if not, and 2 if the benchmark
/// couldn't measure.
pub fn end(measured: Result<Vec<Requirement>>) -> ExitCode {
    exit_code(measured.map(|requirements| conclude(&requirements)))
}

/// Returns the exit code of a step. `done` says whether the step succeeded, or why it couldn't run.
pub fn exit_code(done: Result<bool>) -> ExitCode {
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

/// Prints all requirements as a table. Returns whether all are met.
fn conclude(requirements: &[Requirement]) -> bool {
    let width = |cell: fn(&Requirement) -> &String| {
        requirements.iter().map(|requirement| cell(requirement).len()).max().unwrap_or_default()
    };
    let (what, measured, bound) = (width(|r| &r.what), width(|r| &r.measured), width(|r| &r.bound));
    println!("\n{:what$}  {:>measured$}  {:bound$}  VERDICT", "REQUIREMENT", "MEASURED", "BOUND");
    for requirement in requirements {
        let verdict = if requirement.met { "ok" } else { "MISSED" };
        println!(
            "{:what$}  {:>measured$}  {:bound$}  {verdict}",
            requirement.what, requirement.measured, requirement.bound
        );
    }
    requirements.iter().all(|requirement| requirement.met)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_measured_again_before_they_miss_a_bound() {
        let measured = |times: &[f64]| {
            let mut times = times.iter();
            let requirements = of_times(|| {
                let time = times.next().expect("no more is measured");
                Ok(vec![Requirement::at_most("a launch", *time, 1.5, "times")])
            });
            (requirements.unwrap()[0].met, times.len())
        };
        assert_eq!(measured(&[1.0, 9.0]), (true, 1));
        assert_eq!(measured(&[1.83, 1.2, 9.0]), (true, 1));
        assert_eq!(measured(&[1.83, 1.6, 1.4]), (true, 0));
        assert_eq!(measured(&[1.83, 1.6, 1.7]), (false, 0));
    }
}

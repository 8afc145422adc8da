//! Measures a program's work before `main`, and in the first call of `kernels()`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use super::{Each, KERNELS, Kernels};
use crate::Result;
use crate::sample::Sample;
use crate::verdict::Requirement;

/// The task of the measured programs.
#[derive(Clone, Copy, Debug)]
pub enum Task {
    /// End at once, to measure the cost of start-up.
    Idle,
    /// Print how many kernels there are.
    Count,
}

/// The nanoseconds of an instruction on a slow processor: one instruction per cycle, at 2 GHz.
pub const INSTRUCTION: f64 = 0.5;

/// The paths of the programs, with kernels and without.
pub type Programs = Each<Kernels<PathBuf>>;

/// Counts the instructions that each program executes, including dynamic linking. Returns `None` without
/// valgrind.
pub fn instructions(programs: &Programs, task: Task) -> Result<Option<Each<Kernels<f64>>>> {
    let valgrind = Command::new("valgrind").arg("--version").stdout(Stdio::null()).status();
    match valgrind {
        Ok(_) => programs.try_map(|pair| pair.try_map(|program| executed(program, task))).map(Some),
        Err(_) => Ok(None),
    }
}

fn executed(program: &Path, task: Task) -> Result<f64> {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(program).args(task.argument());
    let output = valgrind.output()?;
    let report = String::from_utf8_lossy(&output.stderr);
    let total = report.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok());
    total.ok_or_else(|| format!("valgrind counted no instructions:\n{report}").into())
}

/// Measures how long each program runs, from the start of the process to its end.
pub fn times(programs: &Programs, task: Task, runs: usize) -> Result<Each<Kernels<Sample>>> {
    let mut times = programs.map(|_| Kernels { with: Sample::default(), without: Sample::default() });
    for run in 0..runs {
        let mut turns = [
            (&programs.annotated.with, &mut times.annotated.with),
            (&programs.annotated.without, &mut times.annotated.without),
            (&programs.by_hand.with, &mut times.by_hand.with),
            (&programs.by_hand.without, &mut times.by_hand.without),
            (&programs.bare.with, &mut times.bare.with),
            (&programs.bare.without, &mut times.bare.without),
        ];
        // The order rotates, because the previous program affects the caches.
        turns.rotate_left(run % 6);
        for (program, sample) in turns {
            let mut command = Command::new(program);
            command.args(task.argument()).stdout(Stdio::null());
            let start = Instant::now();
            let status = command.status()?;
            sample.push(start.elapsed());
            if !status.success() {
                return Err(format!("{} ended with {status}", program.display()).into());
            }
        }
    }
    Ok(times)
}

/// Returns the nanoseconds per kernel, and their uncertainty.
pub fn nanoseconds(times: &Kernels<Sample>) -> (f64, f64) {
    let Kernels { with, without } = times;
    let time = Kernels { with: with.median() * 1e9, without: without.median() * 1e9 };
    let uncertainty = with.uncertainty().hypot(without.uncertainty());
    (time.a_kernel(), uncertainty * 1e9 / KERNELS as f64)
}

/// Compares the time with its bound. If the difference is within the noise, compares the number of
/// instructions instead, if they were counted.
pub fn requirement(times: &Kernels<Sample>, instructions: Option<f64>, bound: f64) -> Requirement {
    let (time, uncertainty) = nanoseconds(times);
    match instructions {
        Some(instructions) if (time - bound).abs() < 2.0 * uncertainty => {
            let what = "start-up, by instructions, as noise hides the time";
            Requirement::at_most(what, instructions * INSTRUCTION, bound, "ns a kernel")
        }
        _ => Requirement::at_most("start-up, by the clock", time, bound, "ns a kernel"),
    }
}

impl Task {
    fn argument(self) -> Option<&'static str> {
        match self {
            Task::Idle => Some("idle"),
            Task::Count => None,
        }
    }
}

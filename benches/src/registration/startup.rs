//! What a program does before its `main`, and at the first question for its kernels.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use super::KERNELS;
use super::crates::Compared;
use crate::Result;
use crate::sample::Sample;
use crate::workshop::Profile;

/// What the programs are asked to do.
#[derive(Clone, Copy, Debug)]
pub enum Task {
    /// End at once: what they did by then is the cost of start-up.
    Idle,
    /// Print how many kernels there are.
    Count,
}

/// One number for each of the three programs.
pub struct Each<T> {
    /// With annotated kernels.
    pub annotated: T,
    /// With kernels made by hand.
    pub bare: T,
    /// Without kernels.
    pub none: T,
}

/// Instructions that each program executes, dynamic linking included, or nothing without valgrind.
pub fn instructions(crates: &Compared, task: Task) -> Result<Option<Each<f64>>> {
    if Command::new("valgrind").arg("--version").stdout(Stdio::null()).status().is_err() {
        return Ok(None);
    }
    Ok(Some(Each {
        annotated: executed(&crates.annotated.program(Profile::Release), task)?,
        bare: executed(&crates.bare.program(Profile::Release), task)?,
        none: executed(&crates.none.program(Profile::Release), task)?,
    }))
}

fn executed(program: &Path, task: Task) -> Result<f64> {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(program).args(task.argument());
    let output = valgrind.output()?;
    let report = String::from_utf8_lossy(&output.stderr);
    let total = report.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok());
    total.ok_or_else(|| format!("valgrind counted no instructions:\n{report}").into())
}

/// How long each program runs, from its creation to its end.
pub fn times(crates: &Compared, task: Task, runs: usize) -> Result<Each<Sample>> {
    let mut times = Each { annotated: Sample::default(), bare: Sample::default(), none: Sample::default() };
    let programs =
        [&crates.annotated, &crates.bare, &crates.none].map(|package| package.program(Profile::Release));
    for run in 0..runs {
        let samples = [&mut times.annotated, &mut times.bare, &mut times.none];
        let mut turns: Vec<_> = programs.iter().zip(samples).collect();
        // Each follows each of the others equally often, as what ran before leaves its traces in caches.
        turns.rotate_left(run % 3);
        if run % 2 == 1 {
            turns.reverse();
        }
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

impl Each<f64> {
    /// What a kernel adds in the annotated program and in the one made by hand.
    pub fn a_kernel(&self) -> [f64; 2] {
        [&self.annotated, &self.bare].map(|with| (with - self.none) / KERNELS as f64)
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

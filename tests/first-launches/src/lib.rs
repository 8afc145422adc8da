//! Launches generated kernels for the first time beside a resident kernel, and reports which launches waited for the resident kernel.
//!
//! `tests/src/bin/first_launches` generates the executable: kernels, their declarations, and a `main` that calls [`run`].

mod bench;
mod case;
mod pass;
mod resident;

use std::fmt;
use std::process::ExitCode;

use clap::Parser;
use kernel_registry::KernelInfo;

use bench::Bench;
use case::is_simulated;
use pass::Pass;

pub use case::{Case, LAUNCH, N, RECUR};

/// The kernels and the options of a generated executable.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// The kernels to launch.
    pub cases: &'static [Case],
    /// The resident kernel. Its parameters are a flag, a status and the nanoseconds after which the kernel ends by itself.
    pub stay: &'static KernelInfo,
    /// The options with which the executable was generated.
    pub options: Options,
}

/// The options of a generated executable. Equal options give equal kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::Args)]
pub struct Options {
    /// Seed of the random numbers
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Number of kernels to generate
    #[arg(long, default_value_t = 500)]
    pub kernels: usize,
}

/// The exit code if nothing could be tried.
pub const NOT_POSSIBLE: u8 = 2;

/// The number of kernels that the second pass warms together. In a small group a kernel seldom profits from what another kernel
/// needs, such as a larger stack.
const FEW: usize = 8;

#[derive(Parser)]
#[command(about = "Launches generated kernels for the first time beside a resident kernel")]
struct Cli {
    #[command(flatten)]
    options: Options,
}

/// Launches all kernels in two passes: after `warm_all` in one context, and then a few at a time in further contexts.
pub fn run(program: &Program) -> ExitCode {
    let Program { options, .. } = program;
    let asked = Cli::parse().options;
    if asked != *options {
        eprintln!("error: this program was built for `{options}`; build another one for `{asked}`");
        return ExitCode::from(NOT_POSSIBLE);
    }
    if is_simulated() {
        kernel_registry_sim::install().expect("nothing has used CUDA yet");
    }
    let bench = match Bench::new(program.stay) {
        Ok(bench) => bench,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(NOT_POSSIBLE);
        }
    };
    match passes(&bench, program) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(problems) => {
            println!("{problems} problems");
            ExitCode::FAILURE
        }
        Err(error) => {
            println!("FAIL {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs both passes, and returns the number of problems.
fn passes(bench: &Bench, program: &Program) -> Result<usize, Box<dyn std::error::Error>> {
    let mut random = fastrand::Rng::with_seed(program.options.seed);
    let mut cases: Vec<&Case> = program.cases.iter().collect();
    random.shuffle(&mut cases);
    let mut all = Pass::new("all in one context", bench);
    all.launch(bench.context(), &cases)?;
    let mut problems = all.finish();
    problems += Pass::new("control", bench).control(&cases)?;

    random.shuffle(&mut cases);
    let mut few = Pass::new(format!("{FEW} in each context"), bench);
    for cases in cases.chunks(FEW) {
        few.launch(&bench::new_context()?, cases)?;
    }
    problems += few.finish();
    Ok(problems)
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "--seed {} --kernels {}", self.seed, self.kernels)
    }
}

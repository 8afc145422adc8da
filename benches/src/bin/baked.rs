//! Measures how long `warm_all` takes for PTX images with baked code, compared with the same images as
//! machine code. Needs a GPU.
//!
//! `cargo run --release -p benches --bin baked -- FOLDER FILE.baked`: the folder has `NAME.ptx` and
//! `NAME.cubin` for each image, and the file has machine code of the PTX, made by `cargo kernels bake`. Each
//! warm-up has its own process; the two kinds alternate.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use std::{env, fs};

use benches::Result;
use benches::child::Child;
use benches::sample::Sample;
use benches::verdict::{self, Requirement};
use kernel_registry::{MachineCode, RuntimeImage, Warmup};

const ROUNDS: usize = 9;
/// The time limit of a warm-up.
const LONGEST: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args().skip(1).collect();
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [folder, baked, kind] => match warm(Path::new(folder), baked, kind) {
            Ok(took) => {
                println!("{}", took.as_secs_f64());
                ExitCode::SUCCESS
            }
            Err(error) => {
                eprintln!("error: {error}");
                ExitCode::FAILURE
            }
        },
        [folder, baked] => verdict::end(verdict::of_times(|| measure(folder, baked))),
        _ => {
            eprintln!("error: name a folder and a file of baked code");
            ExitCode::FAILURE
        }
    }
}

fn measure(folder: &str, baked: &str) -> Result<Vec<Requirement>> {
    let (mut ptx, mut cubin) = (Sample::default(), Sample::default());
    let program = env::current_exe()?;
    let child = |kind| {
        let child = Child::new(&program).arg(folder).arg(baked).arg(kind);
        child.env("CUDA_CACHE_DISABLE", "1").numbers(LONGEST).map(|numbers| numbers[0])
    };
    for _ in 0..ROUNDS {
        ptx.push(Duration::from_secs_f64(child("ptx")?));
        cubin.push(Duration::from_secs_f64(child("cubin")?));
    }
    println!(
        "warm-up of PTX with baked code {:8.2} ms, of machine code {:8.2} ms",
        ptx.median() * 1e3,
        cubin.median() * 1e3
    );
    let ratio = ptx.median() / cubin.median();
    Ok(vec![Requirement::at_most("warming PTX with baked code, over machine code", ratio, 1.6, "times")])
}

/// Registers the images of one kind, and returns how long their warm-up took.
fn warm(folder: &Path, baked: &str, kind: &str) -> Result<Duration> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == kind) {
            RuntimeImage::new(path.display().to_string(), fs::read(&path)?).register()?;
        }
    }
    let context = kernel_registry::context(0)?;
    let begun = Instant::now();
    let warm = Warmup::new().baked(baked).warm(&context)?;
    let took = begun.elapsed();
    let compiled = warm.report().kernels.iter().filter(|kernel| kernel.code == MachineCode::Compiled).count();
    if compiled > 0 {
        return Err(format!("{compiled} kernels were compiled: {}", warm.report()).into());
    }
    Ok(took)
}

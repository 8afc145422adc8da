//! Measures compiling CUDA sources in a build script, compared with running the same nvcc commands by hand,
//! and with nothing changed.
//!
//! `cargo run --release -p benches --bin compile` takes some minutes and needs nvcc, in `CUDA_HOME` or on
//! `PATH`; `-- --quick` compiles fewer files.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use benches::Result;
use benches::sample::Sample;
use benches::verdict::{self, Requirement};
use benches::workshop::{File, Profile, Workshop, repository};

/// The options that `kernel_registry_build` passes to nvcc by default.
const OPTIONS: &[&str] = &[
    "-fatbin",
    "-gencode",
    "arch=compute_80,code=sm_80",
    "-gencode",
    "arch=compute_90,code=sm_90",
    "-gencode",
    "arch=compute_75,code=compute_75",
];

fn main() -> ExitCode {
    let files = match env::args().skip(1).collect::<Vec<_>>().as_slice() {
        [] => 64,
        [quick] if quick == "--quick" => 16,
        _ => {
            eprintln!("usage: compile [--quick]");
            return ExitCode::from(2);
        }
    };
    verdict::end(measure(files))
}

fn measure(files: usize) -> Result<Vec<Requirement>> {
    let nvcc = nvcc().ok_or("there is no nvcc in `CUDA_HOME` or on `PATH`")?;
    let cores = thread::available_parallelism().map_or(1, usize::from);
    println!("{files} small files, {cores} cores, {}", nvcc.display());

    let workshop = Workshop::open("compile")?;
    let this = repository().join("kernel-registry-build");
    // Cargo builds the build script before the measurements. Without `MEASURED`, the script doesn't compile
    // CUDA sources.
    let dependency = format!("\n[build-dependencies]\nkernel-registry-build = {{ path = {this:?} }}");
    let script = "fn main() {\n    if std::env::var_os(\"MEASURED\").is_some() {\n        kernel_registry_build::compile();\n    }\n}\n";
    let mut contents: Vec<File> =
        vec![("build.rs".to_owned(), script.into()), ("src/main.rs".to_owned(), "fn main() {}\n".into())];
    contents.extend((0..files).map(|number| (format!("cuda/k{number}.cu"), source(number).into_bytes())));
    let package = workshop.package("compiled", &dependency, contents)?;
    package.build(Profile::Debug)?;
    let program = package.program(Profile::Debug);
    let script = script_of(&program)?;
    let folder = folder_of(&workshop)?;

    let out = folder.join("bare");
    let mut used = processor();
    // Returns the processor time since the last call, which other programs disturb less than clock time.
    let mut spent = || {
        let before = std::mem::replace(&mut used, processor());
        used.zip(before).map_or_else(|| "unknown".to_owned(), |(now, before)| format!("{:.2}", now - before))
    };
    let serial = bare(&nvcc, &folder, &out, files, 1)?;
    let serial_spent = spent();
    let parallel = bare(&nvcc, &folder, &out, files, cores)?;
    let parallel_spent = spent();
    let out = folder.join("out");
    if out.exists() {
        fs::remove_dir_all(&out)?;
    }
    spent();
    let ours = run(&script, &folder, &out, cores)?;
    let ours_spent = spent();
    let mut unchanged = Sample::default();
    for _ in 0..21 {
        unchanged.push(run(&script, &folder, &out, cores)?);
    }
    println!("\n{:42} {:>7}  {:>9}", "seconds of all files", "CLOCK", "PROCESSOR");
    let print = |what: &str, time: Duration, spent: &str| {
        println!("{what:42} {:7.2}  {spent:>9}", time.as_secs_f64());
    };
    print("nvcc by hand, one after the other", serial, &serial_spent);
    print(&format!("nvcc by hand, {cores} at once"), parallel, &parallel_spent);
    print("build script", ours, &ours_spent);
    println!("{:42} {:7.3}", "build script, nothing changed (median)", unchanged.median());
    let ideal = serial.as_secs_f64() / cores as f64;
    Ok(vec![
        Requirement::at_most(
            format!("build script, versus one compiler's time over {cores} cores"),
            ours.as_secs_f64() / ideal,
            1.15,
            "times",
        ),
        Requirement::at_most("build script, when nothing changed", unchanged.median() * 1000.0, 50.0, "ms"),
    ])
}

/// Compiles all files with nvcc, several at once. Returns the time.
fn bare(nvcc: &Path, package: &Path, out: &Path, files: usize, at_once: usize) -> Result<Duration> {
    fs::create_dir_all(out)?;
    let (next, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let worker = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= files {
                break;
            }
            let mut command = Command::new(nvcc);
            command.current_dir(package).args(OPTIONS).arg("-o").arg(out.join(format!("{number}.fatbin")));
            let status = command.arg(format!("cuda/k{number}.cu")).stdout(Stdio::null()).status();
            failed.fetch_add(usize::from(!status.is_ok_and(|status| status.success())), Ordering::Relaxed);
        }
    };
    let start = Instant::now();
    thread::scope(|scope| (0..at_once).for_each(|_| drop(scope.spawn(worker))));
    let time = start.elapsed();
    match failed.into_inner() {
        0 => Ok(time),
        failed => Err(format!("nvcc failed for {failed} files").into()),
    }
}

/// Returns the processor seconds of ended child processes, as Linux reports them.
fn processor() -> Option<f64> {
    const TICKS_A_SECOND: f64 = 100.0;
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    // Fields 16 and 17 of the whole line. The first two are before the parenthesis.
    let ticks: Vec<f64> = fields.split_whitespace().skip(13).take(2).flat_map(str::parse).collect();
    (ticks.len() == 2).then(|| ticks.iter().sum::<f64>() / TICKS_A_SECOND)
}

/// Runs the build script as cargo does.
fn run(script: &Path, package: &Path, out: &Path, jobs: usize) -> Result<Duration> {
    let mut command = Command::new(script);
    command.current_dir(package).env("CARGO_MANIFEST_DIR", package).env("OUT_DIR", out);
    command.env("MEASURED", "1").env("PROFILE", "debug").env("NUM_JOBS", jobs.to_string());
    command.env("KERNEL_REGISTRY_COMPILER", "nvcc").env_remove("CARGO_MAKEFLAGS").env_remove("MAKEFLAGS");
    let start = Instant::now();
    let output = command.output()?;
    let time = start.elapsed();
    if output.status.success() {
        Ok(time)
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned().into())
    }
}

/// Returns the path of the build script's executable in the package's target directory.
fn script_of(program: &Path) -> Result<PathBuf> {
    let build = program.with_file_name("build");
    let mut found: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(&build)? {
        let script = entry?.path().join(format!("build-script-build{}", env::consts::EXE_SUFFIX));
        let ours = script.to_string_lossy().contains("compiled-");
        if ours && script.is_file() {
            found.push(script);
        }
    }
    found.sort_by_key(|script| fs::metadata(script).and_then(|metadata| metadata.modified()).ok());
    found.pop().ok_or_else(|| format!("there is no build script in {}", build.display()).into())
}

fn folder_of(workshop: &Workshop) -> Result<PathBuf> {
    Ok(fs::canonicalize(workshop.folder().join("compiled"))?)
}

fn nvcc() -> Option<PathBuf> {
    let name = format!("nvcc{}", env::consts::EXE_SUFFIX);
    let home = env::var_os("CUDA_HOME").map(|home| Path::new(&home).join("bin"));
    let path = env::var_os("PATH").unwrap_or_default();
    let mut folders = home.into_iter().chain(env::split_paths(&path));
    let found = folders.find(|folder| folder.join(&name).is_file())?;
    fs::canonicalize(found.join(name)).ok()
}

fn source(number: usize) -> String {
    format!(
        "__global__ void k{number}(unsigned int n, float a, const float* x, float* y) {{\n    \
             const unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;\n    \
             if (i < n) y[i] = a * x[i] + y[i] + {number}.0f;\n}}\n"
    )
}

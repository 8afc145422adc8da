//! Measures warming a thousand kernels against loading them by hand. Cases: PTX with the driver's cache off;
//! PTX with the cache filled; few large images; machine code. The ways to load take turns, and each run is a
//! new process.
//!
//! `cargo run --release -p benches --bin warm` first builds three programs with a thousand kernels, which
//! needs `ptxas`; then it needs a GPU. `-- --arch 80` makes machine code for another architecture than sm_90,
//! and `-- --programs FOLDER` uses programs copied from the printed folder.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use std::{env, fs};

use benches::Result;
use benches::child::Child;
use benches::sample::Sample;
use benches::verdict::{self, Requirement};
use benches::warming::{IMAGES, KERNELS, LARGE_IMAGES, crates};
use benches::workshop::{Package, Profile, Workshop};

/// Counted runs of each way to load. A first run isn't counted, because it reads files from disk.
const RUNS: usize = 9;

/// Counted runs of ways that take seconds.
const FEW: usize = 5;

fn main() -> ExitCode {
    verdict::end(measure())
}

/// The generated programs.
struct Programs {
    text: PathBuf,
    large_text: PathBuf,
    machine: PathBuf,
}

fn programs() -> Result<Programs> {
    let mut arch = 90;
    let mut args = env::args().skip(1);
    while let Some(option) = args.next() {
        match (option.as_str(), args.next()) {
            ("--arch", Some(number)) => arch = number.parse()?,
            ("--programs", Some(folder)) => {
                let program = |name| Path::new(&folder).join(name).with_extension(env::consts::EXE_EXTENSION);
                return Ok(Programs {
                    text: program("warm-text"),
                    large_text: program("warm-large-text"),
                    machine: program("warm-machine"),
                });
            }
            _ => return Err("usage: warm [--arch NUMBER | --programs FOLDER]".into()),
        }
    }
    let workshop = Workshop::open("warm")?;
    let build = |package: Result<Package>| -> Result<PathBuf> {
        let package = package?;
        package.build(Profile::Stripped)?;
        Ok(package.program(Profile::Stripped))
    };
    let programs = Programs {
        text: build(crates::text(&workshop))?,
        large_text: build(crates::large_text(&workshop))?,
        machine: build(crates::machine(&workshop, arch))?,
    };
    let Programs { text, large_text, machine } = &programs;
    println!("programs: {}, {}, {}", text.display(), large_text.display(), machine.display());
    Ok(programs)
}

fn measure() -> Result<Vec<Requirement>> {
    let programs = programs()?;
    println!("{}", benches::child::device()?);
    println!("{KERNELS} kernels in {IMAGES} images");
    let mut requirements = compiled(&programs.text)?;
    requirements.extend(compiled_in_pieces(&programs.large_text)?);
    requirements.push(cached(&programs.text)?);
    requirements.extend(machine_code(&programs.machine)?);
    Ok(requirements)
}

/// Measures PTX that the driver hasn't compiled before.
fn compiled(program: &Path) -> Result<Vec<Requirement>> {
    let child = |way| Child::new(program).arg(way).env("CUDA_CACHE_DISABLE", "1");
    let ways = [
        Way { what: "`warm_all`", child: child("ours") },
        Way { what: "`cuLibraryLoadData` in all threads by hand", child: child("libraries") },
    ];
    let [ours, bare] = take_turns("PTX, DRIVER'S CACHE OFF", ways, FEW)?;
    // One counted run, because each takes seven seconds.
    let ways = [Way { what: "cudarc, one image after the other", child: child("cudarc") }];
    let [cudarc] = take_turns("", ways, 1)?;
    Ok(vec![
        Requirement::at_most("PTX: ours / bare parallel", ours[0] / bare[0], 1.15, "times"),
        Requirement::at_least("PTX: cudarc / ours", cudarc[0] / ours[0], 8.0, "times"),
    ])
}

/// Measures PTX in few images that the driver hasn't compiled before.
fn compiled_in_pieces(program: &Path) -> Result<Vec<Requirement>> {
    let child = |way| Child::new(program).arg(way).env("CUDA_CACHE_DISABLE", "1");
    let ways = [
        Way { what: "`warm_all`", child: child("ours") },
        Way { what: "`Warmup::whole_images`", child: child("whole") },
        Way { what: "`cuLibraryLoadData` in all threads by hand", child: child("libraries") },
    ];
    let title = format!("PTX IN {LARGE_IMAGES} IMAGES, DRIVER'S CACHE OFF");
    let [ours, _, _] = take_turns(&title, ways, FEW)?;
    let ways = [Way { what: "cudarc, one image after the other", child: child("cudarc") }];
    let [cudarc] = take_turns("", ways, 1)?;
    Ok(vec![Requirement::at_least("PTX in few images: cudarc / ours", cudarc[0] / ours[0], 8.0, "times")])
}

/// Measures PTX that the driver compiled in an earlier process.
fn cached(program: &Path) -> Result<Requirement> {
    let cache = env::temp_dir().join(format!("kernel-registry-warm-{}", std::process::id()));
    let child = |way| {
        let child = Child::new(program).arg(way).env("CUDA_CACHE_DISABLE", "0");
        child.env("CUDA_CACHE_PATH", &cache).env("CUDA_CACHE_MAXSIZE", "1073741824")
    };
    fs::create_dir_all(&cache)?;
    let ways = [
        Way { what: "`warm_all`", child: child("ours") },
        Way { what: "`cuLibraryLoadData` in all threads by hand", child: child("libraries") },
        Way { what: "`cuModuleLoadData` by hand", child: child("modules") },
        Way { what: "cudarc, one image after the other", child: child("cudarc") },
    ];
    // The first run fills the cache.
    let results = take_turns("PTX, DRIVER'S CACHE FILLED", ways, RUNS);
    fs::remove_dir_all(&cache)?;
    let [ours, libraries, modules, cudarc] = results?;
    let best = libraries[1].min(modules[0]).min(cudarc[0]);
    Ok(Requirement::at_most("PTX from the cache: ours / the fastest by hand", ours[0] / best, 1.2, "times"))
}

fn machine_code(program: &Path) -> Result<Vec<Requirement>> {
    let child = |way| Child::new(program).arg(way).env("CUDA_MODULE_LOADING", "LAZY");
    let ways = [
        Way { what: "`warm_all`", child: child("ours") },
        Way { what: "`cuModuleLoadData` by hand", child: child("modules") },
        Way { what: "the same in a separate thread", child: child("thread") },
        Way {
            what: "`cuModuleLoadData` by hand, EAGER",
            child: child("modules").env("CUDA_MODULE_LOADING", "EAGER"),
        },
    ];
    let [ours, lazy, _, eager] = take_turns("MACHINE CODE", ways, 2 * RUNS)?;
    Ok(vec![
        Requirement::at_most("machine code: ours / by hand, EAGER", ours[0] / eager[0], 1.15, "times"),
        Requirement::at_most("machine code: ours / by hand, LAZY", ours[0] / lazy[0], 1.15, "times"),
        Requirement::at_most("a second `warm_all` / the first", 100.0 * ours[1] / ours[0], 2.0, "percent"),
    ])
}

/// One way to load the kernels.
struct Way {
    what: &'static str,
    child: Child,
}

/// Runs all ways in turns, each `runs` times after an uncounted run. Prints and returns the medians of the
/// numbers that each way prints.
fn take_turns<const N: usize>(title: &str, mut ways: [Way; N], runs: usize) -> Result<[Vec<f64>; N]> {
    const TIMEOUT: Duration = Duration::from_secs(60);
    if !title.is_empty() {
        println!("\n{title:56} {:>12}  MS, MEDIANS", "RUNS");
    }
    let mut samples = [const { Vec::<Sample>::new() }; N];
    for run in 0..=runs {
        for (way, samples) in ways.iter_mut().zip(&mut samples) {
            let times = way.child.numbers(TIMEOUT).map_err(|error| format!("{}: {error}", way.what))?;
            samples.resize_with(times.len(), Sample::default);
            for (sample, time) in samples.iter_mut().zip(times).filter(|_| run > 0) {
                sample.push(Duration::from_secs_f64(time / 1e3));
            }
        }
    }
    let medians = samples.map(|samples| samples.iter().map(|sample| sample.median() * 1e3).collect());
    for (way, medians) in ways.iter().zip::<&[Vec<f64>; N]>(&medians) {
        let times: Vec<_> = medians.iter().map(|median| format!("{median:.2}")).collect();
        println!("{:56} {runs:>12}  {}", way.what, times.join(", "));
    }
    Ok(medians)
}

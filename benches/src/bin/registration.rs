//! Measures the cost of registration: rebuilds, start-up and size with a thousand annotated kernels, compared
//! with the same by hand; and how often a program contains an image that sixty of its kernels share.
//!
//! `cargo run --release -p benches --bin registration` takes some minutes; `-- --quick` repeats less.

use std::process::{Command, ExitCode};
use std::{env, thread};

use benches::Result;
use benches::registration::image::{self, Copies};
use benches::registration::rebuild::{self, Edit};
use benches::registration::startup::{self, Task};
use benches::registration::{Each, KERNELS, Kernels, MODULES, crates};
use benches::sample::Sample;
use benches::verdict::{self, Requirement};
use benches::workshop::{Package, Profile, Workshop};

/// How many rounds and runs to measure.
struct Effort {
    rounds: usize,
    runs: usize,
}

fn main() -> ExitCode {
    let effort = match env::args().skip(1).collect::<Vec<_>>().as_slice() {
        [] => Effort { rounds: 7, runs: 600 },
        [quick] if quick == "--quick" => Effort { rounds: 3, runs: 120 },
        _ => {
            eprintln!("usage: registration [--quick]");
            return ExitCode::from(2);
        }
    };
    verdict::end(measure(&effort))
}

fn measure(effort: &Effort) -> Result<Vec<Requirement>> {
    let workshop = Workshop::open("registration")?;
    let crates = crates::compared(&workshop)?;
    println!(
        "{KERNELS} kernels in {MODULES} modules, each with an image: \
         `#[gpu_kernel]`, `inventory::submit!` and a typed launch function by hand, and bare `inventory::submit!`"
    );
    println!("{}, {}", compiler()?, machine());

    let mut requirements = rebuilds(&crates.map(|pair| &pair.with), effort)?;
    sizes(&crates)?;
    requirements.push(startup(&crates, effort)?);
    requirements.push(copies(&workshop)?);
    Ok(requirements)
}

/// Prints the times of builds. Only debug builds after an edit have bounds.
fn rebuilds(crates: &Each<&Package>, effort: &Effort) -> Result<Vec<Requirement>> {
    let Effort { rounds, .. } = *effort;
    println!("\n{:48} {HEADS} {:>9}", "SECONDS OF CARGO BUILD, MEDIANS", "RATIO");
    let row = |what: &str, builds: Each<Sample>| {
        let times = builds.map(Sample::median);
        let ratio = times.annotated / times.by_hand;
        println!("{what:48} {} {ratio:9.2}", columns(&times, 2));
        [
            Requirement::at_most(format!("{what}: by hand"), ratio, 2.0, "times"),
            Requirement::at_most(format!("{what}: over bare"), times.annotated - times.bare, 1.5, "s"),
        ]
    };
    row("debug build, the first (once)", rebuild::first(crates)?);
    let few = rounds.div_ceil(3);
    let release = rebuild::after(Edit::Main, crates, Profile::Release, few)?;
    row(&format!("release rebuild, edit in main.rs ({few} rounds)"), release);
    let mut requirements = Vec::new();
    for (edit, place) in [(Edit::Main, "in main.rs"), (Edit::Module, "above 50 kernels")] {
        let builds = rebuild::after(edit, crates, Profile::Debug, rounds)?;
        requirements.extend(row(&format!("debug rebuild, edit {place} ({rounds} rounds)"), builds));
    }
    Ok(requirements)
}

/// The headings of the columns.
const HEADS: &str = "ANNOTATED   BY HAND      BARE";

fn columns(Each { annotated, by_hand, bare }: &Each<f64>, digits: usize) -> String {
    format!("{annotated:9.digits$} {by_hand:9.digits$} {bare:9.digits$}")
}

/// Prints the sizes of the programs, which have no bound.
fn sizes(crates: &Each<Kernels<Package>>) -> Result<()> {
    println!("\n{:48} {HEADS}", "BYTES: PROGRAM, AND PER KERNEL");
    for (what, profile) in
        [("debug", Profile::Debug), ("release", Profile::Release), ("release, stripped", Profile::Stripped)]
    {
        let sizes = crates.try_map(|pair| {
            pair.try_map(|package| {
                package.build(profile)?;
                Ok(package.size(profile)? as f64)
            })
        })?;
        println!("{what:48} {}", columns(&sizes.map(|pair| pair.with), 0));
        println!("{:48} {}", "  a kernel", columns(&sizes.map(Kernels::a_kernel), 0));
    }
    Ok(())
}

/// Prints the cost of start-up and of the first call of `kernels()`, in release builds.
fn startup(crates: &Each<Kernels<Package>>, effort: &Effort) -> Result<Requirement> {
    println!("\n{:48} {HEADS}", "START-UP, A KERNEL");
    let row = |what: String, each: Each<f64>| println!("{what:48} {}", columns(&each, 0));
    let programs = crates.try_map(|pair| pair.try_map(|package| Ok(package.program(Profile::Release))))?;

    let runs = effort.runs;
    let idle = startup::times(&programs, Task::Idle, runs)?;
    let all = startup::times(&programs, Task::Count, runs)?;
    let time = |times: &Each<Kernels<Sample>>| times.map(|pair| startup::nanoseconds(pair).0);
    row(format!("ns before `main` ({runs} runs)"), time(&idle));
    row("  give or take".to_owned(), idle.map(|pair| 2.0 * startup::nanoseconds(pair).1));
    row("ns before `main` and in the first `kernels()`".to_owned(), time(&all));

    let instructions = startup::instructions(&programs, Task::Idle)?;
    match (&instructions, startup::instructions(&programs, Task::Count)?) {
        (Some(idle), Some(all)) => {
            row("instructions before `main`".to_owned(), idle.map(Kernels::a_kernel));
            row("instructions, the first `kernels()` included".to_owned(), all.map(Kernels::a_kernel));
        }
        _ => println!("INSTRUCTIONS ARE NOT COUNTED: valgrind is not installed, so noise may decide"),
    }
    let instructions = instructions.map(|each| each.annotated.a_kernel());
    Ok(startup::requirement(&idle.annotated, instructions, 100.0))
}

/// Prints how often the debug program contains the large image.
fn copies(workshop: &Workshop) -> Result<Requirement> {
    let copies = Copies::count(workshop, Profile::Debug)?;
    println!("\n{} KERNELS OF ONE IMAGE", image::KERNELS);
    println!("{:48} {:9}", "bytes of the image, without its kernels", image::LENGTH);
    println!("{:48} {:9}", "bytes of the debug program", copies.program);
    println!("{:48} {:9}", "times that the image is in it", copies.count);
    Ok(Requirement::exactly("image of sixty kernels in the debug program", copies.count, 1, "times"))
}

fn compiler() -> Result<String> {
    let version = Command::new(env::var_os("RUSTC").unwrap_or("rustc".into())).arg("--version").output()?;
    Ok(String::from_utf8_lossy(&version.stdout).trim().to_owned())
}

fn machine() -> String {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    format!("{cores} cores, {} {}", env::consts::ARCH, env::consts::OS)
}

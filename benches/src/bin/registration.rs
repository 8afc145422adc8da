//! What registration costs: rebuilds, start-up and size of a thousand annotated kernels beside the same
//! by hand, and how often an image of sixty kernels is in the program.
//!
//! `cargo run --release -p benches --bin registration` takes some minutes; `-- --quick` repeats less.

use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::{env, thread};

use benches::Result;
use benches::registration::image::{self, Copies};
use benches::registration::rebuild::{Builds, Edit};
use benches::registration::startup::{self, INSTRUCTION, Task};
use benches::registration::{Each, KERNELS, MODULES, crates};
use benches::verdict::{self, Requirement};
use benches::workshop::{Package, Profile, Workshop};

/// How often things are measured.
struct Effort {
    pairs: usize,
    runs: usize,
}

fn main() -> ExitCode {
    let effort = match env::args().skip(1).collect::<Vec<_>>().as_slice() {
        [] => Effort { pairs: 7, runs: 600 },
        [quick] if quick == "--quick" => Effort { pairs: 3, runs: 120 },
        _ => {
            eprintln!("usage: registration [--quick]");
            return ExitCode::from(2);
        }
    };
    match measure(&effort) {
        Ok(requirements) if verdict::conclude(&requirements) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn measure(effort: &Effort) -> Result<Vec<Requirement>> {
    let workshop = Workshop::open("registration")?;
    let crates = crates::compared(&workshop)?;
    println!(
        "{KERNELS} kernels in {MODULES} modules, under `#[gpu_kernel]` and by hand under `inventory::submit!`"
    );
    println!("{}, {}", compiler()?, machine());

    let mut requirements = rebuilds(&crates, effort)?;
    sizes(&crates)?;
    requirements.push(startup(&crates, effort)?);
    requirements.push(copies(&workshop)?);
    Ok(requirements)
}

/// Prints the times of builds. The debug ones after an edit have a bound, the others are for the record.
fn rebuilds(crates: &Each<Package>, effort: &Effort) -> Result<Vec<Requirement>> {
    let Effort { pairs, .. } = *effort;
    println!("\nseconds of `cargo build`, medians of {pairs} pairs, annotated and by hand in turn");
    println!("{:42} {:>9}  {:>7}  {:>5}", "", "ANNOTATED", "BY HAND", "RATIO");
    let print = |what: &str, builds: &Builds| {
        let (annotated, bare) = (builds.annotated.median(), builds.bare.median());
        println!("{what:42} {annotated:9.2}  {bare:7.2}  {:5.2}", builds.ratio());
    };
    let bounded = |what: &str, builds: &Builds| Requirement::at_most(what, builds.ratio(), 2.0, "times");

    let first = Builds::first(crates)?;
    print("debug, first build (once)", &first);
    let main = Builds::after(Edit::Main, crates, Profile::Debug, pairs)?;
    print("debug, after an edit in main.rs", &main);
    let module = Builds::after(Edit::Module, crates, Profile::Debug, pairs)?;
    print("debug, after an edit above 50 kernels", &module);
    let release = Builds::after(Edit::Main, crates, Profile::Release, pairs.div_ceil(3))?;
    print("release, after an edit in main.rs (fewer)", &release);

    Ok(vec![
        bounded("debug rebuild after an edit in main.rs", &main),
        bounded("debug rebuild after an edit above 50 kernels", &module),
    ])
}

/// Prints the sizes of the programs, which have no bound.
fn sizes(crates: &Each<Package>) -> Result<()> {
    println!("\nbytes of the program");
    println!(
        "{:18} {:>9}  {:>9}  {:>9}  A KERNEL: {:>9}  {:>7}",
        "", "ANNOTATED", "BY HAND", "NONE", "ANNOTATED", "BY HAND"
    );
    for (what, profile) in
        [("debug", Profile::Debug), ("release", Profile::Release), ("release, stripped", Profile::Stripped)]
    {
        let sizes = crates.try_map(|package| {
            package.build(profile)?;
            package.size(profile)
        })?;
        let [annotated, bare] = sizes.map(|bytes| *bytes as f64).a_kernel();
        let Each { annotated: a, bare: b, none: n } = sizes;
        println!("{what:18} {a:9}  {b:9}  {n:9}            {annotated:9.0}  {bare:7.0}");
    }
    Ok(())
}

/// Prints the costs of start-up and of the first call of `kernels()`, of release builds.
fn startup(crates: &Each<Package>, effort: &Effort) -> Result<Requirement> {
    let Effort { runs, .. } = *effort;
    let programs: Each<PathBuf> = crates.map(|package| package.program(Profile::Release));
    println!("\nstart-up a kernel, above a program without kernels; medians of {runs} runs of each");
    println!("{:42} {:>9}  {:>7}", "", "ANNOTATED", "BY HAND");
    let print = |what: &str, [annotated, bare]: [f64; 2], note: &str| {
        println!("{what:42} {annotated:9.0}  {bare:7.0}  {note}");
    };

    let idle = startup::times(&programs, Task::Idle, runs)?;
    let count = startup::times(&programs, Task::Count, runs)?;
    let ([_, _], uncertainty) = startup::nanoseconds(&idle);
    let (before, after) = (startup::nanoseconds(&idle).0, startup::nanoseconds(&count).0);
    let note = format!("give or take {:.0}", 2.0 * uncertainty);
    print("nanoseconds before `main`", before, &note);
    print("nanoseconds in the first `kernels()`", difference(after, before), &note);

    let instructions = startup::instructions(&programs, Task::Idle)?;
    match (&instructions, startup::instructions(&programs, Task::Count)?) {
        (Some(idle), Some(count)) => {
            let (before, after) = (idle.a_kernel(), count.a_kernel());
            print("instructions before `main`", before, &format!("at {INSTRUCTION} ns each where it counts"));
            print("instructions in the first `kernels()`", difference(after, before), "");
        }
        _ => println!("INSTRUCTIONS NOT COUNTED: there is no valgrind here, so that noise may decide"),
    }
    Ok(startup::requirement(&idle, instructions.as_ref(), 100.0))
}

/// Prints how often the large image is in the debug program.
fn copies(workshop: &Workshop) -> Result<Requirement> {
    let copies = Copies::count(workshop, Profile::Debug)?;
    println!("\n{} kernels in as many modules, of one image of {} bytes", image::KERNELS, image::LENGTH);
    println!("the debug program has {} bytes, and the image {} times", copies.program, copies.count);
    Ok(Requirement::exactly("image of sixty kernels in the debug program", copies.count, 1, "times"))
}

fn difference(after: [f64; 2], before: [f64; 2]) -> [f64; 2] {
    [after[0] - before[0], after[1] - before[1]]
}

fn compiler() -> Result<String> {
    let version = Command::new(env::var_os("RUSTC").unwrap_or("rustc".into())).arg("--version").output()?;
    Ok(String::from_utf8_lossy(&version.stdout).trim().to_owned())
}

fn machine() -> String {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    format!("{cores} cores, {} {}", env::consts::ARCH, env::consts::OS)
}

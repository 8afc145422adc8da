//! Measures the time that the audit's hooks add to a launch of a loaded kernel, with a driver that does
//! nothing. The hooks are part of the process, or `cargo kernels audit` loads them from a library. Also
//! measures the time that a section adds to calls that it lets pass.
//!
//! Run `cargo run --release -p benches --bin audit`. On a machine without cargo, add
//! `--command PATH/TO/kernel-audit`. The program needs `cc`. If `valgrind` is installed, it also counts
//! instructions, whose number doesn't depend on the machine.

use std::env;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::hint::black_box;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::ptr;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use benches::Result;
use benches::child::Child;
use benches::sample::Sample;
use benches::stub::Stub;
use benches::verdict::{self, Requirement};

/// Pairs of measurements in each thread, and launches in a measurement.
const ROUNDS: usize = 4_000;
const LAUNCHES: u32 = 1000;

/// How many launches two counts of instructions are apart.
const COUNTED: u32 = 100_000;

/// The most instructions that hooks may add to a launch.
const BOUND_OF_INSTRUCTIONS: f64 = 175.0;

/// The most nanoseconds that they may add. The same instructions take 7 to 35 ns, depending on the processor.
const BOUND: f64 = 60.0;

/// The most nanoseconds that a section may add to a call. A free asks the driver about the memory, which
/// takes 36 to 105 ns, depending on the processor.
const BOUND_IN_SECTION: f64 = 200.0;

/// The calls to measure in a section, and outside of it.
const CALLS_IN_SECTION: [&str; 3] =
    ["launch", "launch whose stream has the same bit", "cuMemFree of memory of a pool"];

/// The cases: a name, the number of threads that launch, and whether all launch in the default stream.
const CASES: [(&str, usize, bool); 3] = [
    ("one thread", 1, false),
    ("four threads, a stream each", 4, false),
    ("four threads, the default stream", 4, true),
];

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        [] => verdict::end(compare(None)),
        ["--command", command] => verdict::end(compare(Some(command))),
        // These arguments are for child processes.
        ["measure", driver] => verdict::exit_code(measure(Path::new(driver))),
        ["count", driver, which, launches] => {
            verdict::exit_code(count(Path::new(driver), *which == "hooked", launches))
        }
        _ => verdict::exit_code(Err("usage: audit [--command PATH/TO/kernel-audit]".into())),
    }
}

/// Compares calls with and without the hooks. Cargo builds the command, unless a `kernel-audit` is given.
fn compare(command: Option<&str>) -> Result<Vec<Requirement>> {
    let stub = Stub::build()?;
    let driver = stub.library();
    let driver = driver.to_str().ok_or("the temporary folder's name is not UTF-8")?;
    let program = env::current_exe()?;
    let program = program.to_str().ok_or("this program's name is not UTF-8")?;
    let run = |words: &[&str]| -> Result<String> {
        let child = Child::new(Path::new(words[0])).env("LD_LIBRARY_PATH", stub.folder());
        words[1..].iter().fold(child, |child, word| child.arg(word)).output(Duration::from_secs(600))
    };
    let cargo = env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let built = [
        &*cargo,
        "run",
        "--quiet",
        "--release",
        "--package",
        "cargo-kernels",
        "--",
        "kernels",
        "audit",
        "--",
    ];
    let outside = command.map_or(built.to_vec(), |command| vec![command, "--"]);
    let has_valgrind = Command::new("valgrind").arg("--version").output().is_ok();

    let mut requirements = Vec::new();
    for (title, way) in [("IN PROCESS", &[][..]), ("FROM OUTSIDE", &outside)] {
        let text = run(&[way, &[program, "measure", driver]].concat())?;
        let numbers: Vec<f64> =
            text.split_whitespace().map(str::parse).collect::<std::result::Result<_, _>>()?;
        println!("\n{title:36} {:>10} {:>10} {:>10}", "BARE, NS", "HOOKED, NS", "RATIO");
        let (launches, calls) =
            numbers.split_at_checked(2 * CASES.len()).ok_or("a child printed too little")?;
        for ((case, ..), pair) in CASES.iter().zip(launches.chunks(2)) {
            let [bare, hooked] = pair else { return Err("a child printed too little".into()) };
            println!("{case:36} {bare:10.2} {hooked:10.2} {:10.2}", hooked / bare);
            let what = format!("{}, {case}: added to a launch", title.to_lowercase());
            requirements.push(Requirement::at_most(what, hooked - bare, BOUND, "ns"));
        }
        println!("{:36} {:>10} {:>10}", "", "OUTSIDE", "IN SECTION");
        for (call, pair) in CALLS_IN_SECTION.iter().zip(calls.chunks(2)) {
            let [outside, inside] = pair else { return Err("a child printed too little".into()) };
            println!("{call:36} {outside:10.2} {inside:10.2} {:10.2}", inside / outside);
            let what = format!("{}, {call}: added by a section", title.to_lowercase());
            requirements.push(Requirement::at_most(what, inside - outside, BOUND_IN_SECTION, "ns"));
        }
        if has_valgrind {
            let valgrind = ["valgrind", "--tool=lackey", "--basic-counts=yes", "--log-fd=1"];
            let instructions = |which, launches: u32| -> Result<f64> {
                let launches = launches.to_string();
                guest_instructions(&run(&[
                    way,
                    &valgrind[..],
                    &[program, "count", driver, which, &launches],
                ]
                .concat())?)
            };
            let of_launch = |which| -> Result<f64> {
                Ok((instructions(which, 2 * COUNTED)? - instructions(which, COUNTED)?) / f64::from(COUNTED))
            };
            let (bare, hooked) = (of_launch("bare")?, of_launch("hooked")?);
            println!("{:36} {bare:10.1} {hooked:10.1}", "instructions");
            let what = format!("{}, a launch: instructions added", title.to_lowercase());
            requirements.push(Requirement::at_most(what, hooked - bare, BOUND_OF_INSTRUCTIONS, ""));
        }
    }
    Ok(requirements)
}

/// Returns the number of instructions in valgrind's text.
fn guest_instructions(text: &str) -> Result<f64> {
    // valgrind also prints the count of a forked child, but that ends first.
    let line = text.lines().rfind(|line| line.contains("guest instrs:"));
    let number = line.and_then(|line| line.rsplit(':').next()).ok_or("valgrind counted nothing")?;
    Ok(number.trim().replace(',', "").parse()?)
}

type Launch = unsafe extern "C" fn(
    *mut c_void,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    *mut c_void,
    *mut *mut c_void,
    *mut *mut c_void,
) -> c_int;

/// The name that programs open.
const FRONT: &CStr = c"libcuda.so.1";

/// Returns a function of a library.
///
/// # Safety
///
/// `F` is the function's type.
unsafe fn find<F: Copy>(library: &CStr, name: &CStr) -> Result<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: the library has no initialisers, or the initialisers of the audit; the names end with zeros.
    let address = unsafe {
        let handle = libc::dlopen(library.as_ptr(), libc::RTLD_NOW);
        if handle.is_null() { handle } else { libc::dlsym(handle, name.as_ptr()) }
    };
    if address.is_null() {
        return Err(format!("no {name:?} in {library:?}").into());
    }
    // SAFETY: the caller's promise, and both are one pointer wide.
    Ok(unsafe { std::mem::transmute_copy(&address) })
}

/// Returns `cuLaunchKernel` of the driver that does nothing, and the one that programs find.
fn launches(driver: &Path) -> Result<[Launch; 2]> {
    kernel_audit::install()?;
    let driver = CString::new(driver.to_str().ok_or("not UTF-8")?)?;
    // SAFETY: this is the type of the function of that name.
    let find = |library| unsafe { find::<Launch>(library, c"cuLaunchKernel") };
    let found = [find(&driver)?, find(FRONT)?];
    if found[0] as usize == found[1] as usize { Err("there are no hooks".into()) } else { Ok(found) }
}

/// Makes this many launches.
fn repeat(launch: Launch, stream: usize, launches: u32) {
    let (kernel, stream) = (ptr::without_provenance_mut(0x4000), ptr::without_provenance_mut(stream));
    for _ in 0..launches {
        // SAFETY: the driver does nothing.
        black_box(unsafe { launch(kernel, 1, 1, 1, 1, 1, 1, 0, stream, ptr::null_mut(), ptr::null_mut()) });
    }
}

/// Prints the nanoseconds of a launch, bare and hooked, in each case.
fn measure(driver: &Path) -> Result<bool> {
    let launches = launches(driver)?;
    for (_, threads, is_default) in CASES {
        let begin = Barrier::new(threads);
        let times = thread::scope(|scope| {
            let thread = |number: usize| {
                let begin = &begin;
                scope.spawn(move || {
                    let stream = if is_default { 0 } else { 0x10000 + 0x100 * number };
                    begin.wait();
                    pairs(launches, stream)
                })
            };
            let threads: Vec<_> = (0..threads).map(thread).collect();
            threads.into_iter().filter_map(|thread| thread.join().ok()).flatten().collect::<Vec<_>>()
        });
        print_medians(&times);
    }
    measure_section(launches[1])
}

/// Prints the nanoseconds of each call, outside of a section and in one.
fn measure_section(launch: Launch) -> Result<bool> {
    type Begin = unsafe extern "C" fn(*const c_char, *mut c_void, *mut c_void, c_uint) -> u64;
    type End = extern "C" fn(u64) -> u64;
    type Free = unsafe extern "C" fn(u64) -> c_int;
    // SAFETY: these are the types of the functions of these names.
    let (begin, end, free) = unsafe {
        (
            find::<Begin>(FRONT, c"kernel_registry_audit_section_begin")?,
            find::<End>(FRONT, c"kernel_registry_audit_section_end")?,
            find::<Free>(FRONT, c"cuMemFree_v2")?,
        )
    };
    let free = || {
        for address in 0..u64::from(LAUNCHES) {
            // SAFETY: the driver does nothing.
            black_box(unsafe { free(address) });
        }
    };
    // Each stream sets one of 64 bits. The hooks take a slow path for launches whose stream sets the bit of
    // the section's stream, as 0x91800 does for 0x10000.
    let calls: [(usize, &dyn Fn()); CALLS_IN_SECTION.len()] = [
        (0x90000, &|| repeat(launch, 0x10000, LAUNCHES)),
        (0x91800, &|| repeat(launch, 0x10000, LAUNCHES)),
        (0x90000, &free),
    ];
    for (stream, call) in calls {
        let time = || {
            let begun = Instant::now();
            call();
            begun.elapsed()
        };
        let pair = |_| -> Result<[Duration; 2]> {
            let outside = time();
            // SAFETY: the name ends with a zero.
            let section =
                unsafe { begin(c"worker".as_ptr(), ptr::null_mut(), ptr::without_provenance_mut(stream), 0) };
            if section == 0 {
                return Err("the audit did not begin a section".into());
            }
            let inside = time();
            end(section);
            Ok([outside, inside])
        };
        print_medians(&(0..ROUNDS / 4).map(pair).collect::<Result<Vec<_>>>()?);
    }
    Ok(true)
}

/// Prints the medians of both times, in nanoseconds for a call.
fn print_medians(times: &[[Duration; 2]]) {
    for which in [0, 1] {
        let mut sample = Sample::default();
        times.iter().for_each(|pair| sample.push(pair[which]));
        println!("{}", sample.median() * 1e9 / f64::from(LAUNCHES));
    }
}

/// Measures both launches, one after the other.
fn pairs(launches: [Launch; 2], stream: usize) -> Vec<[Duration; 2]> {
    let time = |launch| {
        let begun = Instant::now();
        repeat(launch, stream, LAUNCHES);
        begun.elapsed()
    };
    (0..ROUNDS).map(|_| launches.map(time)).collect()
}

/// Makes this many launches. valgrind counts their instructions.
fn count(driver: &Path, is_hooked: bool, number: &str) -> Result<bool> {
    let launches = launches(driver)?;
    repeat(launches[usize::from(is_hooked)], 0x10000, number.parse()?);
    Ok(true)
}

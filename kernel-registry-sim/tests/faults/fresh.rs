//! Tests faults in calls that a process makes only once, to find the driver and to load images. Each fault is injected
//! in a child process, which runs this test executable again.

use std::env;
use std::error::Error;
use std::thread;

use kernel_registry_sim::{Config, record_calls};

use super::expected::{Case, RESULTS, said};
use super::{child, program};

/// The environment variable with the fault of the child process, such as `cuInit 1 801`.
const VARIABLE: &str = "FAULT_OF_A_FRESH_PROCESS";

/// The functions that a process calls only in its first run of the program.
const ONCE: [&str; 4] = ["cuDriverGetVersion", "cuInit", "cuGetProcAddress_v2", "cuLibraryLoadData"];

fn start(case: &str) -> String {
    child::run("fresh::a_fresh_process", &[(VARIABLE, case)])
}

#[test]
fn every_call_that_a_process_makes_once_fails() {
    let words = start("");
    let calls = |name: &str| words.lines().filter(|line| *line == format!("called {name}")).count();
    let calls = ONCE.map(|name| (name, calls(name)));
    assert!(calls.iter().all(|(_, count)| *count > 0), "{calls:?}");

    let mut cases = Vec::new();
    for (call, count) in calls {
        for number in 0..=count {
            cases.extend(RESULTS.map(|(result, _)| format!("{call} {number} {result}")));
        }
    }
    // Two child processes run at once, because each waits for its threads much of the time.
    thread::scope(|scope| {
        for some in cases.chunks(cases.len().div_ceil(2)) {
            scope.spawn(move || some.iter().for_each(|case| drop(start(case))));
        }
    });
}

#[test]
#[ignore = "a part of `every_call_that_a_process_makes_once_fails`, which starts it with a fault"]
fn a_fresh_process() -> Result<(), Box<dyn Error>> {
    let fault = env::var(VARIABLE)?;
    if fault.is_empty() { show_calls() } else { fail_once(&fault) }
}

fn show_calls() -> Result<(), Box<dyn Error>> {
    Config::default().contained(true).install()?;
    let recording = record_calls();
    program::run()?;
    recording.calls().iter().for_each(|call| println!("called {}", call.name));
    Ok(())
}

fn fail_once(fault: &str) -> Result<(), Box<dyn Error>> {
    let words: Vec<_> = fault.split(' ').collect();
    let &[call, number, result] = words.as_slice() else { return Err("no fault".into()) };
    let call = ONCE.into_iter().find(|once| *once == call).ok_or("no such call")?;
    let (number, result) = (number.parse()?, result.parse()?);
    let (_, name) = RESULTS.into_iter().find(|(known, _)| *known == result).ok_or("no such result")?;
    let case = Case { call, number, result, name };
    Config::default().contained(true).install()?;
    match case.during(program::run)? {
        Err(error) if case.is_named_in(&said(&*error)) => {}
        Err(error) => return Err(format!("the error is {}", said(&*error)).into()),
        Ok(()) if case.is_tolerated() => {}
        Ok(()) => return Err("it is no error".into()),
    }
    program::run().map_err(|error| format!("trying again: {error}").into())
}

//! Tests that no argument of a driver function crashes or hangs the process: null, invalid pointers, destroyed handles,
//! absurd numbers.
//!
//! The calls are made in child processes. A child prints the name of each function before calling it, so the output of
//! a crash names the function.

mod bad;
#[path = "../device/mod.rs"]
mod device;
mod driver;
mod random;
mod signatures;
mod world;

use std::collections::{BTreeSet, VecDeque};
use std::env;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::thread;

use device::ok;
use signatures::{Argument, Function, Kind};
use world::World;

const CHILD: &str = "ARGUMENTS_TEST_IS_CHILD";

/// Runs the test of this name in a child process, which must succeed. In that child, returns `true` at once.
fn is_child(test: &str) -> bool {
    if env::var_os(CHILD).is_some() {
        // SAFETY: the alarm ends the process if it hangs.
        unsafe { libc::alarm(900) };
        return true;
    }
    let mut child = Command::new(env::current_exe().unwrap());
    child.args(["--exact", test, "--nocapture"]).env(CHILD, "1");
    let mut child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let words = child.stderr.take().unwrap();
    let words = thread::spawn(|| last_lines(words));
    let calls = last_lines(child.stdout.take().unwrap());
    let (status, words) = (child.wait().unwrap(), words.join().unwrap());
    assert!(status.success(), "{status} after\n{calls}\nand\n{words}");
    false
}

fn last_lines(from: impl Read) -> String {
    let mut last = VecDeque::new();
    for line in BufReader::new(from).lines() {
        last.push_back(line.unwrap());
        if last.len() > 12 {
            last.pop_front();
        }
    }
    last.make_contiguous().join("\n")
}

/// Returns whether the function must fail if this argument is an invalid address.
fn must_be_valid(function: &Function, argument: &Argument) -> bool {
    match argument.kind {
        _ if !argument.is_used => false,
        Kind::Out | Kind::Name | Kind::Image | Kind::Arguments | Kind::Packed | Kind::HostFunction => true,
        // Other `In` arguments are arrays of options or affinities, which are empty here.
        Kind::In => function.name == "cuLaunchKernelEx",
        Kind::Handle | Kind::Size | Kind::Number => false,
    }
}

/// Undoes the effect of a call. A failed call had no effect, except that it may have broken the context or a capture.
fn undo(world: &mut World, function: &Function, words: &[usize], code: u32) {
    if code == 0 && function.name.starts_with("cuCtxCreate") {
        ok("cuCtxDestroy_v2", &[World::handle_at(words[0])]);
    }
    if code == 0 || !world.is_whole() {
        world.renew();
    }
}

#[test]
fn every_argument_of_every_function() {
    if !is_child("every_argument_of_every_function") {
        return;
    }
    driver::install();
    let nowhere = bad::Addresses::new();
    let mut world = World::new();
    let (mut calls, mut succeeded) = (0, BTreeSet::new());
    for function in signatures::simulated() {
        let words = world.valid(&function);
        let code = driver::call(&function.name, &words);
        if code == 0 {
            succeeded.insert(function.name.clone());
        }
        undo(&mut world, &function, &words, code);
        for (index, argument) in function.arguments.iter().enumerate() {
            for bad in bad::values(&argument.kind, &nowhere, &world) {
                let mut words = world.valid(&function);
                words[index] = bad;
                let code = driver::call(&function.name, &words);
                let name = &function.name;
                assert!(driver::knows(code), "{name} returned {code}");
                if must_be_valid(&function, argument) && nowhere.all().contains(&bad) {
                    assert_ne!(code, 0, "{name} with {bad:#x} for its `{}`", argument.name);
                }
                undo(&mut world, &function, &words, code);
                calls += 1;
            }
        }
    }
    for name in signatures::lacking() {
        for bad in nowhere.all().into_iter().chain([0, usize::MAX]) {
            assert_eq!(driver::call(&name, &[bad; 11]), device::NOT_SUPPORTED, "{name}");
        }
    }
    // If few functions succeeded, the arguments that should be valid would not be.
    assert!(succeeded.len() > 120, "only {} functions succeed: {succeeded:?}", succeeded.len());
    assert!(calls > 2000, "{calls}");
}

#[test]
fn every_word_of_every_structure() {
    if !is_child("every_word_of_every_structure") {
        return;
    }
    driver::install();
    let nowhere = bad::Addresses::new();
    let mut world = World::new();
    for function in signatures::simulated() {
        let structures = function.arguments.iter().enumerate();
        let structures = structures.filter(|(_, argument)| {
            argument.is_used && (argument.kind == Kind::In || argument.name == "parameters")
        });
        for (index, argument) in structures {
            let words = world.structure(&function.name).len();
            let mut refused = 0;
            for word in 0..words.max(8) {
                for bad in nowhere.all().into_iter().chain([0, 1 << 40]) {
                    let words = world.valid(&function);
                    world.spoil(index, word, bad);
                    let code = driver::call(&function.name, &words);
                    assert!(driver::knows(code), "{} returned {code}", function.name);
                    undo(&mut world, &function, &words, code);
                    refused += usize::from(code != 0);
                }
            }
            // A structure that is read must be refused for some bad word.
            let is_read = words > 0 && argument.kind == Kind::In;
            assert!(refused > 0 || !is_read, "{} takes anything", function.name);
        }
    }
}

/// Makes random calls. To make more of them: `ARGUMENTS_TEST_CALLS=10000000 ARGUMENTS_TEST_SEED=1 cargo test -p
/// kernel-registry-sim --test arguments`.
#[test]
fn random_calls() {
    if is_child("random_calls") {
        let number = |name, otherwise| env::var(name).map_or(otherwise, |text| text.parse().unwrap());
        random::run(number("ARGUMENTS_TEST_SEED", 7) as u64, number("ARGUMENTS_TEST_CALLS", 30_000));
    }
}

//! Defines the driver's functions under their real names, a file for each group, and finds a function by its name.
//!
//! Pointer arguments have types of [`arguments`](super::caller::arguments), which read and write the caller's memory
//! safely. Other arguments are numbers.

// The names are NVIDIA's.
#![allow(non_snake_case)]

#[macro_use]
mod entry;

mod capture;
mod context;
mod device;
mod event;
mod graph;
mod green;
mod information;
mod lacking;
mod launch;
mod load;
mod memory;
mod occupancy;
mod stream;

use crate::driver::state::explore::hosts;
use entry::Entry;

use super::caller::arguments::{Name, Out};
use super::names::is_called;
use super::result::Code;
use super::state::simulator::Simulator;

/// Returns the functions of the driver, each with the first version of CUDA that has it, such as (12, 4).
///
/// ```
/// assert!(kernel_registry_sim::functions().any(|function| function == ("cuFuncIsLoaded", (12, 4))));
/// ```
pub fn functions() -> impl Iterator<Item = (&'static str, (u32, u32))> {
    let version = |since: i32| (since.unsigned_abs() / 1000, since.unsigned_abs() % 1000 / 10);
    entries().map(move |entry| (entry.name, version(entry.since)))
}

/// Returns all functions, including those that are not simulated.
pub(crate) fn entries() -> impl Iterator<Item = &'static Entry> {
    let simulated = [
        ALL,
        information::ALL,
        device::ALL,
        context::ALL,
        stream::ALL,
        event::ALL,
        memory::allocate::ALL,
        memory::managed::ALL,
        memory::pools::ALL,
        memory::pointer::ALL,
        memory::copy::ALL,
        memory::fill::ALL,
        load::module::ALL,
        load::library::ALL,
        load::link::ALL,
        launch::ALL,
        occupancy::ALL,
        capture::ALL,
        graph::ALL,
        green::ALL,
    ];
    simulated.into_iter().flatten().chain(lacking::ALL)
}

/// Finds a function by its name, as of this version of CUDA. If several functions differ only by a suffix such as `_v2`
/// or `_v3`, the newest one that this version has is returned.
fn find(name: &str, version: i32) -> Option<&'static Entry> {
    let is_it = |entry: &&Entry| is_called(entry.name, name) && entry.since <= version;
    entries().filter(is_it).max_by_key(|entry| (entry.name.len(), entry.name))
}

// `cuGetProcAddress` searches the table of all functions, so it's defined next to the table.
calls! {
    11030 fn cuGetProcAddress(name: Name, function: Out<*const ()>, version: i32, _flags: u64) = {
        let newest = Simulator::get().version;
        let found = find(&name.get()?, version.min(newest));
        function.set(found.map_or(std::ptr::null(), |entry| entry.address))?;
        found.map(|_| ()).ok_or(Code::NOT_FOUND)
    };

    12000 fn cuGetProcAddress_v2(name: Name, function: Out<*const ()>, version: i32, _flags: u64, status: Out<u32>) = {
        let newest = Simulator::get().version;
        let name = name.get()?;
        if name == hosts::STEP {
            return function.set(hosts::step as *const ());
        }
        let found = find(&name, version.min(newest));
        const FOUND: u32 = 0;
        const NOT_FOUND: u32 = 1;
        const TOO_OLD: u32 = 2;
        let otherwise = if find(&name, newest).is_some() { TOO_OLD } else { NOT_FOUND };
        status.set_if_wanted(found.map_or(otherwise, |_| FOUND))?;
        function.set(found.map_or(std::ptr::null(), |entry| entry.address))?;
        found.map(|_| ()).ok_or(Code::NOT_FOUND)
    };
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::driver::state::context_lock::{PASS, TAKE_IT, takes_it};

    #[test]
    fn every_function_is_listed_once() {
        let mut names = BTreeSet::new();
        for entry in entries() {
            assert!(names.insert(entry.name), "{} is there twice", entry.name);
        }
        assert!(names.len() > 400, "{}", names.len());
    }

    /// `functions-13.0.txt` is from `cudaTypedefs.h` of CUDA 13.0, in which the names of types contain versions.
    #[test]
    fn every_function_has_the_version_of_nvidias_header() {
        let listed = include_str!("../../tests/functions-13.0.txt").lines().map(|line| {
            let (since, name) = line.split_once(' ').expect("a version and a name");
            (name, since.parse::<i32>().expect("a number"))
        });
        let listed: BTreeMap<_, _> = listed.collect();
        // The header lacks some functions that the driver keeps for old programs, and the functions of
        // `cudaProfiler.h`.
        const NOT_IN_HEADER: [&str; 5] = [
            "cuGraphInstantiate",
            "cuStreamBeginCapture",
            "cuProfilerInitialize",
            "cuProfilerStart",
            "cuProfilerStop",
        ];
        let simulated =
            entries().filter(|entry| entry.since <= 13_000 && !NOT_IN_HEADER.contains(&entry.name));
        let simulated: BTreeMap<_, _> = simulated.map(|entry| (entry.name, entry.since)).collect();
        for (name, since) in &listed {
            assert_eq!(simulated.get(name), Some(since), "{name}");
        }
        for (name, since) in &simulated {
            assert_eq!(listed.get(name), Some(since), "{name}");
        }
    }

    /// Every function rejects or ignores null pointers: before `cuInit`, after it, and with a current context.
    #[test]
    fn no_function_dereferences_null() {
        type Function =
            extern "C" fn(usize, usize, usize, usize, usize, usize, usize, usize, usize, usize, usize) -> u32;
        let called_with = |entry: &Entry, argument| {
            // SAFETY: each function takes at most 11 arguments, which are numbers and pointers, and ignores further
            // arguments. `argument` is null, a handle, or the address of `context`.
            let function: Function = unsafe { std::mem::transmute(entry.address) };
            function(argument, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
        };
        let called = |entry| called_with(entry, 0);
        let named = |name| find(name, i32::MAX).expect("it is there");
        for entry in entries().filter(|entry| entry.name != "cuInit") {
            assert_ne!(called(entry), 0, "{}", entry.name);
        }
        assert_eq!(called(named("cuInit")), 0);
        let mut context = 0_usize;
        let address = (&raw mut context).expose_provenance();
        assert_eq!(called_with(named("cuDevicePrimaryCtxRetain"), address), 0);
        assert_eq!(called_with(named("cuCtxSetCurrent"), context), 0);
        let codes: BTreeSet<_> = entries().map(called).collect();
        assert!(codes.contains(&INVALID_VALUE) && codes.contains(&INVALID_HANDLE), "{codes:?}");
    }

    const INVALID_VALUE: u32 = 1;
    const INVALID_HANDLE: u32 = 400;

    #[test]
    fn a_program_finds_the_functions_of_its_cuda_version() {
        let name = |name, version| find(name, version).map(|entry| entry.name);
        assert_eq!(name("cuMemAlloc", 12_000), Some("cuMemAlloc_v2"));
        assert_eq!(name("cuFuncLoad", 12_030), None);
        assert_eq!(name("cuFuncLoad", 12_040), Some("cuFuncLoad"));
        assert_eq!(name("cuCtxCreate", 12_000), Some("cuCtxCreate_v3"));
        assert_eq!(name("cuCtxCreate", 13_000), Some("cuCtxCreate_v4"));
        assert_eq!(name("cuGetProcAddress", 12_000), Some("cuGetProcAddress_v2"));
        assert_eq!(name("cuNothing", 13_000), None);
    }

    #[test]
    fn every_family_that_takes_the_lock_of_a_load_exists() {
        let names: Vec<_> = entries().map(|entry| entry.name).collect();
        for family in TAKE_IT {
            assert!(names.iter().any(|name| name.starts_with(family)), "{family}");
        }
        for name in PASS {
            assert!(names.iter().any(|function| is_called(function, name)), "{name}");
        }
        assert!(
            takes_it("cuMemAlloc_v2") && takes_it("cuMemcpyHtoDAsync_v2") && !takes_it("cuMemAllocAsync")
        );
    }
}

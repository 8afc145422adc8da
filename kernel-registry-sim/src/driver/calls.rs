//! The functions of the driver under their real names, a file for each group.
//!
//! Pointers among the arguments have types of [`abi`](super::abi), which reads and writes through them. The others are numbers.

// The names are NVIDIA's.
#![allow(non_snake_case)]

/// Defines `extern "C"` functions and a list of them. Each begins with the first version of CUDA that has it; its body is
/// an [`Answer`](super::result::Answer).
macro_rules! calls {
    ($($since:literal fn $name:ident($($argument:ident: $type:ty),* $(,)?) = $body:expr;)*) => {
        $(#[cfg_attr(feature = "export", unsafe(no_mangle))]
        extern "C" fn $name($($argument: $type),*) -> $crate::driver::result::Code {
            $crate::driver::hooks::called(stringify!($name), || -> $crate::driver::result::Answer { $body })
        })*
        pub(super) const ALL: &[$crate::driver::calls::Entry] =
            &[$($crate::driver::calls::Entry { name: stringify!($name), since: $since, address: $name as *const () }),*];
    };
}

mod capture;
mod context;
mod copy;
mod device;
mod event;
mod fill;
mod graph;
mod green;
mod information;
mod lacking;
mod launch;
mod library;
mod link;
mod managed;
mod memory;
mod module;
mod occupancy;
mod pointer;
mod pool;
mod ranges;
mod stream;

use super::names::is_called;

/// A function of the driver.
pub(super) struct Entry {
    pub(super) name: &'static str,
    /// The first version of CUDA that has it, such as 12040.
    pub(super) since: i32,
    pub(super) address: *const (),
}

/// The functions of the driver, each with the first version of CUDA that has it, such as (12, 4).
///
/// ```
/// assert!(kernel_registry_sim::functions().any(|function| function == ("cuFuncIsLoaded", (12, 4))));
/// ```
pub fn functions() -> impl Iterator<Item = (&'static str, (u32, u32))> {
    let version = |since: i32| (since.unsigned_abs() / 1000, since.unsigned_abs() % 1000 / 10);
    all().map(move |entry| (entry.name, version(entry.since)))
}

pub(super) fn all() -> impl Iterator<Item = &'static Entry> {
    let simulated = [
        information::ALL,
        device::ALL,
        context::ALL,
        stream::ALL,
        event::ALL,
        memory::ALL,
        managed::ALL,
        pool::ALL,
        ranges::ALL,
        pointer::ALL,
        copy::ALL,
        fill::ALL,
        module::ALL,
        library::ALL,
        link::ALL,
        launch::ALL,
        occupancy::ALL,
        capture::ALL,
        graph::ALL,
        green::ALL,
    ];
    simulated.into_iter().flatten().chain(lacking::ALL)
}

/// The function of a name in this version of CUDA. If several differ only by a suffix such as `_v2` or `_v3`, it is the newest
/// one of that version.
fn find(name: &str, version: i32) -> Option<&'static Entry> {
    let is_it = |entry: &&Entry| is_called(entry.name, name) && entry.since <= version;
    all().filter(is_it).max_by_key(|entry| (entry.name.len(), entry.name))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    #[test]
    fn every_function_is_there_once() {
        let mut names = BTreeSet::new();
        for entry in all() {
            assert!(names.insert(entry.name), "{} is there twice", entry.name);
        }
        assert!(names.len() > 400, "{}", names.len());
    }

    /// The list is from `cudaTypedefs.h` of CUDA 13.0, whose types have the versions in their names.
    #[test]
    fn every_function_is_as_old_as_nvidias_header_says() {
        let listed = include_str!("../../tests/functions-13.0.txt").lines().map(|line| {
            let (since, name) = line.split_once(' ').expect("a version and a name");
            (name, since.parse::<i32>().expect("a number"))
        });
        let listed: BTreeMap<_, _> = listed.collect();
        // Functions that the driver keeps for old programs, and functions of `cudaProfiler.h`.
        const BESIDE: [&str; 5] = [
            "cuGraphInstantiate",
            "cuStreamBeginCapture",
            "cuProfilerInitialize",
            "cuProfilerStart",
            "cuProfilerStop",
        ];
        let simulated = all().filter(|entry| entry.since <= 13_000 && !BESIDE.contains(&entry.name));
        let simulated: BTreeMap<_, _> = simulated.map(|entry| (entry.name, entry.since)).collect();
        for (name, since) in &listed {
            assert_eq!(simulated.get(name), Some(since), "{name}");
        }
        for (name, since) in &simulated {
            assert_eq!(listed.get(name), Some(since), "{name}");
        }
    }

    /// Every function rejects or ignores null: before `cuInit`, after it, and with a current context.
    #[test]
    fn no_function_dereferences_null() {
        type Function =
            extern "C" fn(usize, usize, usize, usize, usize, usize, usize, usize, usize, usize, usize) -> u32;
        let called_with = |entry: &Entry, argument| {
            // SAFETY: each function takes at most that many arguments, numbers and pointers, and leaves alone those that it
            // does not have. The one that is not null is a handle, or a place for one.
            let function: Function = unsafe { std::mem::transmute(entry.address) };
            function(argument, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
        };
        let called = |entry| called_with(entry, 0);
        let named = |name| find(name, i32::MAX).expect("it is there");
        for entry in all().filter(|entry| entry.name != "cuInit") {
            assert_ne!(called(entry), 0, "{}", entry.name);
        }
        assert_eq!(called(named("cuInit")), 0);
        let mut context = 0_usize;
        let place = (&raw mut context).expose_provenance();
        assert_eq!(called_with(named("cuDevicePrimaryCtxRetain"), place), 0);
        assert_eq!(called_with(named("cuCtxSetCurrent"), context), 0);
        let codes: BTreeSet<_> = all().map(called).collect();
        assert!(codes.contains(&INVALID_VALUE) && codes.contains(&INVALID_HANDLE), "{codes:?}");
    }

    const INVALID_VALUE: u32 = 1;
    const INVALID_HANDLE: u32 = 400;

    #[test]
    fn a_program_gets_the_functions_that_it_knows() {
        let name = |name, version| find(name, version).map(|entry| entry.name);
        assert_eq!(name("cuMemAlloc", 12_000), Some("cuMemAlloc_v2"));
        assert_eq!(name("cuFuncLoad", 12_030), None);
        assert_eq!(name("cuFuncLoad", 12_040), Some("cuFuncLoad"));
        assert_eq!(name("cuCtxCreate", 12_000), Some("cuCtxCreate_v3"));
        assert_eq!(name("cuCtxCreate", 13_000), Some("cuCtxCreate_v4"));
        assert_eq!(name("cuGetProcAddress", 12_000), Some("cuGetProcAddress_v2"));
        assert_eq!(name("cuNothing", 13_000), None);
    }
}

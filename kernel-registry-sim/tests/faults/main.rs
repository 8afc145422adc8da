//! Tests each driver call that a program makes through kernel-registry: the call fails with each of several results.
//! The failure is an error that names the call. Nothing panics, hangs or leaks, and a second attempt succeeds.

#[path = "../child/mod.rs"]
mod child;
mod expected;
mod fresh;
mod matrix;
mod program;
#[path = "../serial/mod.rs"]
mod serial;
mod sudden;

use std::panic;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use kernel_registry_sim::Config;

kernel_registry::link_kernels!(kernels);

/// Takes a turn, because faults affect the whole process.
fn alone() -> serial::Turn {
    let turn = serial::take();
    let config = Config::from_environment().contained(true);
    config.install().expect("the simulated driver can be installed");
    turn
}

/// Runs `work` in its own thread, and panics if it takes longer than `limit`.
fn within<T: Send + 'static>(limit: Duration, what: String, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, wait) = mpsc::channel();
    let thread = thread::spawn(move || {
        let result = work();
        let _ = done.send(());
        result
    });
    if let Err(RecvTimeoutError::Timeout) = wait.recv_timeout(limit) {
        panic!("it hangs: {what}");
    }
    thread.join().unwrap_or_else(|panicked| {
        eprintln!("it panicked: {what}");
        panic::resume_unwind(panicked)
    })
}

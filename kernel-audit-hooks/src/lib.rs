//! The part of the audit that runs inside other people's processes, in front of CUDA's driver and NVRTC. Use
//! `kernel-audit`, not this.
//!
//! A program must behave as without it. So this code follows rules that the other crates don't need:
//!
//! - Every call reaches the driver with the program's arguments, unless an option says to refuse or to defer it. An
//!   error of the audit becomes an event or a message, never a result of the call.
//! - Hooks of the driver take no lock that the loader holds while initializers run: functions are looked up in the
//!   tables of mapped files (`watch::loader`), and threads start without Rust's library (`process::threads`).
//! - A launch of a loaded kernel takes no lock, reads no clock and writes no line that threads share.
//! - Stacks, Python frames and other libraries' tables are read by copies that fail instead of faulting
//!   (`process::memory`). Nothing unwinds through a frame of the program: threads of the audit catch panics, and in a
//!   hook `extern "C"` stops them.
//! - A process may fork at any time. A child finds no lock locked (`process::locked`), and what belongs to the parent
//!   is reset (`process::fork`).
//! - Signals, cancellation and descriptors are the program's. Threads of the audit block all signals, no thread is
//!   cancelled while it holds a lock of the audit (`system::NoCancel`), and no message goes to a file of the program
//!   (`process::say`).
//! - The environment may be empty or hostile: the library in front of the driver has the options, too, and a privileged
//!   process obeys none of them (`environment`).
//! - Nothing is left behind but the record and the files that options name. A full disk loses events, and doesn't end
//!   the process (`record::room`).
//! - glibc may be as old as 2.17: functions that came later are called by their number (`process::system`).

mod environment;
mod install;
mod options;
mod outcome;

pub use install::{assert_no_findings, findings, install, mark, ready, report};
pub use options::{AfterReady, Audit, OnHang, PreloadAt};
pub use outcome::{InstallError, Installed, NotWatched};

use kernel_audit_record::{causes, hang, kept, preload, record, variables, wrapped};

// `watch` calls the loader of glibc and the driver.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod watch;

//! Watches the CUDA driver calls of a program: which kernels are loaded late, what is compiled at run time, which calls take
//! long, and which never return.
//!
//! The command `kernel-audit PROGRAM` puts the library built from kernel-audit-hooks in front of the driver. The library
//! exports the functions that it watches; any other function that the program asks for is the driver's own. Events go
//! into a [`record`], a mapped file, so the record is there even if the program hangs or is killed.
//!
//! With the feature `watch`, [`install`] does the same in a Rust program, without the command. A test asserts by
//! [`assert_no_findings`] that nothing was late.
//!
//! With the feature `serde`, what [`record::read`] returns serializes as the JSON of the command does
//! (`docs/audit-json.md`).
//!
//! [`rules`] says which calls wait for what; the measurements are in `docs/census.md`.

#[cfg(all(feature = "command", target_os = "linux"))]
pub mod command;

#[cfg(feature = "watch")]
#[doc(inline)]
pub use kernel_audit_hooks::{
    AfterReady, Audit, InstallError, Installed, NotWatched, OnHang, PreloadAt, assert_no_findings, findings,
    install, mark, ready, report,
};
#[doc(inline)]
pub use kernel_audit_record::causes::{Cause, causes};
#[cfg(all(feature = "command", target_os = "linux"))]
use kernel_audit_record::{causes, hang, kept, wrapped};
#[doc(inline)]
pub use kernel_audit_record::{preload, record, variables};
pub use kernel_registry_cuda::rules;

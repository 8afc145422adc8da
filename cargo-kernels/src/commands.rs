//! The commands of `cargo kernels`, each in a module of its name. `audit` is kernel-audit's.

pub(crate) mod bake;
pub(crate) mod check;
pub(crate) mod declare;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod fit;
pub(crate) mod list;
pub(crate) mod new;
pub(crate) mod prebuild;
pub(crate) mod show;
#[cfg(target_os = "linux")]
pub(crate) mod sim;

//! Environment variables by which a program is told of schedules.

/// The file of a schedule that the user wants to be repeated.
pub const SCHEDULE: &str = "KERNEL_REGISTRY_SCHEDULE";

/// The file of the [`Plan`](crate::Plan) that a process has to follow.
pub const PLAN: &str = "KERNEL_REGISTRY_SIM_PLAN";

/// The file that the process makes for its [`Record`](crate::Record).
pub const RECORD: &str = "KERNEL_REGISTRY_SIM_RECORD";

/// Is set if the record gets each step.
pub const DETAILED: &str = "KERNEL_REGISTRY_SIM_DETAILED";

/// `little` if kernels may have room for one block only.
pub const ROOM: &str = "KERNEL_REGISTRY_SIM_ROOM";

//! Why a kernel is not warm, as far as the registry can tell.

use super::plan::Plan;
use crate::registry::registry;
use crate::{KernelInfo, LaunchError};

/// The error of a launch in a context in which the kernel is not warm.
pub(super) fn not_warm(kernel: &'static KernelInfo) -> LaunchError {
    match (Plan::latest(), registry()) {
        (Some(plan), _) if plan.has(kernel) => LaunchError::NotWarm { kernel },
        (Some(_), _) => LaunchError::RegisteredLater { kernel },
        (None, Ok(registry)) if !registry.other_copies.is_empty() => {
            LaunchError::OtherCopy { kernel, others: &registry.other_copies }
        }
        (None, _) => LaunchError::NotWarm { kernel },
    }
}

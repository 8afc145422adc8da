//! Loads a kernel at its launch if it is not warm and the context's policy allows late loads.

use std::sync::{Arc, Mutex};

use cudarc::driver::CudaContext;
use kernel_registry_cuda::rules;

use crate::contexts::{KnownContext, Late, LateLoad};
use crate::driver::ContextId;
use crate::lock::lock;
use crate::registry::registry;
use crate::sections::WouldWait;
use crate::sections::{self, Family};
use crate::table::Ready;
use crate::warm::{self, Plan};
use crate::{KernelInfo, OtherCopy, WarmError, Warmup};

/// Why a kernel was not loaded late.
pub(crate) enum NotLoaded {
    /// The context's policy forbids late loads, or nothing was warmed in the context.
    NotWarm,
    /// As `NotWarm`, but the kernel was registered after the last warm-up.
    RegisteredLater,
    /// This copy of the library has warmed nothing, but one of the program's other copies may have.
    OtherCopy(&'static [OtherCopy]),
    /// Loading would wait for a resident kernel.
    WouldWait(Box<WouldWait>),
    /// Warming the kernel failed.
    Failed(WarmError),
}

/// Warms a kernel in the context with this id, if the context's policy allows it.
pub(crate) fn load(
    kernel: &'static KernelInfo,
    context: &Arc<CudaContext>,
    id: ContextId,
) -> Result<Ready, NotLoaded> {
    let policy = KnownContext::find(id).map(|known| lock(&known.policy).clone());
    let Some(policy) = policy.filter(|policy| policy.late != Some(Late::Deny)) else {
        return Err(why_not_warm(kernel));
    };
    let within = Family::new(context, id);
    sections::refuse(within, "cuModuleLoadDataEx", &rules::MODULE).map_err(NotLoaded::WouldWait)?;
    // While a hook of this context runs, the warm-up below fails and loads nothing, so there's no load to report.
    if warm::hook_running_for(id).is_none() {
        let reporting = Reporting::begin(kernel, id);
        if reporting.is_some() {
            policy.report(&LateLoad { kernel, device: context.ordinal() });
        }
    }
    Warmup::late_load(kernel, policy).warm(context).map_err(|error| match error {
        WarmError::WouldWait(wait) => NotLoaded::WouldWait(wait),
        error => NotLoaded::Failed(error),
    })?;
    kernel.table().find(context.ordinal(), id).ok_or(NotLoaded::NotWarm)
}

/// Marks a late load as being reported, until it is dropped. The function that gets the report may launch the same kernel, in any
/// thread. That launch is part of the same late load, so it is not reported again.
struct Reporting(&'static KernelInfo, ContextId);

static REPORTING: Mutex<Vec<(&'static KernelInfo, ContextId)>> = Mutex::new(Vec::new());

impl Reporting {
    /// Begins to report a load. Returns `None` if the load is already being reported.
    fn begin(kernel: &'static KernelInfo, id: ContextId) -> Option<Self> {
        let mut reporting = lock(&REPORTING);
        if reporting.contains(&(kernel, id)) {
            return None;
        }
        reporting.push((kernel, id));
        Some(Reporting(kernel, id))
    }
}

impl Drop for Reporting {
    fn drop(&mut self) {
        lock(&REPORTING).retain(|reporting| *reporting != (self.0, self.1));
    }
}

fn why_not_warm(kernel: &'static KernelInfo) -> NotLoaded {
    match (Plan::latest(), registry()) {
        (Some(plan), _) if plan.has(kernel) => NotLoaded::NotWarm,
        (Some(_), _) => NotLoaded::RegisteredLater,
        (None, Ok(registry)) if !registry.other_copies.is_empty() => {
            NotLoaded::OtherCopy(&registry.other_copies)
        }
        (None, _) => NotLoaded::NotWarm,
    }
}

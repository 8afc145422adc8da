//! What fits, for each architecture.

use kernel_registry_format::fit::{
    Device, Launch, Processor, Product, Residency, Room, Shortage, beside, residency,
};

use super::budget::{Budget, budgets};
use super::kernels::{Code, Kernel, Kernels};
use crate::cli::Fit;
use crate::failure::Failure;

pub(super) struct Report<'a> {
    pub(super) gpus: Vec<GpuReport<'a>>,
    /// What of the images could not be read, in sentences.
    pub(super) unread: &'a [String],
}

/// What fits on one architecture.
pub(super) struct GpuReport<'a> {
    pub(super) device: Device,
    pub(super) stays: Launched<'a>,
    pub(super) residency: Residency,
    /// None of them if the kernel that stays does not fit itself.
    pub(super) beside: Vec<(Launched<'a>, Room)>,
    /// A multiprocessor with the fewest blocks that stay.
    pub(super) budgets: Vec<Budget>,
    pub(super) carveout: Option<u32>,
    pub(super) refusals: Vec<String>,
}

/// A kernel and its launch.
pub(super) struct Launched<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) code: &'a Code,
    pub(super) launch: Launch,
}

impl<'a> Report<'a> {
    pub(super) fn compute(options: &Fit, kernels: &'a Kernels) -> Result<Self, Failure> {
        let stays = kernels.named(&options.kernel)?;
        let beside: Result<Vec<_>, _> =
            options.beside().map(|companion| Ok((kernels.named(&companion.name)?, companion))).collect();
        let beside = beside?;
        let gpus = match options.gpu {
            Some(gpu) => vec![gpu.sm],
            None => stays.architectures().into_iter().filter(|sm| Device::of(*sm).is_some()).collect(),
        };
        if gpus.is_empty() {
            return Err(stays.no_code(None));
        }
        let gpu = |sm| {
            let device = device(sm, options)?;
            let code = stays.code(sm)?;
            let resident = Launch {
                grid: options.grid,
                cluster: options.cluster.or(code.cluster()).unwrap_or(1),
                carveout: options.carveout,
                ..launch(stays, code, sm, options.block, options.shared)?
            };
            let stays = Launched { kernel: stays, code, launch: resident };
            let beside: Result<Vec<_>, Failure> = beside
                .iter()
                .map(|(kernel, companion)| {
                    let code = kernel.code(sm)?;
                    let launch = launch(kernel, code, sm, companion.threads, companion.shared)?;
                    Ok(Launched { kernel, code, launch })
                })
                .collect();
            GpuReport::compute(device, stays, beside?)
        };
        let gpus = gpus.into_iter().map(gpu).collect::<Result<_, _>>()?;
        Ok(Report { gpus, unread: kernels.unread.sentences() })
    }

    pub(super) fn refusals(&self) -> impl Iterator<Item = &str> {
        self.gpus.iter().flat_map(|gpu| &gpu.refusals).map(String::as_str)
    }
}

fn device(sm: u32, options: &Fit) -> Result<Device, Failure> {
    let named = options.gpu.and_then(|gpu| gpu.product).and_then(Product::device);
    let device = named.or_else(|| Device::of(sm).cloned()).ok_or(Failure::NoMultiprocessors { gpu: sm })?;
    match (options.sms, device.processors) {
        (Some(processors), _) => Ok(Device { processors, product: None, ..device }),
        (None, 0) => Err(Failure::NoMultiprocessors { gpu: sm }),
        (None, _) => Ok(device),
    }
}

/// A launch of the smallest grid: one cluster.
fn launch(
    kernel: &Kernel,
    code: &Code,
    sm: u32,
    threads: Option<u32>,
    shared: Option<u32>,
) -> Result<Launch, Failure> {
    let cluster = code.cluster().unwrap_or(1);
    Ok(Launch {
        grid: cluster.into(),
        cluster,
        threads: kernel.threads(threads, code, sm)?,
        registers: code.resources.registers,
        static_shared: code.resources.static_shared,
        dynamic_shared: shared.or(kernel.shared).unwrap_or(0),
        ..Launch::default()
    })
}

impl<'a> GpuReport<'a> {
    fn compute(device: Device, stays: Launched<'a>, others: Vec<Launched<'a>>) -> Result<Self, Failure> {
        let cannot = |launched: &Launched<'_>, why: &dyn ToString| Failure::CannotRun {
            kernel: launched.kernel.name.clone(),
            gpu: device.sm,
            why: why.to_string(),
        };
        let residency = residency(&device, &stays.launch).map_err(|why| cannot(&stays, &why))?;
        let mut processor = Processor::new(&device);
        processor.put(&stays.launch, residency.least.min(residency.per_processor));
        let mut refusals = Vec::new();
        let mut beside_it = Vec::new();
        if residency.fits() {
            for other in others {
                let room =
                    beside(&device, &stays.launch, &other.launch).map_err(|why| cannot(&other, &why))?;
                refusals.extend(room.shortage.map(|shortage| refusal(&device, &stays, &other, &shortage)));
                beside_it.push((other, room));
            }
        } else {
            refusals.push(too_large(&device, &stays, &residency));
        }
        let (budgets, carveout) = (budgets(&device, &processor), processor.carveout());
        Ok(GpuReport { stays, residency, beside: beside_it, budgets, carveout, refusals, device })
    }
}

/// Why the grid that stays does not fit.
fn too_large(device: &Device, stays: &Launched<'_>, residency: &Residency) -> String {
    let Residency { grid, capacity, limit, .. } = residency;
    let name = &stays.kernel.name;
    format!(
        "`{name}` does not fit on sm_{}: {capacity} of its {grid} blocks run at once, limited by {limit}, and the others start \
         when these end; use {capacity} blocks at most",
        device.sm
    )
}

/// Why a kernel does not fit beside the one that stays.
fn refusal(device: &Device, stays: &Launched<'_>, other: &Launched<'_>, shortage: &Shortage) -> String {
    let (name, resident) = (&other.kernel.name, &stays.kernel.name);
    let remedy = shortage.remedy(name, resident);
    format!("`{name}` does not fit beside `{resident}` on sm_{}: {shortage}; {remedy}", device.sm)
}

//! Computes which kernels fit beside the resident kernel, for each architecture.

use kernel_registry_cuda::fit::{
    Device, Launch, Processor, Product, Residency, Room, Shortage, beside, residency,
};

use super::kernels::{Code, Kernel, Kernels};
use crate::cli::Fit;
use crate::failure::Failure;

pub(super) struct Report<'a> {
    pub(super) gpus: Vec<GpuReport<'a>>,
    /// Sentences about variants of the images that could not be read.
    pub(super) unread: &'a [String],
}

/// The result for one architecture.
pub(super) struct GpuReport<'a> {
    pub(super) device: Device,
    pub(super) resident: Launched<'a>,
    pub(super) residency: Residency,
    /// The other kernels, with the room for them. Empty if the resident kernel itself does not fit.
    pub(super) companions: Vec<(Launched<'a>, Room)>,
    /// The resources of a multiprocessor with the fewest blocks of the resident kernel.
    pub(super) budgets: [Budget; 4],
    pub(super) carveout: Option<u32>,
    pub(super) refusals: Vec<String>,
}

/// One resource of a multiprocessor that limits the number of blocks.
pub(super) struct Budget {
    pub(super) name: &'static str,
    pub(super) total: u32,
    /// How much the blocks of the resident kernel take.
    pub(super) taken: u32,
}

/// A kernel and its launch.
pub(super) struct Launched<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) code: &'a Code,
    pub(super) launch: Launch,
}

impl<'a> Report<'a> {
    pub(super) fn compute(options: &Fit, kernels: &'a Kernels) -> Result<Self, Failure> {
        let resident = kernels.named(&options.kernel)?;
        let beside: Result<Vec<_>, Failure> =
            options.beside().map(|companion| Ok((kernels.named(&companion.name)?, companion))).collect();
        let beside = beside?;
        let gpus = match options.gpu {
            Some(gpu) => vec![gpu.sm],
            None => resident.architectures().into_iter().filter(|sm| Device::of(*sm).is_some()).collect(),
        };
        if gpus.is_empty() {
            return Err(resident.no_code(None));
        }
        let gpu = |sm| {
            let device = device(sm, options)?;
            let code = resident.code(sm)?;
            let launched = Launch {
                grid: options.grid,
                cluster: options.cluster.or(code.cluster()).unwrap_or(1),
                carveout: options.carveout,
                ..launch(resident, code, sm, options.block, options.shared)?
            };
            let resident = Launched { kernel: resident, code, launch: launched };
            let beside: Result<Vec<_>, Failure> = beside
                .iter()
                .map(|(kernel, companion)| {
                    let code = kernel.code(sm)?;
                    let launch = launch(kernel, code, sm, companion.threads, companion.shared)?;
                    Ok(Launched { kernel, code, launch })
                })
                .collect();
            GpuReport::compute(device, resident, beside?)
        };
        let gpus = gpus.into_iter().map(gpu).collect::<Result<_, _>>()?;
        Ok(Report { gpus, unread: &kernels.unread.sentences })
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

/// Returns a launch of the smallest grid, which is one cluster.
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
    fn compute(device: Device, resident: Launched<'a>, others: Vec<Launched<'a>>) -> Result<Self, Failure> {
        let cannot = |launched: &Launched<'_>, why: &dyn ToString| Failure::CannotRun {
            kernel: launched.kernel.name.clone(),
            gpu: device.sm,
            why: why.to_string(),
        };
        let residency = residency(&device, &resident.launch).map_err(|why| cannot(&resident, &why))?;
        let mut processor = Processor::new(&device);
        processor.put(&resident.launch, residency.least.min(residency.per_processor));
        let mut refusals = Vec::new();
        let mut companions = Vec::new();
        if residency.fits() {
            for other in others {
                let room =
                    beside(&device, &resident.launch, &other.launch).map_err(|why| cannot(&other, &why))?;
                refusals.extend(room.shortage.map(|shortage| refusal(&device, &resident, &other, &shortage)));
                companions.push((other, room));
            }
        } else {
            refusals.push(too_large(&device, &resident, &residency));
        }
        let (budgets, carveout) = (budgets(&device, &processor), processor.carveout());
        Ok(GpuReport { resident, residency, companions, budgets, carveout, refusals, device })
    }
}

/// Returns the resources of a multiprocessor, and how much of each is taken. Shared memory is that of the carve-out.
fn budgets(device: &Device, processor: &Processor<'_>) -> [Budget; 4] {
    let registers = processor.registers().min(device.registers);
    let shared = processor.carveout().unwrap_or(device.shared);
    [
        Budget { name: "threads", total: device.threads, taken: processor.threads() },
        Budget { name: "blocks", total: device.blocks, taken: processor.blocks() },
        Budget { name: "registers", total: device.registers, taken: registers },
        Budget { name: "shared memory", total: shared, taken: processor.shared() },
    ]
}

/// Says why the resident grid does not fit.
fn too_large(device: &Device, resident: &Launched<'_>, residency: &Residency) -> String {
    let Residency { grid, capacity, limit, .. } = residency;
    let name = &resident.kernel.name;
    format!(
        "`{name}` does not fit on sm_{}: {capacity} of its {grid} blocks run at once, limited by {limit}, and the others start \
         when these end; use {capacity} blocks at most",
        device.sm
    )
}

/// Says why a kernel does not fit beside the resident kernel.
fn refusal(device: &Device, resident: &Launched<'_>, other: &Launched<'_>, shortage: &Shortage) -> String {
    let (name, resident) = (&other.kernel.name, &resident.kernel.name);
    let remedy = shortage.remedy(name, resident);
    format!("`{name}` does not fit beside `{resident}` on sm_{}: {shortage}; {remedy}", device.sm)
}

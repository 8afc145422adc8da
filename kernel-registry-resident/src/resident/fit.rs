//! The table of what fits beside a resident kernel.

use std::fmt;

use kernel_registry_cuda::fit::{CannotRun, Device, Launch, Limit, Residency, Residents, Room, Shortage};

/// What is on the device at once while a resident kernel runs. Its `Display` is a table.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Fit {
    /// The path of the resident kernel.
    pub resident: &'static str,
    /// The device's architecture: 90 for sm_90.
    pub arch: u32,
    /// Multiprocessors of the device, or of its part.
    pub processors: u32,
    /// Blocks of the kernel.
    pub grid: u64,
    /// Threads of a block.
    pub threads: u32,
    /// The blocks that there is room for.
    pub capacity: u64,
    /// What limits that.
    pub limit: Limit,
    /// The carve-out that the kernel is given, in percent, so that others fit beside it. `None` leaves it to the driver.
    pub carveout: Option<u32>,
    /// The kernels that are launched beside it.
    pub beside: Vec<Companion>,
}

/// A kernel that is launched beside a resident one.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Companion {
    /// Its path.
    pub kernel: &'static str,
    /// Threads of a block: a range if neither its declaration nor the check says how many.
    pub threads: (u32, u32),
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of static and dynamic shared memory of a block.
    pub shared: u32,
    /// How many of its blocks run at once. Further ones start when these end.
    pub at_once: u64,
    /// What limits that.
    pub limit: Limit,
    /// What a block lacks, if it finds no room.
    pub shortage: Option<Shortage>,
}

impl Fit {
    pub(super) fn is_refused(&self) -> bool {
        self.beside.iter().any(|other| other.shortage.is_some())
    }

    /// Why kernels do not fit beside the resident one, one text for each.
    pub fn refusals(&self) -> impl Iterator<Item = String> {
        self.beside.iter().filter_map(|Companion { kernel, threads, shortage, .. }| {
            let shortage = shortage.as_ref()?;
            let resident = self.resident;
            let remedy = match threads {
                (least, most) if least < most => {
                    "add `block = ..` to its declaration, or name its launch with `beside`".to_owned()
                }
                _ => shortage.remedy(kernel, resident),
            };
            Some(format!("`{kernel}` does not fit beside it: {shortage}; {remedy}"))
        })
    }
}

impl fmt::Display for Fit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fit { resident, arch, processors, grid, threads, capacity, limit, carveout, beside } = self;
        write!(
            f,
            "{resident} is resident on {processors} multiprocessors of sm_{arch}: {grid} blocks of {threads} threads, room for {capacity}, \
             limited by {limit}"
        )?;
        if let Some(percent) = carveout {
            write!(f, "; its carve-out is {percent} %")?;
        }
        let widest = beside.iter().map(|other| other.kernel.len()).max().unwrap_or(0).max("BESIDE IT".len());
        if !beside.is_empty() {
            write!(
                f,
                "\n  {:<widest$}  {:>9}  {:>9}  {:>9}  {:>8}  LIMIT",
                "BESIDE IT", "BLOCK", "REGISTERS", "SHARED", "AT ONCE"
            )?;
        }
        for Companion { kernel, threads: (least, most), registers, shared, at_once, limit, .. } in beside {
            let threads = if least == most { most.to_string() } else { format!("{least}-{most}") };
            write!(
                f,
                "\n  {kernel:<widest$}  {threads:>9}  {registers:>9}  {shared:>9}  {at_once:>8}  {limit}"
            )?;
        }
        Ok(())
    }
}

/// A resident kernel, and those that are launched beside it, in the figures that decide what fits.
#[derive(Clone, Debug)]
pub(super) struct Figures {
    pub(super) kernel: &'static str,
    pub(super) launch: Launch,
    pub(super) beside: Vec<Beside>,
}

/// A launch, or two if the block is not known: of the smallest block and of the largest.
#[derive(Clone, Debug)]
pub(super) struct Beside {
    pub(super) kernel: &'static str,
    pub(super) launches: Vec<Launch>,
}

/// Why nothing can be said: the device cannot run a kernel at all.
pub(super) struct Impossible {
    pub(super) kernel: &'static str,
    pub(super) why: CannotRun,
}

impl Figures {
    /// What fits on a device that has these resident grids already.
    pub(super) fn fit(&self, device: &Device, resident: &[Launch]) -> Result<(Residency, Fit), Impossible> {
        let Figures { kernel, launch, beside } = self;
        let cannot = |kernel| move |why| Impossible { kernel, why };
        let residency = Residents::new(device, resident).residency(launch).map_err(cannot(kernel))?;
        let all: Vec<Launch> = resident.iter().copied().chain([*launch]).collect();
        let residents = Residents::new(device, &all);
        // Without room for all of it, companions are not checked.
        let beside = if residency.fits() { &beside[..] } else { &[] };
        let beside = beside.iter().map(|other| other.companion(&residents)).collect::<Result<_, _>>()?;
        let fit = Fit {
            resident: kernel,
            arch: device.sm,
            processors: device.processors,
            grid: launch.grid,
            threads: launch.threads,
            capacity: residency.capacity,
            limit: residency.limit,
            carveout: launch.carveout,
            beside,
        };
        Ok((residency, fit))
    }
}

impl Beside {
    fn companion(&self, residents: &Residents<'_>) -> Result<Companion, Impossible> {
        let rooms = self.launches.iter().map(|launch| residents.beside(launch));
        let rooms: Result<Vec<Room>, _> = rooms.collect();
        let rooms = rooms.map_err(|why| Impossible { kernel: self.kernel, why })?;
        let threads = || self.launches.iter().map(|launch| launch.threads);
        let (first, tightest) = (self.launches[0], rooms.iter().min_by_key(|room| room.at_once));
        let tightest = tightest.unwrap_or(&rooms[0]);
        Ok(Companion {
            kernel: self.kernel,
            threads: (threads().min().unwrap_or(0), threads().max().unwrap_or(0)),
            registers: first.registers,
            shared: first.static_shared.saturating_add(first.dynamic_shared),
            at_once: tightest.at_once,
            limit: tightest.limit,
            shortage: tightest.shortage,
        })
    }
}

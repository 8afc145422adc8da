//! Computes `Fit`, the table of what fits next to a resident kernel.

use std::fmt;

use kernel_registry_cuda::fit::{CannotRun, Device, Launch, Limit, Residency, Residents, Room, Shortage};

/// A table of what fits on the device at once while a resident kernel runs. `Display` writes the table.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Fit {
    /// The path of the resident kernel.
    pub resident: &'static str,
    /// The device's architecture: 90 for sm_90.
    pub arch: u32,
    /// The number of multiprocessors of the device, or of the part in which the kernel runs.
    pub processors: u32,
    /// The number of blocks of the kernel.
    pub grid: u64,
    /// The number of threads of a block.
    pub threads: u32,
    /// The number of blocks that fit on the multiprocessors at once.
    pub capacity: u64,
    /// The limit that determines the capacity.
    pub limit: Limit,
    /// The carve-out that the launch sets for the kernel, in percent, so that other kernels fit alongside.
    /// `None` means that the driver chooses.
    pub carveout: Option<u32>,
    /// The kernels that run alongside the resident kernel.
    pub beside: Vec<Companion>,
}

/// A kernel that runs alongside a resident kernel.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Companion {
    /// The kernel's path.
    pub kernel: &'static str,
    /// The least and the largest number of threads of a block. They differ if neither the kernel's
    /// declaration nor the check fixes the number.
    pub threads: (u32, u32),
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of static and dynamic shared memory of a block.
    pub shared: u32,
    /// How many blocks of the kernel run at once. Further blocks start when these end.
    pub at_once: u64,
    /// The limit that determines this number.
    pub limit: Limit,
    /// The resource that a block lacks, if no block fits.
    pub shortage: Option<Shortage>,
}

impl Fit {
    pub(super) fn is_refused(&self) -> bool {
        self.beside.iter().any(|other| other.shortage.is_some())
    }

    /// Returns a text for each kernel that doesn't fit next to the resident kernel, with the reason and the
    /// remedy.
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
            Some(format!("`{kernel}` does not fit next to it: {shortage}; {remedy}"))
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

/// The figures that decide what fits: those of a resident kernel and of the kernels that run alongside.
#[derive(Clone, Debug)]
pub(super) struct Figures {
    pub(super) kernel: &'static str,
    pub(super) launch: Launch,
    pub(super) companions: Vec<CompanionFigures>,
}

/// The figures of a kernel that runs alongside: one launch, or two if the block isn't known, with the
/// smallest block and with the largest.
#[derive(Clone, Debug)]
pub(super) struct CompanionFigures {
    pub(super) kernel: &'static str,
    pub(super) launches: Vec<Launch>,
}

/// The error for a kernel of which the device can't run even one block.
pub(super) struct Impossible {
    pub(super) kernel: &'static str,
    pub(super) why: CannotRun,
}

impl Figures {
    /// Computes what fits on a device where these resident grids already run.
    pub(super) fn fit(&self, device: &Device, resident: &[Launch]) -> Result<(Residency, Fit), Impossible> {
        let Figures { kernel, launch, companions } = self;
        let cannot = |kernel| move |why| Impossible { kernel, why };
        let residency = Residents::new(device, resident).residency(launch).map_err(cannot(kernel))?;
        let all: Vec<Launch> = resident.iter().copied().chain([*launch]).collect();
        let residents = Residents::new(device, &all);
        // If the resident kernel itself doesn't fit, the others aren't checked.
        let companions = if residency.fits() { &companions[..] } else { &[] };
        let companions =
            companions.iter().map(|other| other.companion(&residents)).collect::<Result<_, _>>()?;
        let fit = Fit {
            resident: kernel,
            arch: device.sm,
            processors: device.processors,
            grid: launch.grid,
            threads: launch.threads,
            capacity: residency.capacity,
            limit: residency.limit,
            carveout: launch.carveout,
            beside: companions,
        };
        Ok((residency, fit))
    }
}

impl CompanionFigures {
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

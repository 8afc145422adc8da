//! Makes trials with two resident kernels, and a probe kernel while both run.

use std::fmt;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

use fastrand::Rng;
use kernel_registry_cuda::fit::{Processor, Residents, residency};

use crate::gpu::{Area, Gpu, Loaded, Outcome};
use crate::pair::{ScarceResource, probe_kernel, resident_kernel};
use crate::ptx::{Role, Spec, Word};
use crate::trial::{all_arrived, within};

/// Two resident kernels with their grids, and a probe kernel.
#[derive(Clone, Copy, Debug)]
struct Two {
    first: (Spec, u32),
    second: (Spec, u32),
    third: Spec,
}

impl Two {
    /// Returns two random resident kernels and a probe kernel. The same device, seed and index give the same
    /// kernels.
    fn random(gpu: &Gpu, seed: u64, index: u64) -> Two {
        let mut rng = Rng::with_seed(seed.wrapping_mul(1_000_003).wrapping_add(index));
        let mut attempts = std::iter::repeat_with(|| Self::generate(gpu, &mut rng));
        attempts.find_map(|two| two).expect("an endless number of attempts")
    }

    /// Generates the kernels. Returns `None` if the device cannot run one of them.
    fn generate(gpu: &Gpu, rng: &mut Rng) -> Option<Two> {
        let (device, scarce) = (&gpu.device, ScarceResource::any(rng));
        let (first, second) = (resident_kernel(device, scarce, rng), resident_kernel(device, scarce, rng));
        let all = residency(device, &first.launch(1)).ok()?.capacity as u32;
        // In many trials, each multiprocessor has one block of the first kernel, or only some have one. Then
        // the second kernel can go to the others.
        let grid = match rng.u32(0..3) {
            0 => device.processors.min(all),
            1 => rng.u32(1..=device.processors.min(all)),
            _ => rng.u32(1..=all),
        };
        let residents = [first.launch(grid)];
        let capacity = Residents::new(device, &residents).residency(&second.launch(1)).ok()?.capacity as u32;
        // In some trials, the second grid has more blocks than should have room.
        let second_grid = match rng.u32(0..4) {
            0 => capacity + rng.u32(1..=device.processors),
            1 => capacity.max(1),
            _ => rng.u32(1..=capacity.max(1)),
        };
        let mut processor = Processor::new(device);
        processor.put(&first.launch(grid), grid / device.processors);
        processor.put(&second.launch(1), second_grid / device.processors);
        let third = probe_kernel(device, scarce, &processor, rng);
        third.launch(1).check(device).ok()?;
        Some(Two { first: (first, grid), second: (second, second_grid), third })
    }
}

/// Counts of computed answers "fits" and "does not fit", each with how many the device proved wrong.
#[derive(Default)]
struct Answers {
    fits: u64,
    fits_wrong: u64,
    waits: u64,
    waits_wrong: u64,
}

impl Answers {
    /// Adds an answer: whether the kernel should fit, and whether it did.
    fn add(&mut self, computed: bool, did: bool) {
        let (all, wrong) = match computed {
            true => (&mut self.fits, &mut self.fits_wrong),
            false => (&mut self.waits, &mut self.waits_wrong),
        };
        *all += 1;
        *wrong += u64::from(computed != did);
    }
}

impl fmt::Display for Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Answers { fits, fits_wrong, waits, waits_wrong } = self;
        write!(
            f,
            "\"fits\" {fits}, of which {fits_wrong} did not; \"does not fit\" {waits}, of which {waits_wrong} did"
        )
    }
}

/// Makes all trials. `progress` is the number of the current one. The exit code is 1 if a kernel that should
/// fit doesn't, or if more than 2 % of the trials couldn't be made.
pub(crate) fn compare(gpu: &Gpu, seed: u64, count: u64, progress: &AtomicU64) -> Outcome<ExitCode> {
    println!("{}, seed {seed}", gpu.words());
    let (mut second, mut third, mut untried) = (Answers::default(), Answers::default(), 0);
    for index in 0..count {
        progress.store(index + 1, Ordering::Relaxed);
        let two = Two::random(gpu, seed, index);
        match try_kernels(gpu, &two) {
            Ok(seen) => {
                if seen.first_fits {
                    second.add(seen.second.0, seen.second.1);
                }
                if let Some((computed, ran)) = seen.third {
                    third.add(computed, ran);
                }
                let wrong = seen.second == (true, false) || seen.third == Some((true, false));
                if wrong {
                    println!("wrong: {index}: {two:?}");
                }
            }
            Err(error) => {
                untried += 1;
                println!("not tried: {index}: {error}");
            }
        }
        if untried > 10 + count / 50 {
            break;
        }
    }
    println!("the second grid as a whole: {second}");
    println!("a block of a third kernel: {third}");
    println!("not tried: {untried}");
    let is_right = second.fits_wrong + third.fits_wrong == 0 && untried <= count / 50;
    Ok(ExitCode::from(u8::from(!is_right)))
}

/// The result of a trial. Each pair says whether a kernel should fit, and whether it did.
struct Seen {
    first_fits: bool,
    second: (bool, bool),
    /// `None` if not all blocks of both resident kernels arrived.
    third: Option<(bool, bool)>,
}

/// Loads the kernels, makes a trial, and unloads the kernels.
fn try_kernels(gpu: &Gpu, two: &Two) -> Outcome<Seen> {
    let ((first, first_grid), (second, second_grid)) = (two.first, two.second);
    let (first, second) = (gpu.load(first, Role::Resident)?, gpu.load(second, Role::Resident)?);
    let third = gpu.load(two.third, Role::Probe)?;
    let seen = run(gpu, (&first, first_grid), (&second, second_grid), &third);
    gpu.synchronize()?;
    gpu.unload(first)?;
    gpu.unload(second)?;
    gpu.unload(third)?;
    seen
}

/// Launches the resident kernels with their grids, then the probe kernel, and ends all of them.
fn run(gpu: &Gpu, first: (&Loaded, u32), second: (&Loaded, u32), third: &Loaded) -> Outcome<Seen> {
    let launches = [first.0.launch(first.1), second.0.launch(second.1)];
    let residents = |count| Residents::new(&gpu.device, &launches[..count]);
    let computed = residents(1).residency(&launches[1])?.fits();
    let room = residents(2).beside(&third.launch(1))?.fits();
    if !gpu.has_words_for(first.1) || !gpu.has_words_for(second.1) {
        return Err("a grid is too large".into());
    }
    let trial = gpu.next_number();
    let launch = |kernel: &Loaded, grid, stream, area| gpu.launch(kernel, grid, stream, area, trial);
    launch(first.0, first.1, gpu.resident, Area::First)?;
    let first_fits = all_arrived(gpu, Area::First, first.1, trial) == first.1;
    launch(second.0, second.1, gpu.second, Area::Second)?;
    let second_fits = first_fits && all_arrived(gpu, Area::Second, second.1, trial) == second.1;
    let ran = if second_fits {
        launch(third, 1, gpu.probe, Area::First)?;
        Some(within(gpu.window, || gpu.is_set(Area::First, Word::Done, trial)))
    } else {
        None
    };
    let left_early = [Area::First, Area::Second].into_iter().any(|area| gpu.is_set(area, Word::Over, trial));
    gpu.set(Area::First, Word::Flag, trial);
    gpu.set(Area::Second, Word::Flag, trial);
    gpu.synchronize()?;
    if left_early {
        return Err("a kernel left before it was told to".into());
    }
    Ok(Seen { first_fits, second: (computed, second_fits), third: ran.map(|ran| (room, ran)) })
}

//! Collects the figures (registers, shared memory and so on) of a resident kernel and of the kernels that run
//! alongside.

use kernel_registry::__private_0_1::resident::{Current, Known, WarmKernel, check};
use kernel_registry::LaunchConfig;
use kernel_registry_cuda::fit::Launch as Figure;

use super::fit::{CompanionFigures, Figures};
use super::{Resident, ResidentError};
use crate::driver;

impl<K> Resident<K> {
    /// Returns the figures of the resident kernel and its companions. They were read when the kernels were
    /// warmed, except for the carve-outs, which may have changed since.
    pub(super) fn figures(&self, known: &Known, current: &Current<'_>) -> Result<Figures, ResidentError> {
        let kernel = self.kernel.path();
        let warm = |kernel| {
            known.kernels.iter().find(|warm| warm.info == kernel).ok_or_else(|| known.why_not_warm(kernel))
        };
        let resident = warm(self.kernel)?;
        if !resident.report.stack_known {
            return Err(ResidentError::UnknownStack { kernel, of: kernel });
        }
        let launch = Figure { carveout: self.carveout, ..figure(resident, &self.config) };
        let mut companions = Vec::new();
        let mut add = |other: &WarmKernel, launches: Vec<Figure>| {
            if !other.report.stack_known {
                return Err(ResidentError::UnknownStack { kernel, of: other.report.path });
            }
            let carveout = driver::carveout(current, other.function);
            let carveout = carveout.map_err(|error| ResidentError::Driver { kernel, error })?;
            let launches = launches.into_iter().map(|launch| Figure { carveout, ..launch }).collect();
            companions.push(CompanionFigures { kernel: other.report.path, launches });
            Ok(())
        };
        for (kernel, config) in &self.companions {
            let other = warm(kernel)?;
            check(kernel, config, &other.limits)?;
            add(other, vec![smallest(other, config)])?;
        }
        if self.all {
            let configured = |info| self.companions.iter().any(|(kernel, _)| *kernel == info);
            let left_out = |info| info == self.kernel || self.except.contains(&info) || configured(info);
            for other in known.kernels.iter().filter(|other| !left_out(other.info)) {
                add(other, launches(other))?;
            }
        }
        Ok(Figures { kernel, launch, companions })
    }
}

/// Returns the figures of a launch of a warm kernel.
fn figure(kernel: &WarmKernel, config: &LaunchConfig) -> Figure {
    let product = |size: [u32; 3]| size.into_iter().map(u64::from).fold(1, u64::saturating_mul);
    let WarmKernel { report, limits, .. } = kernel;
    let declared = (limits.cluster != [0; 3]).then(|| limits.cluster.map(u32::from));
    let cluster = declared.or(config.cluster).map_or(1, product);
    Figure {
        grid: product(config.grid),
        threads: u32::try_from(product(config.block)).unwrap_or(u32::MAX),
        registers: report.registers,
        static_shared: report.static_shared,
        dynamic_shared: config.shared,
        cluster: u32::try_from(cluster).unwrap_or(u32::MAX),
        carveout: None,
    }
}

/// Returns the figures of the smallest launch with blocks of this size: one block, or one cluster.
fn smallest(kernel: &WarmKernel, config: &LaunchConfig) -> Figure {
    let figure = figure(kernel, config);
    Figure { grid: figure.cluster.into(), ..figure }
}

/// Returns the launches to check for a companion without a configuration: one if its declaration fixes the
/// block, otherwise one with blocks of a single warp and one with the largest blocks.
fn launches(kernel: &WarmKernel) -> Vec<Figure> {
    const WARP: u32 = 32;
    let config = kernel.info.config(1);
    if config.block != [0; 3] {
        return vec![smallest(kernel, &config)];
    }
    let most = kernel.limits.threads;
    [WARP.min(most), most].map(|threads| smallest(kernel, &config.block(threads))).into()
}

//! Checks whether a resident kernel fits on the device together with the resident kernels that already run
//! there.

use kernel_registry_cuda::fit::Device;

use super::ResidentError;
use super::fit::{Figures, Fit, Impossible};
use crate::sections::{Processors, ResidentGrid};

/// Returns what fits next to the kernel. Fails if not all of its own blocks fit at once.
pub(super) fn fits(
    figures: &Figures,
    room: &Device,
    on: Processors,
    residents: &[ResidentGrid],
) -> Result<Fit, ResidentError> {
    let launches: Vec<_> = residents.iter().map(|grid| grid.launch_on(on)).collect();
    let fit = figures.fit(room, &launches);
    let (residency, fit) =
        fit.map_err(|Impossible { kernel, why }| ResidentError::CannotRun { kernel, why })?;
    if residency.fits() {
        return Ok(fit);
    }
    Err(ResidentError::GridTooLarge {
        kernel: figures.kernel,
        grid: residency.grid,
        capacity: residency.capacity,
        limit: residency.limit,
        beside: residents.iter().map(|grid| grid.kernel).collect(),
    })
}

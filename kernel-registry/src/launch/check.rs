//! Checks a launch configuration against the limits of kernel and device, before it is passed to the driver.

use super::{LaunchError, LaunchLimit};
use crate::table::Limits;
use crate::{KernelInfo, LaunchConfig};

/// The largest block along each axis, on every device that CUDA 12 supports.
const BLOCK: [u32; 3] = [1024, 1024, 64];
/// The largest grid along each axis, on every device that CUDA 12 supports.
const GRID: [u32; 3] = [i32::MAX as u32, 65_535, 65_535];

/// Checks a configuration against the limits of kernel and device.
#[inline]
pub fn check(kernel: &'static KernelInfo, config: &LaunchConfig, limits: &Limits) -> Result<(), LaunchError> {
    let [x, y, z] = config.block;
    let threads = (u64::from(x) * u64::from(y)).saturating_mul(z.into());
    let fits = within(config.block, BLOCK)
        && within(config.grid, GRID)
        && threads <= limits.threads.into()
        && config.shared <= limits.shared
        && (config.cluster.is_none() && limits.cluster == [0; 3] && !limits.cluster_must_be_set);
    if fits { Ok(()) } else { explain(kernel, config, limits, threads) }
}

fn within(axes: [u32; 3], most: [u32; 3]) -> bool {
    // A size of 0 wraps to the largest number, so it is refused, too.
    (0..3).all(|axis| axes[axis].wrapping_sub(1) < most[axis])
}

/// Returns the first axis that is not within its limit: its name, its size, and the limit.
fn axis_beyond(axes: [u32; 3], most: [u32; 3]) -> Option<(char, u64, u32)> {
    let axes = ['x', 'y', 'z'].into_iter().zip(axes.into_iter().zip(most));
    let mut beyond = axes.filter(|(_, (size, most))| *size == 0 || size > most);
    beyond.next().map(|(axis, (size, most))| (axis, size.into(), most))
}

/// Checks a configuration again, limit by limit, and returns the error for the first limit that it exceeds. `check` passes every launch
/// with clusters to this function, so the configuration may be valid.
#[cold]
fn explain(
    kernel: &'static KernelInfo,
    config: &LaunchConfig,
    limits: &Limits,
    threads: u64,
) -> Result<(), LaunchError> {
    let LaunchConfig { grid, block, shared, cluster, .. } = *config;
    if block == [0; 3] {
        return Err(LaunchError::BlockMissing { kernel });
    }
    let beyond = |what, given: u64, most: u32| LaunchError::Limit { kernel, what, given, most: most.into() };
    if let Some((axis, given, most)) = axis_beyond(block, BLOCK) {
        return Err(beyond(LaunchLimit::BlockAxis(axis), given, most));
    }
    if let Some((axis, given, most)) = axis_beyond(grid, GRID) {
        return Err(beyond(LaunchLimit::GridAxis(axis), given, most));
    }
    if threads > limits.threads.into() {
        return Err(beyond(LaunchLimit::BlockThreads { block }, threads, limits.threads));
    }
    if shared > limits.shared {
        return Err(beyond(LaunchLimit::DynamicShared, shared.into(), limits.shared));
    }

    let fixed = (limits.cluster != [0; 3]).then(|| limits.cluster.map(u32::from));
    match (fixed, cluster) {
        (Some(fixed), Some(chosen)) if fixed != chosen => {
            return Err(LaunchError::ClusterFixed { kernel, chosen, fixed });
        }
        (None, None) if limits.cluster_must_be_set => return Err(LaunchError::ClusterMissing { kernel }),
        _ => {}
    }
    match fixed.or(cluster) {
        Some(cluster)
            if (0..3).any(|axis| cluster[axis] == 0 || !grid[axis].is_multiple_of(cluster[axis])) =>
        {
            Err(LaunchError::GridOfClusters { kernel, grid, cluster })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::info::tests::scale;

    const LIMITS: Limits = Limits {
        unavailable_below: 0,
        threads: 512,
        shared: 1000,
        cluster: [0; 3],
        cluster_must_be_set: false,
    };
    const FINE: LaunchConfig = LaunchConfig::new([1, 1, 1], [32, 1, 1]);

    fn refused(config: LaunchConfig, limits: Limits) -> String {
        check(scale(), &config, &limits).expect_err("it is too much").to_string()
    }

    #[test]
    fn configurations_up_to_the_limits_are_allowed() {
        for config in [
            FINE,
            FINE.block([512, 1, 1]),
            FINE.block([8, 8, 8]),
            FINE.shared(1000),
            FINE.grid([i32::MAX as u32, 65_535, 65_535]),
            FINE.cluster(2).grid(4),
        ] {
            assert_eq!(check(scale(), &config, &LIMITS), Ok(()), "{config:?}");
        }
    }

    #[test]
    fn configurations_beyond_a_limit_are_refused_with_the_numbers() {
        for (config, numbers) in [
            (FINE.block(513), ["513 x 1 x 1", "allow 512"]),
            (FINE.block((16, 33)), ["16 x 33 x 1 threads, 528 in all", "allow 512"]),
            (FINE.block(0), ["0 threads along its x axis", "1 to 1024"]),
            (FINE.block((1, 1, 65)), ["65 threads along its z axis", "1 to 64"]),
            (FINE.grid((1, 65_536)), ["65536 blocks along its y axis", "1 to 65535"]),
            (FINE.grid((1, 1, 0)), ["0 blocks along its z axis", "1 to 65535"]),
            (FINE.shared(1001), ["1001 bytes", "granted 1000"]),
            (FINE.cluster(2).grid(3), ["3 x 1 x 1", "2 x 1 x 1"]),
            (FINE.cluster(0), ["1 x 1 x 1", "0 x 1 x 1"]),
        ] {
            let text = refused(config, LIMITS);
            assert!(numbers.iter().all(|number| text.contains(number)), "{text}");
            assert!(text.contains("`demo::scale`"), "{text}");
        }
    }

    #[test]
    fn a_product_of_axes_does_not_wrap_round() {
        for side in [1 << 16, 1 << 22, u32::MAX] {
            let huge = FINE.block([side; 3]);
            assert!(matches!(
                check(scale(), &huge, &LIMITS),
                Err(LaunchError::Limit { what: LaunchLimit::BlockAxis('x'), .. })
            ));
        }
    }

    #[test]
    fn clusters_must_match_those_of_the_kernel() {
        let fixed = Limits { cluster: [2, 1, 1], ..LIMITS };
        assert_eq!(check(scale(), &FINE.grid(4), &fixed), Ok(()));
        assert_eq!(check(scale(), &FINE.grid(4).cluster(2), &fixed), Ok(()));
        assert!(refused(FINE.grid(4).cluster(4), fixed).contains("4 x 1 x 1"));
        assert!(refused(FINE.grid(5), fixed).contains("5 x 1 x 1"));

        let open = Limits { cluster_must_be_set: true, ..LIMITS };
        assert!(refused(FINE.grid(4), open).contains("`cluster(..)`"));
        assert_eq!(check(scale(), &FINE.grid(4).cluster(4), &open), Ok(()));
    }
}

//! Generates kernels with random traits. Equal seeds give equal kernels.

use std::fmt;

use fastrand::Rng;

/// The traits of a kernel. Sizes are in bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kernel {
    pub(crate) number: usize,
    /// The kernel's local array.
    pub(crate) frame: Option<Frame>,
    pub(crate) recursion: Option<Recursion>,
    pub(crate) printf: bool,
    pub(crate) malloc: bool,
    pub(crate) assert: bool,
    /// The bytes of the local array in the kernel that this one launches.
    pub(crate) child_frame: Option<u32>,
    pub(crate) static_shared: u32,
    pub(crate) dynamic_shared: u32,
    pub(crate) cluster: Option<Cluster>,
    pub(crate) block: u32,
    /// The number of blocks, or of clusters if the kernel has clusters.
    pub(crate) grid: u32,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub(crate) bytes: u32,
    /// Whether the array is in a called function rather than in the kernel itself.
    pub(crate) called: bool,
}

/// A recursive function that a kernel calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recursion {
    /// The bytes of the local array of each call.
    pub(crate) frame: u32,
    pub(crate) depth: u32,
    /// Whether the kernel's declaration states how much stack it needs.
    pub(crate) declared: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Cluster {
    pub(crate) blocks: u32,
    /// Whether the launch sets the cluster size, rather than the source.
    pub(crate) at_launch: bool,
}

/// The bytes of the largest local array.
const MOST_FRAME: u32 = 24 << 10;

/// The most bytes of stack for all calls of a recursion.
const MOST_RECURSION: u32 = 40 << 10;

/// The bytes of stack that a call may need in addition to its array, more than was ever measured.
const CALL: u32 = 192;

impl Kernel {
    pub(crate) fn random(number: usize, random: &mut Rng) -> Self {
        let chance = |random: &mut Rng, percent| random.u32(0..100) < percent;
        let cluster =
            chance(random, 12).then(|| Cluster { blocks: 1 << random.u32(1..3), at_launch: random.bool() });
        Kernel {
            number,
            frame: chance(random, 60)
                .then(|| Frame { bytes: size(random, 16, MOST_FRAME), called: random.bool() }),
            recursion: chance(random, 16).then(|| {
                let frame = size(random, 16, 4096);
                let depth = random.u32(1..=(MOST_RECURSION / (frame + CALL)).min(12));
                Recursion { frame, depth, declared: random.bool() }
            }),
            printf: chance(random, 12),
            malloc: chance(random, 12),
            assert: chance(random, 12),
            child_frame: chance(random, 12).then(|| size(random, 16, MOST_FRAME)),
            static_shared: if chance(random, 20) { size(random, 16, 40 << 10) } else { 0 },
            dynamic_shared: if chance(random, 20) { size(random, 16, 160 << 10) } else { 0 },
            cluster,
            block: 1 << random.u32(0..8),
            grid: 1 << random.u32(0..3),
        }
    }

    pub(crate) fn name(&self) -> String {
        format!("k{:04}", self.number)
    }

    /// Returns the declared stack of a recursive kernel in bytes, which is enough for it. `None` if it
    /// declares none.
    pub(crate) fn declared_stack(&self) -> Option<u32> {
        let Recursion { frame, depth, .. } = self.recursion.filter(|recursion| recursion.declared)?;
        Some(self.frame.map_or(0, |own| own.bytes) + (frame + CALL) * (depth + 2) + 1024)
    }
}

/// Returns a random multiple of 16 within these bounds. Small and large sizes are equally frequent.
fn size(random: &mut Rng, least: u32, most: u32) -> u32 {
    let (least_log, most_log) = (f64::from(least).log2(), f64::from(most).log2());
    let bytes = (least_log + random.f64() * (most_log - least_log)).exp2();
    (bytes as u32).next_multiple_of(16).min(most)
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut traits = Vec::new();
        traits.extend(self.frame.map(|Frame { bytes, called }| {
            format!("frame {bytes}{}", if called { " in a function" } else { "" })
        }));
        traits.extend(self.recursion.map(|Recursion { frame, depth, declared }| {
            format!("recursion {depth} x {frame}{}", if declared { " declared" } else { "" })
        }));
        let words = [(self.printf, "printf"), (self.malloc, "malloc"), (self.assert, "assert")];
        traits.extend(words.into_iter().filter(|(is_so, _)| *is_so).map(|(_, word)| word.to_owned()));
        traits.extend(self.child_frame.map(|bytes| format!("launches a kernel with frame {bytes}")));
        let shared = [(self.static_shared, "static"), (self.dynamic_shared, "dynamic")];
        let shared = shared.into_iter().filter(|(bytes, _)| *bytes > 0);
        traits.extend(shared.map(|(bytes, kind)| format!("{kind} shared {bytes}")));
        traits.extend(self.cluster.map(|Cluster { blocks, at_launch }| {
            format!("clusters of {blocks}{}", if at_launch { " at launch" } else { "" })
        }));
        if traits.is_empty() { f.write_str("plain") } else { f.write_str(&traits.join(", ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernels(seed: u64) -> Vec<Kernel> {
        let mut random = Rng::with_seed(seed);
        (0..500).map(|number| Kernel::random(number, &mut random)).collect()
    }

    #[test]
    fn a_seed_always_gives_the_same_kernels() {
        let words = |seed| kernels(seed).iter().map(Kernel::to_string).collect::<Vec<_>>();
        assert_eq!(words(1), words(1));
        assert_ne!(words(1), words(2));
    }

    #[test]
    fn sizes_are_within_their_bounds() {
        for seed in 0..20 {
            for kernel in kernels(seed) {
                assert!(
                    kernel.frame.is_none_or(|frame| (16..=MOST_FRAME).contains(&frame.bytes)),
                    "{kernel}"
                );
                assert!(kernel.static_shared + kernel.dynamic_shared <= 200 << 10, "{kernel}");
                let stack = kernel.declared_stack().unwrap_or(0);
                assert!(stack <= MOST_FRAME + MOST_RECURSION + (16 << 10), "{kernel}: {stack}");
            }
        }
    }

    #[test]
    fn every_trait_occurs() {
        let kernels = kernels(1);
        let count = |is_so: fn(&Kernel) -> bool| kernels.iter().filter(|kernel| is_so(kernel)).count();
        for least in [
            count(|kernel| kernel.recursion.is_some_and(|recursion| recursion.declared)),
            count(|kernel| kernel.recursion.is_some_and(|recursion| !recursion.declared)),
            count(|kernel| kernel.child_frame.is_some()),
            count(|kernel| kernel.printf && kernel.frame.is_some()),
            count(|kernel| kernel.cluster.is_some_and(|cluster| cluster.at_launch)),
            count(|kernel| kernel.malloc),
            count(|kernel| kernel.assert),
            count(|kernel| kernel.dynamic_shared > 48 << 10),
        ] {
            assert!(least >= 10);
        }
    }
}

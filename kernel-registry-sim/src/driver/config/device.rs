//! Lists the devices that can be simulated, with their names, architectures and sizes.

use kernel_registry_cuda::fit;

/// A simulated device: name, architecture, number of multiprocessors, memory and speed. The resources of a
/// multiprocessor follow from the architecture.
///
/// ```
/// use kernel_registry_sim::Device;
///
/// let small = Device::h200().processors(16).memory(8 << 30);
/// let other = Device::new("a device of tomorrow", 130, 200, 256 << 30);
/// assert_ne!(small, other);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    pub(crate) name: String,
    /// The architecture, such as 90 for sm_90.
    pub(crate) arch: u32,
    /// The number of multiprocessors.
    pub(crate) processors: u32,
    /// Bytes of memory.
    pub(crate) memory: u64,
    pub(crate) speed: Speed,
}

/// The speed of a device, as the driver's attributes give it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Speed {
    /// The clock rates of the multiprocessors and of the memory in MHz.
    pub(crate) clock: u32,
    pub(crate) memory_clock: u32,
    /// Width of the memory bus in bits.
    pub(crate) bus: u32,
    /// MiB of L2 cache.
    pub(crate) cache: u32,
}

/// Defines a constructor for each device, and the lookup by name. The memory sizes are about those that the real driver
/// reports.
macro_rules! known {
    ($($key:literal $function:ident: $name:literal, $arch:literal, $processors:literal x, $memory:literal MiB,
        $clock:literal / $memory_clock:literal MHz, $bus:literal bits, $cache:literal MiB;)*) => {
        impl Device {
            $(#[doc = concat!("`", $key, "`: ", $name, ", sm_", stringify!($arch), ".")]
            pub fn $function() -> Self {
                let speed = Speed { clock: $clock, memory_clock: $memory_clock, bus: $bus, cache: $cache };
                Device { speed, ..Device::new($name, $arch, $processors, $memory << 20) }
            })*

            /// Returns the device with this name, as in `KERNEL_REGISTRY_SIM_DEVICES`: `h200`.
            pub fn named(name: &str) -> Option<Self> {
                match name {
                    $($key => Some(Device::$function()),)*
                    _ => None,
                }
            }

            /// The names that [`named`](Device::named) knows.
            pub const NAMES: &[&str] = &[$($key),*];
        }
    };
}

known! {
    "t4" t4: "Tesla T4", 75, 40 x, 15_095 MiB, 1590 / 5001 MHz, 256 bits, 4 MiB;
    "a100" a100: "NVIDIA A100-SXM4-80GB", 80, 108 x, 81_154 MiB, 1410 / 1593 MHz, 5120 bits, 40 MiB;
    "l4" l4: "NVIDIA L4", 89, 58 x, 22_565 MiB, 2040 / 6251 MHz, 192 bits, 48 MiB;
    "h100" h100: "NVIDIA H100 80GB HBM3", 90, 132 x, 81_079 MiB, 1980 / 2619 MHz, 5120 bits, 50 MiB;
    "h100-1g" h100_1g: "NVIDIA H100 80GB HBM3 MIG 1g.10gb", 90, 16 x, 9_856 MiB, 1980 / 2619 MHz, 5120 bits, 6 MiB;
    "h200" h200: "NVIDIA H200", 90, 132 x, 143_360 MiB, 1980 / 3201 MHz, 6144 bits, 60 MiB;
    "b200" b200: "NVIDIA B200", 100, 148 x, 182_642 MiB, 1965 / 3996 MHz, 7680 bits, 126 MiB;
    "rtx5090" rtx5090: "NVIDIA GeForce RTX 5090", 120, 170 x, 32_110 MiB, 2407 / 14_001 MHz, 512 bits, 96 MiB;
}

impl Device {
    /// Returns a device that has no constructor of its own. Its speed is that of an H200.
    pub fn new(name: &str, arch: u32, processors: u32, memory: u64) -> Self {
        let speed = Speed { clock: 1980, memory_clock: 3201, bus: 6144, cache: 60 };
        Device { name: name.to_owned(), arch, processors, memory, speed }
    }

    /// Sets the architecture, such as 80 for sm_80.
    pub fn arch(self, arch: u32) -> Self {
        Device { name: format!("device of sm_{arch}"), arch, ..self }
    }

    /// Sets the number of multiprocessors.
    pub fn processors(self, processors: u32) -> Self {
        Device { processors, ..self }
    }

    /// Sets the memory, in bytes.
    pub fn memory(self, memory: u64) -> Self {
        Device { memory, ..self }
    }

    /// Returns the resources of a multiprocessor. An architecture without a row has the resources of the last
    /// architecture before it.
    pub(crate) fn room(&self) -> fit::Device {
        let rows = fit::Device::all();
        let row = rows.iter().rev().find(|row| row.sm <= self.arch).unwrap_or(&rows[0]);
        fit::Device { processors: self.processors, ..row.clone() }
    }

    /// Returns how many threads can be resident on the device.
    pub(crate) fn threads(&self) -> u64 {
        u64::from(self.processors) * u64::from(self.room().threads)
    }

    /// Returns the most bytes of shared memory that a block can opt in to.
    pub(crate) fn shared_of_block(&self) -> u32 {
        self.room().block_shared
    }

    pub(crate) fn has_clusters(&self) -> bool {
        self.arch >= 90
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_have_the_sizes_of_the_real_ones() {
        for name in Device::NAMES {
            assert!(Device::named(name).is_some(), "{name}");
        }
        let most = |device: Device| (device.threads(), device.shared_of_block() >> 10);
        assert_eq!(most(Device::h200()), (132 * 2048, 227));
        assert_eq!(most(Device::t4()), (40 * 1024, 64));
        assert_eq!(most(Device::a100()), (108 * 2048, 163));
        assert_eq!(most(Device::rtx5090()), (170 * 1536, 99));
        assert_eq!(Device::named("h900"), None);
    }
}

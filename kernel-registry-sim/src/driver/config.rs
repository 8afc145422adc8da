//! What is simulated.

use std::env;

/// A driver and its devices, which are all alike.
///
/// ```
/// use kernel_registry_sim::Config;
///
/// Config::default().devices(2).install()?;
/// # Ok::<(), kernel_registry_sim::InstallError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    pub(super) devices: usize,
    pub(super) arch: u32,
    pub(super) processors: u32,
    pub(super) memory: u64,
    pub(super) version: i32,
    pub(super) eager: bool,
    pub(super) deadlock: Deadlock,
}

/// What becomes of a deadlock, after it was reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadlock {
    /// The wait goes on: kernels that give up after a time end it.
    Wait,
    /// The call returns `CUDA_ERROR_LAUNCH_TIMEOUT`; a launch is dropped, and its context has that error.
    Fail,
    /// The process is aborted.
    Abort,
}

impl Default for Config {
    /// What was measured: one H200 with a driver of CUDA 13.0, which loads lazily.
    fn default() -> Self {
        Config {
            devices: 1,
            arch: 90,
            processors: 132,
            memory: 140 << 30,
            version: 13_000,
            eager: false,
            deadlock: Deadlock::Wait,
        }
    }
}

impl Config {
    /// The default, but for what these variables say: `KERNEL_REGISTRY_SIM_DEVICES` (a number), `.._ARCH` (such as 90),
    /// `.._PROCESSORS`, `.._MEMORY` (bytes of each device), `.._DRIVER` (such as 12.4), `.._DEADLOCK` (`wait`, `fail` or
    /// `abort`), and `CUDA_MODULE_LOADING` (`LAZY` or `EAGER`) and `CUDA_VISIBLE_DEVICES` (if it is empty, there is none),
    /// which the real driver has too.
    ///
    /// What cannot be understood is reported on standard error, and not used.
    pub fn from_environment() -> Self {
        let default = Config::default();
        Config {
            devices: match env::var("CUDA_VISIBLE_DEVICES").as_deref() {
                Ok("") => 0,
                _ => variable("DEVICES", parsed).unwrap_or(default.devices),
            },
            arch: variable("ARCH", parsed).unwrap_or(default.arch),
            processors: variable("PROCESSORS", parsed).unwrap_or(default.processors),
            memory: variable("MEMORY", parsed).unwrap_or(default.memory),
            version: variable("DRIVER", version).unwrap_or(default.version),
            eager: env::var("CUDA_MODULE_LOADING").is_ok_and(|mode| mode == "EAGER"),
            deadlock: variable("DEADLOCK", deadlock).unwrap_or(default.deadlock),
        }
    }

    /// How many devices there are.
    pub fn devices(self, devices: usize) -> Self {
        Config { devices, ..self }
    }

    /// The architecture, such as 90.
    pub fn arch(self, arch: u32) -> Self {
        Config { arch, ..self }
    }

    /// The multiprocessors of a device.
    pub fn processors(self, processors: u32) -> Self {
        Config { processors, ..self }
    }

    /// The bytes of memory that a device has.
    pub fn memory(self, memory: u64) -> Self {
        Config { memory, ..self }
    }

    /// The version of CUDA that the driver supports, such as (12, 4). Functions that are newer are not there.
    pub fn driver(self, (major, minor): (u32, u32)) -> Self {
        Config { version: (major * 1000 + minor * 10).cast_signed(), ..self }
    }

    /// Whether kernels are loaded with their image, as with `CUDA_MODULE_LOADING=EAGER`.
    pub fn eager(self, eager: bool) -> Self {
        Config { eager, ..self }
    }

    /// What becomes of a deadlock.
    pub fn deadlock(self, deadlock: Deadlock) -> Self {
        Config { deadlock, ..self }
    }

    /// The threads that a device has room for.
    pub(super) fn threads(&self) -> u64 {
        u64::from(self.processors) * 2048
    }
}

fn variable<T>(name: &str, parse: fn(&str) -> Option<T>) -> Option<T> {
    let name = format!("KERNEL_REGISTRY_SIM_{name}");
    let value = env::var(&name).ok()?;
    let parsed = parse(&value);
    if parsed.is_none() {
        eprintln!("simulated CUDA driver: `{name}` is `{value}`, which is not understood, and not used");
    }
    parsed
}

fn parsed<T: std::str::FromStr>(value: &str) -> Option<T> {
    value.parse().ok()
}

fn version(value: &str) -> Option<i32> {
    let (major, minor) = value.split_once('.')?;
    Some(major.parse::<i32>().ok()? * 1000 + minor.parse::<i32>().ok()? * 10)
}

fn deadlock(value: &str) -> Option<Deadlock> {
    match value {
        "wait" => Some(Deadlock::Wait),
        "fail" => Some(Deadlock::Fail),
        "abort" => Some(Deadlock::Abort),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_numbers_as_the_driver_has_them() {
        assert_eq!(version("12.4"), Some(12_040));
        assert_eq!(version("13"), None);
        assert_eq!(Config::default().driver((11, 8)).version, 11_080);
    }
}

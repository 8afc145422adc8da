//! Configures the simulated driver: its devices, its version, and its faults.

pub(crate) mod device;
pub(crate) mod faults;
pub(crate) mod races;
pub(crate) mod timing;

use std::env;
use std::time::Duration;

use device::Device;
use faults::Fault;
use races::Races;
use timing::Timing;

/// The configuration of a simulated driver and its devices.
///
/// ```
/// use kernel_registry_sim::{Config, Device};
///
/// Config::with_devices([Device::h200(), Device::t4()]).driver((12, 4)).install()?;
/// # Ok::<(), kernel_registry_sim::InstallError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    pub(crate) devices: Vec<Device>,
    pub(crate) version: i32,
    pub(crate) eager: bool,
    pub(crate) deadlock: Deadlock,
    /// Whether a kernel's fault breaks only the kernel's context. Otherwise a fault breaks all contexts.
    pub(crate) contained: bool,
    /// The time that compiling 1 KiB of PTX takes.
    pub(crate) jit: Duration,
    pub(crate) timing: Option<Timing>,
    pub(crate) faults: Vec<Fault>,
    pub(crate) races: Races,
}

/// The driver's reaction after it has reported a deadlock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadlock {
    /// The wait goes on. A kernel with a time limit may still end it.
    Wait,
    /// The wait goes on, without a report: an audit in front of the driver explains it.
    Explained,
    /// The call returns `CUDA_ERROR_LAUNCH_TIMEOUT`. A launch is dropped, and the launch's context keeps this
    /// error.
    Fail,
    /// The process is aborted.
    Abort,
}

impl Default for Config {
    /// Returns the configuration of one H200, with a driver of CUDA 13.0 that loads lazily.
    fn default() -> Self {
        Config::with_devices([Device::h200()])
    }
}

impl Config {
    /// Returns the configuration of a driver of the default version with these devices.
    pub fn with_devices(devices: impl IntoIterator<Item = Device>) -> Self {
        Config {
            devices: devices.into_iter().collect(),
            version: 13_000,
            eager: false,
            deadlock: Deadlock::Wait,
            contained: false,
            jit: Duration::ZERO,
            timing: None,
            faults: Vec::new(),
            races: Races::Off,
        }
    }

    /// Returns the default configuration, changed by these environment variables, whose names begin with
    /// `KERNEL_REGISTRY_SIM_`:
    ///
    /// | variable | value |
    /// |---|---|
    /// | `DEVICES` | the number of devices, or their [names](Device::named): `h200,t4` |
    /// | `ARCH`, `PROCESSORS`, `MEMORY` | architecture (90 for sm_90), number of multiprocessors, and bytes of memory of each device |
    /// | `DRIVER` | the version of CUDA that the driver supports, such as 12.4 |
    /// | `DEADLOCK` | `wait`, `explained`, `fail` or `abort` |
    /// | `FAILURES` | what a kernel's fault breaks: the `process`, or only its `context` ([contained](Config::contained)) |
    /// | `FAULTS` | [faults](Fault), separated by commas |
    /// | `JIT` | the time for [compiling](Config::jit) 1 KiB of PTX, such as `250us` |
    /// | `RACES` | `report` to look for [races](Config::races), or the absolute path of a file that also gets a byte for each |
    /// | `TIMING` | a seed and the longest [delay](Config::timing): `42:200us` |
    ///
    /// `CUDA_MODULE_LOADING` (`LAZY` or `EAGER`) and `CUDA_VISIBLE_DEVICES` (numbers of devices; no device if empty)
    /// are obeyed as by the real driver.
    ///
    /// A value that cannot be parsed is reported on standard error and ignored. So is a variable with an unknown name.
    pub fn from_environment() -> Self {
        let names = env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        for name in names.filter(|name| is_misspelled(name)) {
            eprintln!(
                "simulated CUDA driver: `{name}` is no variable of it; there are {}",
                VARIABLES.join(", ")
            );
        }
        let mut config =
            Config::with_devices(read_variable("DEVICES", devices).unwrap_or_else(|| vec![Device::h200()]));
        if let Some(arch) = read_variable("ARCH", parse) {
            config = config.arch(arch);
        }
        if let Some(processors) = read_variable("PROCESSORS", parse) {
            config = config.processors(processors);
        }
        if let Some(bytes) = read_variable("MEMORY", parse) {
            config = config.memory(bytes);
        }
        if let Ok(visible) = env::var("CUDA_VISIBLE_DEVICES") {
            config.devices = visible_devices(&config.devices, &visible);
        }
        Config {
            version: read_variable("DRIVER", version).unwrap_or(config.version),
            eager: env::var("CUDA_MODULE_LOADING").is_ok_and(|mode| is_eager(&mode)),
            deadlock: read_variable("DEADLOCK", deadlock).unwrap_or(config.deadlock),
            contained: read_variable("FAILURES", failures).unwrap_or(config.contained),
            jit: read_variable("JIT", timing::duration).unwrap_or(config.jit),
            timing: read_variable("TIMING", parse),
            faults: read_variable("FAULTS", faults).unwrap_or_default(),
            races: read_variable("RACES", Races::parse).unwrap_or_default(),
            ..config
        }
    }

    /// Sets the number of devices. All devices are then like the first device.
    pub fn devices(self, devices: usize) -> Self {
        let first = self.devices.into_iter().next().unwrap_or_else(Device::h200);
        Config { devices: vec![first; devices], ..self }
    }

    /// Sets the architecture of all devices, such as 90.
    pub fn arch(self, arch: u32) -> Self {
        self.map_devices(|device| device.arch(arch))
    }

    /// Sets the number of multiprocessors of each device.
    pub fn processors(self, processors: u32) -> Self {
        self.map_devices(|device| device.processors(processors))
    }

    /// Sets the memory of each device, in bytes.
    pub fn memory(self, memory: u64) -> Self {
        self.map_devices(|device| device.memory(memory))
    }

    fn map_devices(self, with: impl FnMut(Device) -> Device) -> Self {
        Config { devices: self.devices.into_iter().map(with).collect(), ..self }
    }

    /// Sets the version of CUDA that the driver supports, such as (12, 4). The driver then lacks newer functions.
    pub fn driver(self, (major, minor): (u32, u32)) -> Self {
        Config { version: (major * 1000 + minor * 10).cast_signed(), ..self }
    }

    /// Sets whether kernels are loaded with their image, as with `CUDA_MODULE_LOADING=EAGER`.
    pub fn eager(self, eager: bool) -> Self {
        Config { eager, ..self }
    }

    /// Sets what the driver does after it has reported a deadlock.
    pub fn deadlock(self, deadlock: Deadlock) -> Self {
        Config { deadlock, ..self }
    }

    /// Sets whether a kernel's fault breaks only its own context. By default, as with NVIDIA's driver, a fault breaks
    /// every context of the process on all devices, and no new context can be created. Tests that continue after a
    /// fault set this to `true`.
    pub fn contained(self, contained: bool) -> Self {
        Config { contained, ..self }
    }

    /// Sets the time for compiling 1 KiB of PTX, in images without machine code for the device. By default, compiling
    /// takes no time. `cuLibraryLoadData` compiles in several threads in parallel, and `cuModuleLoadData` in one thread
    /// at a time, as was measured. A real driver takes about 7 ms for a kernel of 4 KiB of machine code.
    pub fn jit(self, jit: Duration) -> Self {
        Config { jit, ..self }
    }

    /// Delays each call, and each turn of a kernel, by a pseudo-random time of up to `longest`. Equal seeds give equal
    /// delays. Another seed makes the threads run in another order.
    pub fn timing(self, seed: u64, longest: Duration) -> Self {
        Config { timing: Some(Timing::new(seed, longest)), ..self }
    }

    /// Sets whether races are looked for: accesses to the same memory that nothing orders, by threads of kernels or by copies.
    /// Each is written to standard error, and returned by [`races`](crate::races). Kernels then run several times slower.
    ///
    /// What the host itself does to memory isn't seen, nor kernels with clusters and matrix instructions.
    pub fn races(self, races: bool) -> Self {
        Config { races: if races { Races::Report } else { Races::Off }, ..self }
    }

    /// Adds a fault, which is injected from the start.
    pub fn fault(mut self, fault: Fault) -> Self {
        self.faults.push(fault);
        self
    }
}

/// The names of the environment variables, without `KERNEL_REGISTRY_SIM_`.
const VARIABLES: [&str; 11] = [
    "DEVICES",
    "ARCH",
    "PROCESSORS",
    "MEMORY",
    "DRIVER",
    "DEADLOCK",
    "FAILURES",
    "FAULTS",
    "JIT",
    "RACES",
    "TIMING",
];

/// The variables of a process that another one explores.
const OWN: [&str; 5] = ["DETAILED", "EXPLORING", "PLAN", "RECORD", "ROOM"];

fn is_misspelled(name: &str) -> bool {
    name.strip_prefix("KERNEL_REGISTRY_SIM_")
        .is_some_and(|name| !VARIABLES.contains(&name) && !OWN.contains(&name))
}

fn read_variable<T>(name: &str, parse: fn(&str) -> Option<T>) -> Option<T> {
    let name = format!("KERNEL_REGISTRY_SIM_{name}");
    let value = env::var(&name).ok()?;
    let parsed = parse(&value);
    if parsed.is_none() {
        eprintln!("simulated CUDA driver: `{name}` is `{value}`, which cannot be parsed, and is not used");
    }
    parsed
}

fn parse<T: std::str::FromStr>(value: &str) -> Option<T> {
    value.parse().ok()
}

fn devices(value: &str) -> Option<Vec<Device>> {
    match value.parse() {
        Ok(count) => Some(vec![Device::h200(); count]),
        Err(_) => value.split(',').map(|name| Device::named(name.trim())).collect(),
    }
}

/// Returns the devices that `CUDA_VISIBLE_DEVICES` lists, up to the first that does not exist, like the real driver.
fn visible_devices(devices: &[Device], visible: &str) -> Vec<Device> {
    let named = visible.split(',').map_while(|number| devices.get(number.trim().parse::<usize>().ok()?));
    named.cloned().collect()
}

fn faults(value: &str) -> Option<Vec<Fault>> {
    value.split(',').map(|fault| fault.trim().parse().ok()).collect()
}

fn version(value: &str) -> Option<i32> {
    let (major, minor) = value.split_once('.')?;
    Some(major.parse::<i32>().ok()? * 1000 + minor.parse::<i32>().ok()? * 10)
}

/// Returns whether `CUDA_MODULE_LOADING` asks for eager loading. As with the real driver, case does not matter.
fn is_eager(mode: &str) -> bool {
    mode.eq_ignore_ascii_case("EAGER")
}

fn deadlock(value: &str) -> Option<Deadlock> {
    match value {
        "wait" => Some(Deadlock::Wait),
        "explained" => Some(Deadlock::Explained),
        "fail" => Some(Deadlock::Fail),
        "abort" => Some(Deadlock::Abort),
        _ => None,
    }
}

fn failures(value: &str) -> Option<bool> {
    match value {
        "process" => Some(false),
        "context" => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_variables_with_our_prefix_are_misspelled() {
        let names = ["KERNEL_REGISTRY_SIM", "KERNEL_REGISTRY_SIM_JIT", "KERNEL_REGISTRY_SIM_DEVICE", "PATH"];
        assert_eq!(names.map(is_misspelled), [false, false, true, false]);
    }

    #[test]
    fn versions_become_the_numbers_of_the_driver() {
        assert_eq!(version("12.4"), Some(12_040));
        assert_eq!(version("13"), None);
        assert_eq!(Config::default().driver((11, 8)).version, 11_080);
    }

    #[test]
    fn the_loading_mode_is_read_in_any_case() {
        assert_eq!(["EAGER", "eager", "LAZY", "at once"].map(is_eager), [true, true, false, false]);
    }

    #[test]
    fn devices_are_a_number_or_names() {
        assert_eq!(devices("2"), Some(vec![Device::h200(), Device::h200()]));
        let two = devices("h200, t4").unwrap();
        assert_eq!(two, [Device::h200(), Device::t4()]);
        assert_eq!(devices("h200,nothing"), None);
        assert_eq!(visible_devices(&two, "1"), [Device::t4()]);
        assert_eq!(visible_devices(&two, "1,0"), [Device::t4(), Device::h200()]);
        assert_eq!(visible_devices(&two, "0,7,1"), [Device::h200()]);
        assert_eq!(visible_devices(&two, ""), []);
    }
}

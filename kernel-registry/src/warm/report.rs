//! The report of a warm-up: what it found and did, for people and for programs.

use std::fmt;
use std::time::Duration;

use kernel_registry_format::Printable;

use super::causes::groups;
use super::failure::{Failure, HookFailure};
use super::not_baked::NotBaked;
use super::progress::Stage;
use super::words::{Bytes, Count};
use crate::contexts::KernelReport;
use crate::copies::REMEDY;
use crate::milliseconds::milliseconds;
use crate::{CudaVersion, OtherCopy};

/// The report of a warm-up: what [`warm_all`](super::warm_all) found and did.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Report {
    /// The device's name.
    pub device: String,
    /// The device's architecture: 90 for sm_90.
    pub arch: u32,
    /// The newest CUDA that the driver supports.
    pub driver: CudaVersion,
    /// Whether the driver loads kernels when they are first needed, which is its default.
    pub loads_lazily: bool,
    /// The kernels that are warm, in the registry's order.
    pub kernels: Vec<KernelReport>,
    /// The kernels that this device cannot run, because their declarations ask for a newer device.
    pub unavailable: Vec<Unavailable>,
    /// The kernels that could not be warmed.
    pub failures: Vec<Failure>,
    /// The `#[warmup]` functions that failed.
    pub hook_failures: Vec<HookFailure>,
    /// Other copies of kernel-registry in the program. Their kernels are not warm. Usually empty.
    pub other_copies: &'static [OtherCopy],
    /// The `#[warmup]` functions that this warm-up ran, in order.
    pub hooks: Vec<HookReport>,
    /// How many images this warm-up loaded. Images that an earlier warm-up loaded stay loaded, and do not count.
    pub images_loaded: usize,
    /// The file of baked code that this warm-up used.
    pub baked: Option<String>,
    /// Why it used no baked code, or not for some images. Empty if there is no such file.
    pub not_baked: Vec<NotBaked>,
    /// The images that other code was to get by `RuntimeImage::adopt` and loads by itself, because they have variables. Usually empty.
    pub not_adopted: Vec<NotAdopted>,
    /// The context's stack limit, in bytes per thread. 0 if the warm-up stopped early.
    #[cfg_attr(feature = "serde", serde(rename = "stack_bytes"))]
    pub stack: u64,
    /// How much less device memory is free than when the warm-up began, in bytes. Other code may have allocated part of it.
    #[cfg_attr(feature = "serde", serde(rename = "device_memory_bytes"))]
    pub device_memory: u64,
    /// Whether the driver confirmed that each kernel is loaded. Drivers before CUDA 12.4 cannot confirm it.
    pub verified: bool,
    /// How long each stage took. Serialized as `stages_ms`.
    #[cfg_attr(feature = "serde", serde(rename = "stages_ms", serialize_with = "serialize_stages"))]
    pub stages: Vec<(Stage, Duration)>,
}

/// A `#[warmup]` function that has run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct HookReport {
    /// The function's path.
    pub path: &'static str,
    /// How long the function took. Serialized as `took_ms`.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "took_ms", serialize_with = "crate::milliseconds::serialize")
    )]
    pub took: Duration,
    /// How many kernels the function loaded that are not registered.
    pub loaded: usize,
}

/// A kernel that this device cannot run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Unavailable {
    /// The kernel's path.
    pub path: &'static str,
    /// The least architecture that its declaration asks for: 90 for sm_90. 0 for a kernel that nvcc linked without code for this device.
    pub min_arch: u32,
}

/// An image that was not adopted by `RuntimeImage::adopt`, because launches leave values in a variable of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct NotAdopted {
    /// The image.
    pub image: &'static str,
    /// The first such variable, or the section of machine code with variables.
    pub variable: String,
}

impl fmt::Display for NotAdopted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NotAdopted { image, variable } = self;
        write!(
            f,
            "`{}` has the variable `{}`, and each load of an image has variables of its own, so other code loads it by itself; let that \
             code load it before the program is ready, or pass memory to its kernels instead",
            Printable(image),
            Printable(variable)
        )
    }
}

impl Report {
    /// Returns the warm kernels whose launches may still wait, because their stack is unbounded: their calls are recursive,
    /// and their declarations have no `stack = ..`.
    pub fn unknown_stacks(&self) -> impl Iterator<Item = &KernelReport> {
        self.kernels.iter().filter(|kernel| !kernel.stack_known)
    }

    /// Returns whether every selected kernel is warm or unavailable, and no `#[warmup]` function failed.
    pub fn is_complete(&self) -> bool {
        self.failures.is_empty() && self.hook_failures.is_empty()
    }

    /// Returns how long all stages took together.
    pub fn total(&self) -> Duration {
        self.stages.iter().map(|(_, time)| time).sum()
    }
}

/// What a program without kernels lacks.
const NOTHING: &str = "this program registers no kernel, or `Warmup::only` selects none. `#[gpu_kernel]` declares one; a crate \
    that declares some needs `link_kernels!(that_crate);` in the program; `kernel_registry_build::linked()` in its build script registers \
    those that nvcc links, of C++ code that the program calls";

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { device, arch, driver, kernels, unavailable, failures, hook_failures, .. } = self;
        let mode = if self.loads_lazily { "lazy" } else { "eager" };
        let warm = Count(kernels.len(), "kernel");
        writeln!(f, "{warm} warm on {device} (sm_{arch}), driver for CUDA {driver}, {mode} loading")?;
        if !kernels.is_empty() {
            self.write_table(f)?;
        } else if self.is_complete() && unavailable.is_empty() && self.hooks.is_empty() {
            writeln!(f, "NOTHING TO WARM: {NOTHING}")?;
        }
        for KernelReport { path, stack, .. } in self.unknown_stacks() {
            writeln!(
                f,
                "STACK NOT KNOWN, at least {stack} bytes: {path} (its calls are recursive: declare its `stack = ..`, or a \
                 launch may wait)"
            )?;
        }
        for Unavailable { path, min_arch } in unavailable {
            match min_arch {
                0 => writeln!(f, "unavailable here, nvcc linked no code for this device: {path}")?,
                min_arch => writeln!(f, "unavailable here, needs sm_{min_arch}: {path}")?,
            }
        }
        for HookReport { path, took, loaded } in &self.hooks {
            write!(f, "warmup function {path}: {:.1} ms", milliseconds(*took))?;
            match loaded {
                0 => writeln!(f)?,
                loaded => writeln!(f, ", {} loaded", Count(*loaded, "kernel"))?,
            }
        }
        if let Some(baked) = &self.baked {
            writeln!(f, "baked code: `{}`", Printable(baked))?;
        }
        for why in &self.not_baked {
            writeln!(f, "NOT BAKED: {why}")?;
        }
        for image in &self.not_adopted {
            writeln!(f, "NOT ADOPTED: {image}")?;
        }
        for group in groups(failures) {
            writeln!(f, "NOT WARM: {group}")?;
        }
        for failure in hook_failures {
            writeln!(f, "FAILED: {failure}")?;
        }
        for copy in self.other_copies.iter().filter(|copy| !copy.kernels.is_empty()) {
            writeln!(f, "NOT WARM: {copy}\n  {REMEDY}")?;
        }
        writeln!(
            f,
            "stack {} a thread, {} of device memory, {} loaded, {}",
            Bytes(self.stack),
            Bytes(self.device_memory),
            Count(self.images_loaded, "image"),
            match self.verified {
                true if kernels.is_empty() => "no kernel verified",
                true => "every kernel verified",
                false if self.driver.can_tell_what_is_loaded() => "not every kernel is loaded",
                false => "not verified: drivers before 12.4 cannot tell",
            }
        )?;
        write!(f, "{:.1} ms:", milliseconds(self.total()))?;
        self.stages.iter().try_for_each(|(stage, time)| write!(f, " {stage} {:.1}", milliseconds(*time)))
    }
}

impl Report {
    /// Writes a table with one row for each warm kernel.
    fn write_table(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width =
            |name: fn(&KernelReport) -> &str| self.kernels.iter().map(|kernel| name(kernel).len()).max();
        let path = width(|kernel| kernel.path).unwrap_or(0).max(6);
        let image = width(|kernel| kernel.image).unwrap_or(0).max(5);
        writeln!(
            f,
            "{:<path$}  {:<image$}  {:<8}  {:>4} {:>7} {:>7} {:>7} {:>6} {:>7}",
            "KERNEL", "IMAGE", "CODE", "REGS", "LOCAL", "STATIC", "DYNAMIC", "CONST", "THREADS"
        )?;
        for kernel in &self.kernels {
            let KernelReport { registers, local, static_shared, dynamic_shared, constants, threads, .. } =
                kernel;
            writeln!(
                f,
                "{:<path$}  {:<image$}  {:<8}  {registers:>4} {local:>7} {static_shared:>7} {dynamic_shared:>7} {constants:>6} {threads:>7}",
                kernel.path,
                kernel.image,
                kernel.code.as_str()
            )?;
        }
        Ok(())
    }
}

#[cfg(feature = "serde")]
fn serialize_stages<S: serde::Serializer>(
    stages: &[(Stage, Duration)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(stages.iter().map(|(stage, time)| (stage.as_str(), milliseconds(*time))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contexts::MachineCode;

    fn report() -> Report {
        let kernel = KernelReport {
            path: "kernels::saxpy",
            image: "images/a.ptx",
            code: MachineCode::Compiled,
            registers: 12,
            dynamic_shared: 49_152,
            threads: 1024,
            stack_known: true,
            resolved_in: Duration::from_micros(250),
            ..KernelReport::default()
        };
        Report {
            device: "NVIDIA H200".to_owned(),
            arch: 90,
            driver: CudaVersion::new(12, 2),
            loads_lazily: true,
            kernels: vec![kernel],
            unavailable: vec![Unavailable { path: "kernels::newer", min_arch: 100 }],
            failures: Vec::new(),
            hook_failures: Vec::new(),
            other_copies: &[],
            hooks: vec![HookReport { path: "app::cublas", took: Duration::from_micros(1500), loaded: 2 }],
            images_loaded: 1,
            baked: Some("/usr/bin/app.baked".to_owned()),
            not_baked: vec![NotBaked::Writable { path: "/usr/bin".to_owned() }],
            not_adopted: Vec::new(),
            stack: 2048,
            device_memory: 300 << 20,
            verified: false,
            stages: vec![
                (Stage::Load, Duration::from_micros(1500)),
                (Stage::Prime, Duration::from_micros(500)),
            ],
        }
    }

    #[test]
    fn the_report_is_written_as_text() {
        assert_eq!(
            report().to_string(),
            "\
1 kernel warm on NVIDIA H200 (sm_90), driver for CUDA 12.2, lazy loading
KERNEL          IMAGE         CODE      REGS   LOCAL  STATIC DYNAMIC  CONST THREADS
kernels::saxpy  images/a.ptx  compiled    12       0       0   49152      0    1024
unavailable here, needs sm_100: kernels::newer
warmup function app::cublas: 1.5 ms, 2 kernels loaded
baked code: `/usr/bin/app.baked`
NOT BAKED: others can write to `/usr/bin`; forbid that with `chmod go-w`
stack 2048 B a thread, 300 MiB of device memory, 1 image loaded, not verified: drivers before 12.4 cannot tell
2.0 ms: load 1.5 prime 0.5"
        );
    }

    #[cfg(feature = "serde")]
    #[test]
    fn the_report_is_written_as_json() {
        let json = serde_json::to_value(report()).expect("it is data");
        assert_eq!(json["driver"], "12.2");
        assert_eq!(json["kernels"][0]["path"], "kernels::saxpy");
        assert_eq!(json["kernels"][0]["code"], "compiled");
        assert_eq!(json["kernels"][0]["resolved_in_ms"], 0.25);
        assert_eq!(json["unavailable"][0]["min_arch"], 100);
        assert_eq!(json["stages_ms"], serde_json::json!({ "load": 1.5, "prime": 0.5 }));
    }
}

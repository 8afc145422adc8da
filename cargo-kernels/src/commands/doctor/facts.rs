//! Facts about the machine, such as its driver and GPUs. They are plain data, so tests of checks can use any values.

use std::collections::BTreeMap;
use std::path::PathBuf;

use kernel_registry_build::Available;
use kernel_registry_command::driver::Refused;
use kernel_registry_cuda::CudaVersion;

/// Everything that the checks read.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    /// Environment variables whose names begin with `CUDA`.
    pub(super) variables: BTreeMap<String, String>,
    pub(super) driver: Driver,
    /// The compiler that a build script would use, or why the build script would fail.
    pub(super) compiler: Result<Available, String>,
    pub(super) package: Package,
}

#[derive(Clone, Debug)]
pub(super) enum Driver {
    /// The driver library could not be loaded; `why` is the loader's message.
    Missing {
        why: String,
    },
    /// A call did not return.
    Silent {
        call: &'static str,
        seconds: u64,
    },
    Found(Found),
}

#[derive(Clone, Debug)]
pub(super) struct Found {
    /// The path of the library that the loader chose, if the operating system tells.
    pub(super) library: Option<PathBuf>,
    /// Whether the library is kernel-registry-sim.
    pub(super) simulated: bool,
    /// The newest CUDA version that the driver supports.
    pub(super) version: Option<CudaVersion>,
    pub(super) started: Result<Started, Refused>,
}

/// A driver after `cuInit`.
#[derive(Clone, Debug)]
pub(super) struct Started {
    /// Whether kernels are loaded on first use. Unknown before CUDA 11.7.
    pub(super) lazy: Option<bool>,
    pub(super) gpus: Vec<Gpu>,
}

#[derive(Clone, Debug)]
pub(super) struct Gpu {
    pub(super) name: String,
    /// The architecture: 90 for sm_90.
    pub(super) arch: u32,
    /// Bytes of device memory.
    pub(super) memory: u64,
    pub(super) multiprocessors: u32,
    /// The number of threads that a multiprocessor holds.
    pub(super) threads: u32,
    pub(super) mode: ComputeMode,
    /// Whether the driver ends kernels after some seconds, because the GPU also draws a screen.
    pub(super) watchdog: bool,
    /// Whether several processes share the GPU through the Multi-Process Service.
    pub(super) mps: bool,
    pub(super) context: Result<Context, Refused>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ComputeMode {
    Shared,
    Prohibited,
    /// One process at a time.
    Exclusive,
}

/// Values that can be read only in a context.
#[derive(Clone, Debug)]
pub(super) struct Context {
    /// Bytes of free device memory.
    pub(super) free: u64,
    /// Bytes of stack per thread.
    pub(super) stack: u64,
}

/// The dependencies of the package in the current folder.
#[derive(Clone, Debug)]
pub(super) enum Package {
    None,
    Unknown { why: String },
    Cudarc { crates: Vec<Cudarc>, nvcc: Option<CudaVersion> },
}

/// A version of cudarc among the dependencies.
#[derive(Clone, Debug)]
pub(super) struct Cudarc {
    pub(super) version: String,
    pub(super) features: Vec<String>,
    /// The CUDA versions that it has bindings for, in order.
    pub(super) known: Vec<CudaVersion>,
    /// The packages that depend on it, with the CUDA version that each asks for.
    pub(super) users: Vec<(String, Option<CudaVersion>)>,
}

impl Facts {
    /// Returns the newest CUDA version that the driver supports, if known.
    pub(super) fn driver_version(&self) -> Option<CudaVersion> {
        match &self.driver {
            Driver::Found(found) => found.version,
            Driver::Missing { .. } | Driver::Silent { .. } => None,
        }
    }

    pub(super) fn started(&self) -> Option<&Started> {
        match &self.driver {
            Driver::Found(found) => found.started.as_ref().ok(),
            Driver::Missing { .. } | Driver::Silent { .. } => None,
        }
    }

    pub(super) fn gpus(&self) -> &[Gpu] {
        self.started().map_or(&[], |started| &started.gpus)
    }

    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }
}

impl Found {
    /// Returns the release of the driver, such as `580.95.05`, from its library's name.
    pub(super) fn release(&self) -> Option<&str> {
        let name = self.library.as_ref()?.file_name()?.to_str()?;
        name.strip_prefix("libcuda.so.").filter(|release| release.contains('.'))
    }

    /// Returns whether the library is a forward compatibility package: a newer toolkit's library in place of the installed driver.
    pub(super) fn is_compat(&self) -> bool {
        self.library.as_ref().is_some_and(|path| path.iter().any(|folder| folder == "compat"))
    }

    /// Returns whether the library is a stub for linking without a driver. All functions of a stub fail.
    pub(super) fn is_stub(&self) -> bool {
        const STUB_LIBRARY: i32 = 34;
        let in_stubs = self.library.as_ref().and_then(|path| path.parent());
        let refuses = self.started.as_ref().is_err_and(|refused| refused.code == STUB_LIBRARY);
        refuses || in_stubs.is_some_and(|folder| folder.ends_with("stubs"))
    }
}

/// Reads `13.0` of `13.0.88`.
pub(super) fn cuda_version(text: &str) -> Option<CudaVersion> {
    let mut numbers = text.split('.').map(|number| number.parse::<u16>().ok());
    let (major, minor) = (numbers.next()??, numbers.next()??);
    Some(CudaVersion::new(major.into(), minor.into()))
}

/// Reads `12040` of `cuda-12040`, a feature of cudarc.
pub(super) fn version_of_feature(feature: &str) -> Option<CudaVersion> {
    feature.strip_prefix("cuda-")?.parse().ok().map(CudaVersion::from_number)
}

#[cfg(test)]
impl Facts {
    /// Returns the facts of a machine without problems.
    pub(super) fn good() -> Self {
        let started = Started { lazy: Some(true), gpus: vec![Gpu::h200()] };
        Facts {
            variables: BTreeMap::new(),
            driver: Driver::Found(Found {
                library: Some("/usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05".into()),
                simulated: false,
                version: Some(CudaVersion::new(13, 0)),
                started: Ok(started),
            }),
            compiler: Ok(Available::Compiler {
                name: "nvcc 13.0.88".to_owned(),
                file: Some("/cuda/bin/nvcc".into()),
            }),
            package: Package::Cudarc {
                crates: vec![Cudarc::pinned(12_080)],
                nvcc: Some(CudaVersion::new(13, 0)),
            },
        }
    }

    pub(super) fn found(&mut self) -> &mut Found {
        match &mut self.driver {
            Driver::Found(found) => found,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn gpu(&mut self) -> &mut Gpu {
        &mut self.found().started.as_mut().unwrap().gpus[0]
    }
}

#[cfg(test)]
impl Gpu {
    pub(super) fn h200() -> Self {
        Gpu {
            name: "NVIDIA H200".to_owned(),
            arch: 90,
            memory: 150_109_880_320,
            multiprocessors: 132,
            threads: 2048,
            mode: ComputeMode::Shared,
            watchdog: false,
            mps: false,
            context: Ok(Context { free: 149_500_000_000, stack: 1024 }),
        }
    }
}

#[cfg(test)]
impl Cudarc {
    pub(super) fn pinned(cuda: u32) -> Self {
        Cudarc {
            version: "0.19.10".to_owned(),
            features: ["driver", "fallback-dynamic-loading", &format!("cuda-{cuda}")]
                .map(str::to_owned)
                .to_vec(),
            known: [12_000, 12_040, 12_080, 13_000, 13_040].map(CudaVersion::from_number).to_vec(),
            users: vec![("app".to_owned(), Some(CudaVersion::from_number(cuda)))],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_cuda_are_read() {
        assert_eq!(cuda_version("13.0.88"), Some(CudaVersion::new(13, 0)));
        assert_eq!(cuda_version("12.4"), Some(CudaVersion::new(12, 4)));
        assert_eq!(cuda_version("12"), None);
        assert_eq!(cuda_version("4294967295.1"), None);
        assert_eq!(version_of_feature("cuda-12040"), Some(CudaVersion::new(12, 4)));
        assert_eq!(version_of_feature("cuda-version-from-build-system"), None);
    }
}

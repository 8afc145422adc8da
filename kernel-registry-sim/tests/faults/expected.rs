//! Lists the errors that are expected for each fault, and the faults that need not cause an error.

use std::error::Error;

pub use kernel_registry_command::with_causes as said;
use kernel_registry_sim::Fault;

/// The `CUresult`s to inject, one of each kind: out of memory, an invalid argument, a fault of a kernel, an unsupported
/// function, and a system that is not ready.
pub const RESULTS: [(u32, &str); 5] = [
    (2, "CUDA_ERROR_OUT_OF_MEMORY"),
    (1, "CUDA_ERROR_INVALID_VALUE"),
    (700, "CUDA_ERROR_ILLEGAL_ADDRESS"),
    (801, "CUDA_ERROR_NOT_SUPPORTED"),
    (802, "CUDA_ERROR_SYSTEM_NOT_READY"),
];

/// Returns whether this result breaks the context.
pub fn ends_context(result: u32) -> bool {
    result == 700
}

/// A fault to inject: one row of the matrix of calls and results.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Case {
    /// The name of the function.
    pub call: &'static str,
    /// The number of the call, counted from 1, or 0 for all calls.
    pub number: u64,
    pub result: u32,
    pub name: &'static str,
}

impl Case {
    /// Returns all cases. For each result, each single call of each function fails, and all calls of each function
    /// together.
    pub fn all(calls: &[kernel_registry_sim::Call]) -> Vec<Case> {
        let mut cases = Vec::new();
        for (index, call) in calls.iter().enumerate() {
            let number = calls[..=index].iter().filter(|other| other.name == call.name).count() as u64;
            for number in [number, 0] {
                let of_call = RESULTS.map(|(result, name)| Case { call: call.name, number, result, name });
                cases.extend(of_call.into_iter().filter(|case| !cases.contains(case)).collect::<Vec<_>>());
            }
        }
        cases
    }

    /// Runs `work` while the call fails. Returns an error if the call was not made.
    pub fn during<T>(&self, work: impl FnOnce() -> T) -> Result<T, Box<dyn Error>> {
        let fault = Fault::fails(self.call, self.result);
        let fault = if self.number == 0 { fault } else { fault.nth(self.number) }.inject()?;
        let done = work();
        if fault.hits() == 0 { Err("it was not called".into()) } else { Ok(done) }
    }

    /// Returns whether a text names the result and the call. The call has its name in cuda.h, or the name of a cudarc
    /// function that makes several calls. If the failure of the call is tolerated, but the broken context is not, the
    /// text names a later call instead.
    pub fn is_named_in(&self, text: &str) -> bool {
        if self.is_tolerated() && ends_context(self.result) {
            return text.contains(self.name);
        }
        let call = self.call.trim_end_matches("_v2");
        let by_cudarc = match call {
            "cuCtxGetCurrent" | "cuCtxSetCurrent" => &["CudaContext::bind_to_thread", "CudaContext::new"][..],
            "cuEventRecord" | "cuStreamWaitEvent" => &["CudaContext::bind_to_thread"],
            "cuInit" | "cuDeviceGet" | "cuDevicePrimaryCtxRetain" | "cuDeviceGetAttribute" => {
                &["CudaContext::new"]
            }
            _ => &[],
        };
        text.contains(self.name) && (text.contains(call) || by_cudarc.iter().any(|name| text.contains(name)))
    }

    /// Returns whether the call is about a kernel or an image, which the error then has to name too.
    pub fn is_about_a_kernel(&self) -> bool {
        let starts = [
            "cuFunc",
            "cuKernel",
            "cuLibrary",
            "cuModuleGetFunction",
            "cuModuleLoad",
            "cuLaunch",
            "cuStream",
        ];
        starts.iter().any(|start| self.call.starts_with(start))
    }

    /// Returns whether a program may succeed in spite of the fault.
    pub fn is_tolerated(&self) -> bool {
        match self.call {
            // The call tells whether an earlier context still exists. If it fails, that context is forgotten.
            "cuDevicePrimaryCtxGetState" => true,
            // The stream is destroyed with its context.
            "cuStreamDestroy_v2" => true,
            // The first four calls look for functions of newer drivers. A later call looks for an audit.
            "cuGetProcAddress_v2" => self.number > 4,
            _ if self.number == 0 => false,
            // An image is loaded a second time to find out why the first time failed.
            "cuLibraryLoadData" | "cuModuleLoadDataEx" => true,
            // The first call of each other function is needed for the context itself.
            _ if self.number == 1 => false,
            // This call also tells whether an earlier context still exists.
            "cuCtxGetId" => true,
            // A thread that helps to compile leaves the work to other threads if this call fails.
            "cuCtxGetCurrent" | "cuCtxSetCurrent" => true,
            // The same holds for this call, which also restores a thread's capture mode at the end.
            "cuThreadExchangeStreamCaptureMode" => true,
            _ => false,
        }
    }
}

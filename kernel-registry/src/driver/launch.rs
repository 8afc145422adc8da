//! The driver call that launches a kernel.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;

use cudarc::driver::{CudaStream, sys};

use super::{DriverCallError, Function, call};
use crate::LaunchConfig;

/// Launches a kernel with `cuLaunchKernelEx`.
///
/// # Safety
///
/// The stream's context is current, the function belongs to that context, and `args` points to arguments of the types that the
/// function takes.
#[inline]
pub(crate) unsafe fn launch(
    function: Function,
    stream: &CudaStream,
    config: &LaunchConfig,
    args: &mut [*mut c_void],
) -> Result<(), DriverCallError> {
    let mut attributes = [const { MaybeUninit::<sys::CUlaunchAttribute>::uninit() }; 2];
    let mut count = 0;
    if let Some([x, y, z]) = config.cluster {
        attributes[count].write(sys::CUlaunchAttribute {
            id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
            pad: [0; 4],
            value: sys::CUlaunchAttributeValue {
                clusterDim: sys::CUlaunchAttributeValue_union__bindgen_ty_1 { x, y, z },
            },
        });
        count += 1;
    }
    if config.cooperative {
        attributes[count].write(sys::CUlaunchAttribute {
            id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
            pad: [0; 4],
            value: sys::CUlaunchAttributeValue { cooperative: 1 },
        });
        count += 1;
    }
    let [grid_x, grid_y, grid_z] = config.grid;
    let [block_x, block_y, block_z] = config.block;
    let launch = sys::CUlaunchConfig {
        gridDimX: grid_x,
        gridDimY: grid_y,
        gridDimZ: grid_z,
        blockDimX: block_x,
        blockDimY: block_y,
        blockDimZ: block_z,
        sharedMemBytes: config.shared,
        hStream: stream.cu_stream(),
        attrs: attributes.as_mut_ptr().cast(),
        numAttrs: count as u32,
    };
    // SAFETY: the first `count` attributes are initialised. The caller guarantees the rest.
    call("cuLaunchKernelEx", unsafe {
        sys::cuLaunchKernelEx(&launch, function.0, args.as_mut_ptr(), ptr::null_mut())
    })
}

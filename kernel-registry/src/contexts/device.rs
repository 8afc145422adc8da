//! The properties of a context's device.

use std::sync::OnceLock;

use kernel_registry_cuda::fit;

use crate::driver::{Current, DeviceAttribute, DriverCallError, architecture};

/// The properties of a device that warming needs.
pub(crate) struct Device {
    pub(crate) name: String,
    /// The architecture: 90 for sm_90.
    pub(crate) arch: u32,
    /// How many threads can run on the device at once. Each of them gets a stack.
    pub(crate) threads: u64,
    /// The most bytes of shared memory that a block can be granted.
    pub(crate) shared: u32,
    /// Whether the driver loads kernels lazily: at their first use, and not with their image.
    pub(crate) loads_lazily: bool,
    /// The resources of the device's multiprocessors. `None` if the architecture is newer than this library.
    pub(crate) room: Option<fit::Device>,
}

impl Device {
    /// Returns the current context's device. The first call for a context queries the driver and fills the context's `cache`.
    pub(crate) fn get_or_query<'s>(
        cache: &'s OnceLock<Device>,
        current: &Current<'_>,
    ) -> Result<&'s Device, DriverCallError> {
        match cache.get() {
            Some(device) => Ok(device),
            None => Device::new(current).map(|device| cache.get_or_init(|| device)),
        }
    }

    fn new(current: &Current<'_>) -> Result<Self, DriverCallError> {
        use DeviceAttribute::*;
        let processors = current.device_attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
        let threads = current.device_attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR)?;
        let name = current.context.name();
        Ok(Device {
            name: name.map_err(|error| DriverCallError::new("cuDeviceGetName", error.0))?,
            arch: architecture(current.context)?,
            threads: u64::from(processors) * u64::from(threads),
            shared: current.device_attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
            loads_lazily: current.loads_lazily()?,
            room: room(current)?,
        })
    }
}

/// Returns the resources of the multiprocessors: the driver's attributes, and where it has none, the values of the architecture.
fn room(current: &Current<'_>) -> Result<Option<fit::Device>, DriverCallError> {
    use DeviceAttribute::*;
    let Some(by_architecture) = fit::Device::of(architecture(current.context)?) else { return Ok(None) };
    let get = |which| current.device_attribute(which);
    Ok(Some(fit::Device {
        processors: get(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        block_threads: get(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
        threads: get(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR)?,
        blocks: get(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR)?,
        registers: get(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR)?,
        block_registers: get(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK)?,
        shared: get(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR)?,
        block_shared: get(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
        reserved_shared: get(CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK)?,
        ..by_architecture.clone()
    }))
}

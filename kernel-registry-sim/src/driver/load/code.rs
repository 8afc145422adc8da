//! Defines loaded code: modules, libraries, kernels and functions, and links in progress.

use std::collections::BTreeMap;
use std::sync::Arc;

use kernel_registry_ptx::Program;

use super::image::Image;
use crate::driver::caller::arguments::JitOptions;
use crate::driver::handles::Handle;
use crate::driver::memory::blocks::{Block, Kind, Shared};
use crate::driver::result::{Answer, Code};
use crate::driver::wait::Ready;

/// A module: an image that is loaded in one context.
pub(crate) struct Module {
    pub(crate) context: Handle,
    pub(crate) image: Arc<Image>,
    pub(crate) code: Loaded,
    pub(crate) library: Option<Handle>,
    /// Functions by the index of their kernel in the image.
    pub(crate) functions: BTreeMap<usize, Handle>,
}

/// A library: an image that contexts load on demand.
pub(crate) struct Library {
    pub(crate) images: Images,
    /// The library's modules by the id of their context. Ids are used because handles of contexts are reused.
    pub(crate) modules: BTreeMap<u64, Handle>,
    pub(crate) kernels: BTreeMap<String, Handle>,
}

/// For each architecture among the devices, the compiled image or the error of compiling it.
pub(crate) type Images = BTreeMap<u32, Answer<Arc<Image>>>;

impl Library {
    pub(crate) fn new(images: Images) -> Self {
        Library { images, modules: BTreeMap::new(), kernels: BTreeMap::new() }
    }

    /// Returns the image for an architecture.
    pub(crate) fn image(&self, arch: u32) -> Answer<&Arc<Image>> {
        self.images.get(&arch).ok_or(Code::NO_BINARY_FOR_GPU)?.as_ref().map_err(|code| *code)
    }
}

/// A kernel of a library.
#[derive(Clone)]
pub(crate) struct Kernel {
    pub(crate) library: Handle,
    pub(crate) name: String,
    /// The attributes that the program has set, by device and attribute.
    pub(crate) set: BTreeMap<(usize, u32), i32>,
}

/// A kernel in one context.
pub(crate) struct Function {
    pub(crate) context: Handle,
    pub(crate) device: usize,
    pub(crate) module: Handle,
    pub(crate) image: Arc<Image>,
    pub(crate) kernel: usize,
    /// The position in the order of submission after which the function is loaded.
    pub(crate) loaded: Ready,
    /// The most bytes of dynamic shared memory that a launch may have.
    pub(crate) max_shared: u32,
    pub(crate) attributes: BTreeMap<u32, i32>,
}

impl Function {
    /// Returns the preferred carve-out of the function in percent.
    pub(crate) fn carveout(&self) -> Option<u32> {
        self.attributes.get(&attributes::CARVEOUT).and_then(|percent| u32::try_from(*percent).ok())
    }
}

/// Values of `CUfunction_attribute`.
pub(crate) mod attributes {
    pub(crate) const MAX_THREADS: u32 = 0;
    pub(crate) const SHARED: u32 = 1;
    pub(crate) const CONSTANTS: u32 = 2;
    pub(crate) const LOCAL: u32 = 3;
    pub(crate) const REGISTERS: u32 = 4;
    pub(crate) const PTX_VERSION: u32 = 5;
    pub(crate) const BINARY_VERSION: u32 = 6;
    pub(crate) const CACHE_MODE: u32 = 7;
    pub(crate) const MAX_DYNAMIC_SHARED: u32 = 8;
    pub(crate) const CARVEOUT: u32 = 9;
    pub(crate) const CLUSTER_MUST_BE_SET: u32 = 10;
    pub(crate) const CLUSTER: [u32; 3] = [11, 12, 13];
    pub(crate) const NON_PORTABLE_CLUSTER: u32 = 14;
    pub(crate) const CLUSTER_SCHEDULING: u32 = 15;
}

/// A link in progress, as `cuLinkCreate` begins it.
pub(crate) struct Link {
    pub(crate) arch: u32,
    pub(crate) options: JitOptions,
    pub(crate) texts: Vec<u8>,
    /// The linked text with a zero byte at its end. The program uses it until the program destroys the link.
    pub(crate) linked: Option<Box<[u8]>>,
}

/// A decoded PTX module with memory for its variables, in one context.
#[derive(Clone)]
pub(crate) struct Loaded(pub(crate) Arc<kernel_registry_ptx::Module>);

impl Loaded {
    /// Allocates and initialises the variables.
    pub(crate) fn new(
        program: &Arc<Program>,
        memory: &Shared,
        context: Handle,
        device: usize,
    ) -> Answer<Self> {
        let mut addresses = Vec::new();
        for variable in program.variables() {
            let bytes = variable.size().max(1) as usize;
            let block = Block { bytes, kind: Kind::Variable, context, device };
            addresses.push(memory.lock().allocate(block)? as u64);
        }
        let module = kernel_registry_ptx::Module::new(program.clone(), addresses);
        for (index, address) in module.addresses().iter().enumerate() {
            let written = memory.lock().write(*address as usize, &module.initial(index));
            written.map_err(|_| Code::OUT_OF_MEMORY)?;
        }
        Ok(Loaded(Arc::new(module)))
    }

    /// Returns address and size of a variable.
    pub(crate) fn variable(&self, name: &str) -> Option<(usize, usize)> {
        let variables = self.0.program().variables();
        let index = variables.iter().position(|variable| variable.name() == name)?;
        Some((self.0.addresses()[index] as usize, variables[index].size() as usize))
    }

    /// Frees the variables.
    pub(crate) fn unload(&self, memory: &Shared) {
        self.0.addresses().iter().for_each(|address| memory.lock().free(*address as usize));
    }
}

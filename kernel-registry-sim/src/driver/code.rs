//! Loaded code: modules, libraries, their kernels, and what is linked.

use std::collections::BTreeMap;
use std::sync::Arc;

use kernel_registry_ptx::Program;

use super::abi::JitOptions;
use super::handles::Handle;
use super::image::Image;
use super::memory::{Block, Kind, Shared};
use super::result::{Answer, Code};
use super::wait::Ready;

/// A module: an image in one context.
pub(super) struct Module {
    pub(super) context: Handle,
    pub(super) image: Arc<Image>,
    pub(super) code: Loaded,
    pub(super) library: Option<Handle>,
    /// Functions by the index of their kernel in the image.
    pub(super) functions: BTreeMap<usize, Handle>,
}

/// A library: an image that is loaded into contexts on demand.
pub(super) struct Library {
    pub(super) images: Images,
    /// Modules by the id of their context, because handles of contexts are used again.
    pub(super) modules: BTreeMap<u64, Handle>,
    pub(super) kernels: BTreeMap<String, Handle>,
}

/// A compiled image, or the error, for each architecture among the devices.
pub(super) type Images = BTreeMap<u32, Answer<Arc<Image>>>;

impl Library {
    pub(super) fn new(images: Images) -> Self {
        Library { images, modules: BTreeMap::new(), kernels: BTreeMap::new() }
    }

    /// The image for an architecture.
    pub(super) fn image(&self, arch: u32) -> Answer<&Arc<Image>> {
        self.images.get(&arch).ok_or(Code::NO_BINARY_FOR_GPU)?.as_ref().map_err(|code| *code)
    }
}

/// A kernel of a library.
#[derive(Clone)]
pub(super) struct Kernel {
    pub(super) library: Handle,
    pub(super) name: String,
    /// Attributes that were set, by device and attribute.
    pub(super) set: BTreeMap<(usize, u32), i32>,
}

/// A kernel in one context.
pub(super) struct Function {
    pub(super) context: Handle,
    pub(super) device: usize,
    pub(super) module: Handle,
    pub(super) image: Arc<Image>,
    pub(super) kernel: usize,
    /// When it is loaded: kernels load lazily.
    pub(super) loaded: Ready,
    /// The most dynamic shared memory that it may be launched with.
    pub(super) max_shared: u32,
    pub(super) attributes: BTreeMap<u32, i32>,
}

impl Function {
    /// The carve-out that it prefers, in percent.
    pub(super) fn carveout(&self) -> Option<u32> {
        self.attributes.get(&attributes::CARVEOUT).and_then(|percent| u32::try_from(*percent).ok())
    }
}

/// `CUfunction_attribute`.
pub(super) mod attributes {
    pub(in crate::driver) const MAX_THREADS: u32 = 0;
    pub(in crate::driver) const SHARED: u32 = 1;
    pub(in crate::driver) const CONSTANTS: u32 = 2;
    pub(in crate::driver) const LOCAL: u32 = 3;
    pub(in crate::driver) const REGISTERS: u32 = 4;
    pub(in crate::driver) const PTX_VERSION: u32 = 5;
    pub(in crate::driver) const BINARY_VERSION: u32 = 6;
    pub(in crate::driver) const CACHE_MODE: u32 = 7;
    pub(in crate::driver) const MAX_DYNAMIC_SHARED: u32 = 8;
    pub(in crate::driver) const CARVEOUT: u32 = 9;
    pub(in crate::driver) const CLUSTER_MUST_BE_SET: u32 = 10;
    pub(in crate::driver) const CLUSTER: [u32; 3] = [11, 12, 13];
    pub(in crate::driver) const NON_PORTABLE_CLUSTER: u32 = 14;
    pub(in crate::driver) const CLUSTER_SCHEDULING: u32 = 15;
}

/// What a program links.
pub(super) struct Link {
    pub(super) arch: u32,
    pub(super) options: JitOptions,
    pub(super) texts: Vec<u8>,
    /// The result, which is the program's until it destroys this, with a zero at the end.
    pub(super) linked: Option<Box<[u8]>>,
}

/// A decoded program with memory for its variables, in one context.
#[derive(Clone)]
pub(super) struct Loaded(pub(super) Arc<kernel_registry_ptx::Module>);

impl Loaded {
    /// Allocates and initialises the variables.
    pub(super) fn new(
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

    /// Address and size of a variable.
    pub(super) fn variable(&self, name: &str) -> Option<(usize, usize)> {
        let variables = self.0.program().variables();
        let index = variables.iter().position(|variable| variable.name() == name)?;
        Some((self.0.addresses()[index] as usize, variables[index].size() as usize))
    }

    /// Frees the variables.
    pub(super) fn unload(&self, memory: &Shared) {
        self.0.addresses().iter().for_each(|address| memory.lock().free(*address as usize));
    }
}

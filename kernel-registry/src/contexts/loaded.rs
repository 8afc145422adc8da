//! The state of a context: loaded images, warm kernels, and what launches have set up.

use std::collections::{HashMap, HashSet};

use kernel_registry_cuda::prime::Primed;

use crate::driver::{Function, Module};
use crate::table::Limits;
use crate::{KernelInfo, KernelReport};

/// A kernel in a context, with what the driver says of it there.
#[derive(Clone)]
pub struct WarmKernel {
    /// The kernel.
    pub info: &'static KernelInfo,
    /// Its handle.
    pub function: Function,
    /// Its figures.
    pub report: KernelReport,
    /// The limits of its launches.
    pub limits: Limits,
}

/// The images, kernels and hooks of a context, and what launches have set up in it.
#[derive(Default)]
pub(crate) struct Loaded {
    pub(crate) modules: Places<Module>,
    pub(crate) kernels: Places<WarmKernel>,
    /// Kernels that cannot run on the device.
    pub(crate) unavailable: Places<&'static KernelInfo>,
    pub(crate) primed: Primed,
    /// Modules of our own images, by the images' keys.
    pub(crate) ours: HashMap<usize, Module>,
    /// The stack limit at our last launch. If it has changed since, the next launch waits.
    pub(crate) stack_at_launch: u64,
    /// The context is gone, and its entries were removed from the tables: no entry may be added.
    pub(crate) forgotten: bool,
    /// The hooks that have run, by their keys.
    pub(crate) hooks: HashSet<usize>,
    /// The largest frame of kernels that hooks loaded.
    pub(crate) hook_frame: u64,
}

/// A map from the indices of images or kernels, which are the same in every plan.
pub(crate) struct Places<T>(Vec<Option<T>>);

impl<T> Places<T> {
    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        self.0.get(index)?.as_ref()
    }

    pub(crate) fn remove(&mut self, index: usize) {
        if let Some(value) = self.0.get_mut(index) {
            *value = None;
        }
    }

    pub(crate) fn insert(&mut self, index: usize, value: T) {
        if self.0.len() <= index {
            self.0.resize_with(index + 1, || None);
        }
        self.0[index] = Some(value);
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.0.iter().flatten()
    }
}

impl<T> Default for Places<T> {
    fn default() -> Self {
        Places(Vec::new())
    }
}

impl Loaded {
    /// The kernels that have an entry for the context in their table.
    pub(super) fn infos(&self) -> impl Iterator<Item = &'static KernelInfo> {
        let warm = self.kernels.values().map(|warmed| warmed.info);
        warm.chain(self.unavailable.values().copied())
    }

    /// Whether kernels are warm, or were loaded by hooks.
    pub(crate) fn is_used(&self) -> bool {
        self.largest_stack() > 0 || self.kernels.values().next().is_some()
    }

    /// Whether the kernel at this index in the plan is warm or unavailable.
    pub(crate) fn knows(&self, index: usize) -> bool {
        self.kernels.get(index).is_some() || self.unavailable.get(index).is_some()
    }

    /// The largest stack that warm kernels and those of hooks need, in bytes.
    pub(crate) fn largest_stack(&self) -> u64 {
        let registered = self.kernels.values().map(|warmed| u64::from(warmed.report.stack)).max();
        registered.unwrap_or(0).max(self.hook_frame)
    }
}

//! Defines the state of a context: loaded images, warm kernels, and the state that the driver has set up because of
//! kernel-registry's own launches.

use std::collections::{HashMap, HashSet};

use kernel_registry_cuda::prime::Primed;

use super::kernel_report::{KernelReport, MachineCode};
use crate::KernelInfo;
use crate::driver::{Function, Module};
use crate::table::Limits;

/// A warm kernel in a context, with the attributes that the driver has for it in that context.
#[derive(Clone)]
pub struct WarmKernel {
    /// The kernel.
    pub info: &'static KernelInfo,
    /// The kernel's handle in the context.
    pub function: Function,
    /// The kernel's attributes, as the report lists them.
    pub report: KernelReport,
    /// The limits of its launches.
    pub limits: Limits,
}

/// The images, kernels and hooks of a context, and the state that the driver has set up there because of
/// kernel-registry's own launches.
#[derive(Default)]
pub(crate) struct Loaded {
    /// The modules of images, each with where its machine code came from.
    pub(crate) modules: ByIndex<(Module, MachineCode)>,
    pub(crate) kernels: ByIndex<WarmKernel>,
    /// Kernels that cannot run on the device.
    pub(crate) unavailable: ByIndex<&'static KernelInfo>,
    pub(crate) primed: Primed,
    /// Modules of kernel-registry's own images, by the images' keys.
    pub(crate) ours: HashMap<usize, Module>,
    /// The stack limit at kernel-registry's last own launch. If the limit has changed since, the next launch waits.
    pub(crate) stack_at_launch: u64,
    /// Whether the context is gone. Then its entries were removed from the tables, and no entry may be added.
    pub(crate) forgotten: bool,
    /// The keys of the hooks that have succeeded.
    pub(crate) hooks: HashSet<usize>,
    /// The largest stack frame of kernels that hooks loaded, in bytes.
    pub(crate) hook_frame: u64,
}

/// A map from the index of an image or a kernel, which is the same in every plan, to a value.
pub(crate) struct ByIndex<T>(Vec<Option<T>>);

impl<T> ByIndex<T> {
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

impl<T> Default for ByIndex<T> {
    fn default() -> Self {
        ByIndex(Vec::new())
    }
}

impl Loaded {
    /// Returns the kernels whose tables have an entry for this context.
    pub(super) fn infos(&self) -> impl Iterator<Item = &'static KernelInfo> {
        let warm = self.kernels.values().map(|warmed| warmed.info);
        warm.chain(self.unavailable.values().copied())
    }

    /// Returns whether kernels are warm, or were loaded by hooks.
    pub(crate) fn is_used(&self) -> bool {
        self.largest_stack() > 0 || self.kernels.values().next().is_some()
    }

    /// Returns whether the kernel at this index in the plan is warm or unavailable.
    pub(crate) fn knows(&self, index: usize) -> bool {
        self.kernels.get(index).is_some() || self.unavailable.get(index).is_some()
    }

    /// Returns the largest stack in bytes that a warm kernel, or a kernel that a hook loaded, needs.
    pub(crate) fn largest_stack(&self) -> u64 {
        let registered = self.kernels.values().map(|warmed| u64::from(warmed.report.stack)).max();
        registered.unwrap_or(0).max(self.hook_frame)
    }
}

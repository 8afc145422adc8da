//! What a context has: loaded images, warm kernels, what was set up by a launch.

use std::collections::{HashMap, HashSet};

use super::Primed;
use crate::driver::{Function, Module};
use crate::{KernelInfo, KernelReport};

/// A kernel that is warm in a context.
#[derive(Clone)]
pub(crate) struct Warmed {
    pub(crate) info: &'static KernelInfo,
    pub(crate) function: Function,
    pub(crate) report: KernelReport,
}

/// What there is in a context.
#[derive(Default)]
pub(crate) struct Loaded {
    pub(crate) modules: Places<Module>,
    pub(crate) kernels: Places<Warmed>,
    /// Kernels that cannot run on the device.
    pub(crate) unavailable: Places<&'static KernelInfo>,
    pub(crate) primed: Primed,
    /// Modules of our own images, by the images' keys.
    pub(crate) ours: HashMap<usize, Module>,
    /// The stack limit when a kernel of ours was launched last: a launch pays for what has changed since.
    pub(crate) stack_at_launch: u64,
    /// The context is gone, and its entries were removed from the tables: nothing may be entered any more.
    pub(crate) forgotten: bool,
    /// The hooks that have run.
    pub(crate) hooks: HashSet<usize>,
    /// The largest frame of what they preloaded.
    pub(crate) preloaded_frame: u64,
}

/// What is known of images or kernels, by their places, which are the same in every plan.
pub(crate) struct Places<T>(Vec<Option<T>>);

impl<T> Places<T> {
    pub(crate) fn get(&self, place: usize) -> Option<&T> {
        self.0.get(place)?.as_ref()
    }

    pub(crate) fn remove(&mut self, place: usize) {
        if let Some(value) = self.0.get_mut(place) {
            *value = None;
        }
    }

    pub(crate) fn insert(&mut self, place: usize, value: T) {
        if self.0.len() <= place {
            self.0.resize_with(place + 1, || None);
        }
        self.0[place] = Some(value);
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
    /// The kernels with an entry in their table.
    pub(super) fn infos(&self) -> impl Iterator<Item = &'static KernelInfo> {
        let warm = self.kernels.values().map(|warmed| warmed.info);
        warm.chain(self.unavailable.values().copied())
    }

    /// Whether kernels are warm, or hooks have preloaded some.
    pub(crate) fn is_used(&self) -> bool {
        self.largest_stack() > 0 || self.kernels.values().next().is_some()
    }

    /// Whether the kernel of this place in the plan is warm, or never will be.
    pub(crate) fn knows(&self, place: usize) -> bool {
        self.kernels.get(place).is_some() || self.unavailable.get(place).is_some()
    }

    /// Bytes of stack that the kernels which are warm need, and those that hooks preloaded.
    pub(crate) fn largest_stack(&self) -> u64 {
        let registered = self.kernels.values().map(|warmed| u64::from(warmed.report.stack)).max();
        registered.unwrap_or(0).max(self.preloaded_frame)
    }
}

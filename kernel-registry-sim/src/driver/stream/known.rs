//! Keeps what streams, events and the host know of earlier work, to find races.
//!
//! All threads of the host count as one, and what they do to memory themselves isn't seen.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use kernel_registry_ptx::{Knowledge, Race, Races};

use crate::driver::handles::Handle;
use crate::driver::launch::execution::lock;
use crate::driver::wait::Seq;

/// The detector, and what is known where.
#[derive(Clone, Default)]
pub(crate) struct Watched {
    pub(crate) races: Arc<Mutex<Races>>,
    pub(crate) host: Knowledge,
    /// The knowledge with which each stream's next work begins: that of the work before it.
    pub(crate) streams: HashMap<Handle, Knowledge>,
    /// What was known at each recorded event.
    pub(crate) events: HashMap<(Handle, Seq), Knowledge>,
    /// What the host knew when it submitted work that hasn't begun.
    pub(crate) submitted: HashMap<Seq, Knowledge>,
    /// The numbers by which the detector knows the streams.
    pub(crate) numbers: HashMap<Handle, u32>,
    /// All races so far.
    pub(crate) found: Vec<Race>,
}

impl Watched {
    /// Returns the detector. A kernel's turn needs it while others use the state.
    pub(crate) fn races(&self) -> Arc<Mutex<Races>> {
        self.races.clone()
    }

    /// Returns the races that were found since the last call.
    pub(crate) fn take(&mut self) -> Vec<Race> {
        std::mem::take(&mut self.found)
    }

    /// Returns the number by which the detector knows a stream.
    pub(crate) fn number(&mut self, stream: Handle) -> u32 {
        let next = self.numbers.len() as u32;
        *self.numbers.entry(stream).or_insert(next)
    }

    pub(crate) fn submit(&mut self, seq: Seq) {
        self.host.add(lock(&self.races).shown());
        self.submitted.insert(seq, self.host.clone());
    }
}

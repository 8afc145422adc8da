//! Keeps calls that are deferred until no section concerns them, in their order.

use std::collections::{HashMap, HashSet, VecDeque};

use cudarc::driver::sys::CUresult;

use crate::watch::known::devices::Devices;
use crate::watch::known::owners::Owner;
use crate::watch::record::call::Call;

#[derive(Default)]
pub(super) struct Deferred {
    last: u64,
    queues: HashMap<Devices, VecDeque<Later>>,
    /// The addresses and handles that the calls will free, so that none is freed twice.
    pending: HashSet<u64>,
    /// The devices of calls that are being made.
    making: Vec<Devices>,
}

/// A call that frees something, or unloads it.
pub(crate) struct Free {
    pub(crate) call: Call,
    /// The devices for whose kernels the call waits.
    pub(crate) devices: Devices,
    /// The owner of the freed object, which is gone with its owner.
    pub(crate) owner: Owner,
    /// The bytes of memory that the call frees.
    pub(crate) bytes: u64,
}

/// A call that was deferred.
pub(super) struct Later {
    number: u64,
    pub(super) free: Free,
    pub(super) make: Make,
}

pub(super) struct Make(Box<dyn FnOnce() -> CUresult>);

// SAFETY: the closure calls a function of the driver with handles and addresses, which any thread may use.
unsafe impl Send for Make {}

impl Make {
    /// Makes the call.
    pub(super) fn now(self) -> CUresult {
        (self.0)()
    }
}

impl Deferred {
    /// Defers a call, unless a call for the same address or handle is deferred already. Returns whether the call was
    /// deferred.
    pub(super) fn put(&mut self, free: Free, make: impl FnOnce() -> CUresult + 'static) -> bool {
        if !self.pending.insert(free.call.subject) {
            return false;
        }
        self.last += 1;
        let devices = free.devices;
        let later = Later { number: self.last, free, make: Make(Box::new(make)) };
        self.queues.entry(devices).or_default().push_back(later);
        true
    }

    /// Returns whether this address or handle will be freed.
    pub(super) fn has(&self, subject: u64) -> bool {
        self.pending.contains(&subject)
    }

    /// Returns the number of addresses and handles that will be freed.
    pub(super) fn len(&self) -> u64 {
        self.pending.len() as u64
    }

    /// Returns the bytes that the deferred calls for these devices will free, and the number of those calls.
    pub(super) fn waiting(&self, devices: Devices) -> (u64, usize) {
        let queues = self.queues.iter().filter(|(its, _)| its.overlap(devices));
        let frees = queues.flat_map(|(_, queue)| queue).filter(|later| later.free.bytes > 0);
        frees.fold((0, 0), |(bytes, count), later| (bytes + later.free.bytes, count + 1))
    }

    /// Takes the first of all calls that wait for no device. [`Deferred::made`] must follow.
    pub(super) fn next(&mut self, is_free: impl Fn(Devices) -> bool) -> Option<Later> {
        let free = self.queues.iter().filter(|(devices, _)| is_free(**devices));
        let first = free.filter_map(|(devices, queue)| Some((queue.front()?.number, *devices)));
        let (_, devices) = first.min_by_key(|(number, _)| *number)?;
        let queue = self.queues.get_mut(&devices)?;
        let later = queue.pop_front()?;
        if queue.is_empty() {
            self.queues.remove(&devices);
        }
        // The driver may reuse the handle as soon as the call has returned.
        self.pending.remove(&later.free.call.subject);
        self.making.push(devices);
        Some(later)
    }

    /// Ends what [`Deferred::next`] began: the call was made.
    pub(super) fn made(&mut self, devices: Devices) {
        if let Some(index) = self.making.iter().position(|its| *its == devices) {
            self.making.swap_remove(index);
        }
    }

    /// Drops the calls that free objects of a context which is gone.
    pub(super) fn forget(&mut self, context: u64) {
        let Deferred { queues, pending, .. } = self;
        for queue in queues.values_mut() {
            queue.retain(|later| {
                let is_gone = later.free.owner == Owner::Context(context);
                if is_gone {
                    pending.remove(&later.free.call.subject);
                }
                !is_gone
            });
        }
        queues.retain(|_, queue| !queue.is_empty());
    }

    /// Returns whether a call is being made that waits for kernels of these devices.
    pub(super) fn is_making(&self, devices: Devices) -> bool {
        self.making.iter().any(|its| its.overlap(devices))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Devices = Devices(1);
    const SECOND: Devices = Devices(2);

    fn put(deferred: &mut Deferred, devices: Devices, subject: u64) -> bool {
        let call = Call { hook: 0, subject, stream: 0 };
        let free = Free { call, devices, owner: Owner::Context(subject % 2), bytes: 10 };
        deferred.put(free, || CUresult::CUDA_SUCCESS)
    }

    fn taken(deferred: &mut Deferred, is_free: impl Fn(Devices) -> bool + Copy) -> Vec<u64> {
        let mut subjects = Vec::new();
        while let Some(later) = deferred.next(is_free) {
            deferred.made(later.free.devices);
            subjects.push(later.free.call.subject);
        }
        subjects
    }

    #[test]
    fn calls_that_wait_for_nothing_are_made_in_order() {
        let mut deferred = Deferred::default();
        for (devices, subject) in [(FIRST, 1), (SECOND, 2), (Devices::ALL, 3), (FIRST, 4), (SECOND, 5)] {
            put(&mut deferred, devices, subject);
        }
        assert_eq!(deferred.waiting(FIRST), (30, 3));
        assert_eq!(taken(&mut deferred, |devices| devices == SECOND), [2, 5]);
        assert_eq!(taken(&mut deferred, |_| true), [1, 3, 4]);
        assert!(deferred.queues.is_empty() && deferred.pending.is_empty() && deferred.making.is_empty());
    }

    #[test]
    fn nothing_is_deferred_twice() {
        let mut deferred = Deferred::default();
        assert!(put(&mut deferred, FIRST, 1));
        assert!(!put(&mut deferred, FIRST, 1));
        assert!(deferred.has(1) && deferred.len() == 1);
        assert_eq!(taken(&mut deferred, |_| true), [1]);
        assert!(put(&mut deferred, FIRST, 1));
    }

    #[test]
    fn what_belonged_to_a_context_is_gone_with_it() {
        let mut deferred = Deferred::default();
        (1..=4).for_each(|subject| assert!(put(&mut deferred, FIRST, subject)));
        deferred.forget(1);
        assert_eq!(taken(&mut deferred, |_| true), [2, 4]);
    }

    #[test]
    fn a_call_in_progress_is_seen() {
        let mut deferred = Deferred::default();
        put(&mut deferred, FIRST, 1);
        put(&mut deferred, Devices::ALL, 2);
        deferred.next(|_| true).expect("the first");
        assert!(deferred.is_making(FIRST) && !deferred.is_making(SECOND));
        deferred.made(FIRST);
        assert!(!deferred.is_making(FIRST));
        deferred.next(|_| true).expect("the second");
        assert!(deferred.is_making(FIRST) && deferred.is_making(SECOND));
    }
}

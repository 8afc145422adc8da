//! Calls that were put off until no section concerns them, in their order.

use std::collections::{HashMap, HashSet, VecDeque};

use cudarc::driver::sys::CUresult;

use super::Place;
use crate::watch::watched::Call;

#[derive(Default)]
pub(super) struct Deferred {
    last: u64,
    queues: HashMap<Place, VecDeque<Later>>,
    /// Their functions and handles, which must not be freed twice.
    pending: HashSet<(u32, u64)>,
    /// Where calls are being made.
    making: Vec<Place>,
}

/// A call that was put off.
pub(super) struct Later {
    number: u64,
    pub(super) call: Call,
    /// The context that was current.
    pub(super) context: u64,
    pub(super) make: Make,
}

pub(super) struct Make(Box<dyn FnOnce() -> CUresult>);

// SAFETY: it calls a function of the driver with handles and addresses, which any thread may use.
unsafe impl Send for Make {}

impl Make {
    /// Makes the call.
    pub(super) fn now(self) -> CUresult {
        (self.0)()
    }
}

/// Whether a call was put off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PutOff {
    Now,
    /// The same one was before, and is not made yet.
    Before,
}

impl Deferred {
    pub(super) fn put(
        &mut self,
        place: Place,
        call: Call,
        context: u64,
        make: impl FnOnce() -> CUresult + 'static,
    ) -> PutOff {
        if !self.pending.insert((call.hook, call.subject)) {
            return PutOff::Before;
        }
        self.last += 1;
        let later = Later { number: self.last, call, context, make: Make(Box::new(make)) };
        self.queues.entry(place).or_default().push_back(later);
        PutOff::Now
    }

    /// Takes the first call of all places that are free. [`Deferred::made`] follows.
    pub(super) fn next(&mut self, is_free: impl Fn(Place) -> bool) -> Option<(Place, Later)> {
        let free = self.queues.iter().filter(|(place, _)| is_free(**place));
        let first = free.filter_map(|(place, queue)| Some((queue.front()?.number, *place)));
        let (_, place) = first.min_by_key(|(number, _)| *number)?;
        let queue = self.queues.get_mut(&place)?;
        let later = queue.pop_front()?;
        if queue.is_empty() {
            self.queues.remove(&place);
        }
        // The driver may give the handle away as soon as the call has returned.
        self.pending.remove(&(later.call.hook, later.call.subject));
        self.making.push(place);
        Some((place, later))
    }

    /// A call that was taken is made.
    pub(super) fn made(&mut self, place: Place) {
        if let Some(index) = self.making.iter().position(|its| *its == place) {
            self.making.swap_remove(index);
        }
    }

    /// Leaves out the calls that were to be made in a context which is gone: what they free is gone, too.
    pub(super) fn forget(&mut self, context: u64) {
        let Deferred { queues, pending, .. } = self;
        for queue in queues.values_mut() {
            queue.retain(|later| {
                let is_gone = later.context == context;
                if is_gone {
                    pending.remove(&(later.call.hook, later.call.subject));
                }
                !is_gone
            });
        }
        queues.retain(|_, queue| !queue.is_empty());
    }

    /// Whether a call is being made that concerns this place.
    pub(super) fn is_making(&self, place: Place) -> bool {
        self.making.iter().any(|its| *its == place || *its == Place::Everywhere)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Place = Place::Device(0);
    const SECOND: Place = Place::Device(1);

    fn put(deferred: &mut Deferred, place: Place, subject: u64) -> PutOff {
        let call = Call { hook: 0, subject, stream: 0 };
        deferred.put(place, call, 0, || CUresult::CUDA_SUCCESS)
    }

    fn taken(deferred: &mut Deferred, is_free: impl Fn(Place) -> bool + Copy) -> Vec<u64> {
        let mut subjects = Vec::new();
        while let Some((place, later)) = deferred.next(is_free) {
            deferred.made(place);
            subjects.push(later.call.subject);
        }
        subjects
    }

    #[test]
    fn calls_of_free_places_are_made_in_order() {
        let mut deferred = Deferred::default();
        for (place, subject) in [(FIRST, 1), (SECOND, 2), (Place::Everywhere, 3), (FIRST, 4), (SECOND, 5)] {
            put(&mut deferred, place, subject);
        }
        assert_eq!(taken(&mut deferred, |place| place == SECOND), [2, 5]);
        assert_eq!(taken(&mut deferred, |_| true), [1, 3, 4]);
        assert!(deferred.queues.is_empty() && deferred.pending.is_empty() && deferred.making.is_empty());
    }

    #[test]
    fn nothing_is_put_off_twice() {
        let mut deferred = Deferred::default();
        assert_eq!(put(&mut deferred, FIRST, 1), PutOff::Now);
        assert_eq!(put(&mut deferred, FIRST, 1), PutOff::Before);
        assert_eq!(taken(&mut deferred, |_| true), [1]);
        assert_eq!(put(&mut deferred, FIRST, 1), PutOff::Now);
    }

    #[test]
    fn a_call_in_progress_is_seen() {
        let mut deferred = Deferred::default();
        put(&mut deferred, FIRST, 1);
        put(&mut deferred, Place::Everywhere, 2);
        let (place, _) = deferred.next(|_| true).expect("the first");
        assert!(deferred.is_making(FIRST) && !deferred.is_making(SECOND));
        deferred.made(place);
        assert!(!deferred.is_making(FIRST));
        deferred.next(|_| true).expect("the second");
        assert!(deferred.is_making(FIRST) && deferred.is_making(SECOND));
    }
}

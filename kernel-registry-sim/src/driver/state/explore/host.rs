//! Defines the threads of the host, as the scheduler knows them.

use std::collections::BTreeMap;

use kernel_registry_schedule::Party;

/// What stands for the name of a call.
pub(crate) const ACCESS: &str = "an access to mapped memory";

/// The condition of the driver's state `S` for which a call waits.
pub(crate) type Condition<S> = Box<dyn Fn(&S) -> bool + Send>;

/// A thread that has called the driver.
pub(crate) struct Host<S> {
    /// Its rank among all threads, in the order of their creation.
    pub(crate) number: Option<u32>,
    pub(crate) name: Option<String>,
    pub(crate) call: &'static str,
    /// The line of the program with the call, if steps are described.
    pub(crate) place: Option<String>,
    pub(crate) condition: Option<Condition<S>>,
    /// Whether the thread waits for the scheduler.
    pub(crate) is_stopped: bool,
}

impl<S> Host<S> {
    pub(crate) fn party(&self) -> Option<Party> {
        self.number.map(Party::Host)
    }

    /// Returns whether the thread looks at the same thing again and again.
    pub(crate) fn polls(&self) -> bool {
        self.is_stopped && self.condition.is_some() && (self.call == ACCESS || self.call.ends_with("Query"))
    }

    pub(crate) fn can_continue(&self, state: &S) -> bool {
        self.is_stopped && self.condition.as_ref().is_none_or(|condition| condition(state))
    }
}

/// What a thread does that hasn't stopped at a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Doing {
    /// It waits for another thread, without a limit of time or with one that's far away.
    Blocked,
    /// It waits for another thread, with a limit of time.
    Limited,
    /// It waits for something outside of the process, perhaps only for a file.
    External,
    /// It sleeps.
    Sleeps,
    Runs,
}

/// All such threads, by their Linux id.
pub(crate) struct Hosts<S> {
    pub(crate) all: BTreeMap<i32, Host<S>>,
    pub(crate) away: Away,
    /// What threads did when they were last looked at that hadn't stopped, and how long they had run.
    pub(crate) seen: BTreeMap<i32, (Doing, String)>,
    /// The thread that went on last.
    pub(crate) latest: Option<i32>,
    next: u32,
}

/// A thread that wasn't waited for so often is left alone until it calls the driver.
const OFTEN: u32 = 3;

/// Threads that weren't waited for, each with how long it had run then, and how often that was since its last call.
#[derive(Default)]
pub(crate) struct Away {
    all: BTreeMap<i32, (String, u32)>,
    /// Whether the record says that there are any.
    pub(crate) is_noted: bool,
}

impl Away {
    /// Returns whether a thread is still in the sleep in which it was seen, or is never waited for.
    pub(crate) fn has(&self, id: i32, time: &str) -> bool {
        self.all.get(&id).is_some_and(|(before, often)| before == time || *often >= OFTEN)
    }

    pub(crate) fn add(&mut self, id: i32, time: String) {
        let often = self.all.get(&id).map_or(0, |(_, often)| *often);
        self.all.insert(id, (time, often + 1));
    }

    /// A thread has called the driver.
    pub(crate) fn remove(&mut self, id: i32) {
        self.all.remove(&id);
    }
}

impl<S> Default for Hosts<S> {
    fn default() -> Self {
        Hosts { all: BTreeMap::new(), away: Away::default(), seen: BTreeMap::new(), latest: None, next: 0 }
    }
}

impl<S> Hosts<S> {
    /// Returns whether the thread that went on last hasn't stopped since.
    pub(crate) fn goes_on(&self) -> bool {
        let latest = self.latest.and_then(|latest| self.all.get(&latest));
        latest.is_some_and(|host| !host.is_stopped)
    }

    /// Gives new threads their numbers. All threads are at rest, so that their order is that of their creation.
    pub(crate) fn number(&mut self) {
        for host in self.all.values_mut().filter(|host| host.number.is_none()) {
            host.number = Some(self.next);
            self.next += 1;
        }
    }
}

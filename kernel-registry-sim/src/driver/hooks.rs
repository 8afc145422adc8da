//! Runs hooks around each call of the driver: faults, delays, recordings, the wait for a context's lock, and the texts
//! that the calling thread has to write. If no hook is set, a call costs one look at a flag before it and one after it.

pub(crate) mod trace;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::thread;
use std::time::Duration;

use super::config::faults::{Outcome, Rule};
use super::config::timing::Timing;
use super::report::texts::{self, Launcher};
use super::result::{Answer, Code};
use super::state::context_lock::wait_for_load;
use super::state::current::CurrentContext;
use super::state::explore::hosts;
use super::state::simulator::Simulator;
use super::watched;
use trace::{Call, Trace};

static HOOKS: Mutex<Hooks> =
    Mutex::new(Hooks { rules: Vec::new(), traces: Vec::new(), timing: None, numbers: BTreeMap::new() });

pub(crate) struct Hooks {
    pub(crate) rules: Vec<Arc<Rule>>,
    pub(crate) traces: Vec<Arc<Trace>>,
    timing: Option<Timing>,
    /// How often each function was called. Delays depend on this number.
    numbers: BTreeMap<&'static str, u64>,
}

/// Calls the body of a driver function inside the hooks.
#[inline]
pub(crate) fn call(name: &'static str, body: impl FnOnce() -> Answer) -> Code {
    let code = if watched::is_any() { call_watched(name, body) } else { body().into() };
    if watched::has(watched::TEXTS | watched::FAILED) {
        write(code);
    }
    code
}

#[cold]
fn call_watched(name: &'static str, body: impl FnOnce() -> Answer) -> Code {
    // In a child process after fork, the lock of the hooks may be held by a thread that does not exist there.
    if Simulator::of_this_process().is_err() {
        return body().into();
    }
    let _within = if watched::has(watched::EXPLORED) { hosts::enter(name) } else { None };
    start();
    let plan = lock().plan(name);
    if !plan.delay.is_zero() {
        thread::sleep(plan.delay);
    }
    wait_for_load(name);
    let code = plan.fails.unwrap_or_else(|| body().into());
    let broken = match plan.breaks {
        Some(broken) if code == Code(0) => Some(broken),
        _ => plan.fails.filter(|code| code.is_sticky()),
    };
    if let Some(broken) = broken {
        break_current(name, broken);
    }
    for trace in &plan.traces {
        trace.lock().unwrap_or_else(PoisonError::into_inner).push(Call { name, result: code.0 });
    }
    code
}

/// Writes what kernels of the calling thread have printed, and why a call has failed.
#[cold]
fn write(code: Code) {
    if Simulator::of_this_process().is_err() {
        return;
    }
    texts::write();
    if code == Code(0) {
        return;
    }
    let state = Simulator::get().lock();
    let context = CurrentContext::peek().and_then(|current| state.contexts.get(current.context).ok());
    let failure = context.and_then(|context| context.error.clone()).or_else(|| state.broken.clone());
    drop(state);
    if let Some(failure) = failure.filter(|failure| failure.code == code) {
        failure.write();
    }
}

/// The actions of the hooks in a call.
struct Plan {
    delay: Duration,
    fails: Option<Code>,
    breaks: Option<Code>,
    traces: Vec<Arc<Trace>>,
}

impl Hooks {
    fn plan(&mut self, name: &'static str) -> Plan {
        let mut plan =
            Plan { delay: self.delay(name), fails: None, breaks: None, traces: self.traces.clone() };
        for outcome in self.rules.iter().filter_map(|rule| rule.meets(name)) {
            match outcome {
                Outcome::Fails(code) => plan.fails = Some(code),
                Outcome::Breaks(code) => plan.breaks = Some(code),
                Outcome::Delays(time) => plan.delay += time,
            }
        }
        plan
    }

    fn delay(&mut self, name: &'static str) -> Duration {
        let Some(timing) = self.timing else { return Duration::ZERO };
        let number = self.numbers.entry(name).or_default();
        *number += 1;
        timing.delay(name, *number)
    }
}

fn lock() -> MutexGuard<'static, Hooks> {
    HOOKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds or removes hooks.
pub(crate) fn change(change: impl FnOnce(&mut Hooks)) {
    let mut hooks = lock();
    change(&mut hooks);
    let is_watched = !hooks.rules.is_empty() || !hooks.traces.is_empty() || hooks.timing.is_some();
    watched::set(watched::HOOKS, is_watched);
}

/// Adds the faults and delays of the configuration, once.
pub(crate) fn start() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let config = Simulator::config();
        change(|hooks| {
            hooks.timing = config.timing;
            hooks.rules.extend(config.faults.iter().cloned().map(Rule::new).map(Arc::new));
        });
    });
}

/// Gives the current context of this thread a sticky error.
fn break_current(call: &str, code: Code) {
    if let Some(CurrentContext { context, .. }) = CurrentContext::peek() {
        let words = format!("{call} was configured to fail with {code}");
        Simulator::get().lock().break_context(context, code, &words, Launcher::current());
    }
}

//! Chooses who takes the next step, and records that.

use std::collections::{HashMap, HashSet};

use kernel_registry_schedule::{Chooser, Entry, Kind, Party, Point};

use super::host::Hosts;
use super::{Recorder, Run};

/// A run with more steps than these doesn't end.
const MOST_STEPS: u64 = 1 << 24;

/// Who takes the next step, and what is known of those who can.
pub(crate) struct Scheduler<S> {
    pub(crate) hosts: Hosts<S>,
    pub(crate) is_detailed: bool,
    /// Whose names were written.
    named: HashSet<Party>,
    pub(crate) has_little_room: bool,
    chooser: Chooser,
    pub(crate) recorder: Recorder,
    /// The visible instructions of each kernel, by their lines.
    pub(crate) visible: HashMap<String, HashSet<u32>>,
    steps: u64,
    /// How many steps had an effect that others can see, so that it's worth looking again.
    pub(crate) changes: u64,
    /// Whether threads that poll may look once more although no other party has taken a step.
    pub(crate) frees_polls: bool,
}

impl<S> Scheduler<S> {
    /// Returns the scheduler of this process, if it's the one that is explored.
    pub(crate) fn new() -> Option<Box<Self>> {
        let run = Run::current()?;
        let mut visible: HashMap<_, HashSet<_>> = HashMap::new();
        for Point { kernel, line } in &run.plan.points {
            visible.entry(kernel.clone()).or_default().insert(*line);
        }
        Some(Box::new(Scheduler {
            hosts: Hosts::default(),
            is_detailed: run.is_detailed,
            named: HashSet::new(),
            has_little_room: run.has_little_room,
            chooser: Chooser::new(run.plan.clone()),
            recorder: Recorder::new(run).ok()?,
            visible,
            steps: 0,
            changes: 0,
            frees_polls: false,
        }))
    }

    pub(crate) fn visible(&self, kernel: &str) -> impl Fn(u32) -> bool + use<S> {
        let lines = self.visible.get(kernel).cloned().unwrap_or_default();
        move |line| lines.contains(&line)
    }

    /// Chooses who takes the next step.
    pub(crate) fn choose(&mut self, options: &[Party]) -> Party {
        self.steps += 1;
        if self.steps > MOST_STEPS {
            self.recorder.end(Kind::Unending, format!("the program took more than {MOST_STEPS} steps"));
        }
        match self.chooser.choose(options) {
            Ok(choice) => {
                let party = choice.party;
                if !choice.options.is_empty() {
                    self.recorder.write(&Entry::Choice(choice));
                }
                party
            }
            Err(misfit) => self.recorder.end(Kind::Misfit, misfit.to_string()),
        }
    }

    pub(crate) fn describe(&mut self, party: Party, text: String) {
        self.recorder.write(&Entry::Step { party, text });
    }

    pub(crate) fn name(&mut self, party: Party, name: String) {
        if self.named.insert(party) {
            self.recorder.write(&Entry::Name { party, name });
        }
    }
}

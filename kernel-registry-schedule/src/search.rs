//! Searches for a schedule under which a program fails.

use std::time::Instant;

use crate::coverage::{ChanceCoverage, Coverage, Unfinished};
use crate::plan::{Chance, Departure, Plan};
use crate::record::{Kind, Record};
use crate::runner::{Counted, Failure, Limits, Runner};
use crate::shrink::shrink;

/// Runs before new points were found don't count, unless there are so many times as many of them.
const MOST_RESTARTS: u64 = 4;

/// What a search has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Search {
    /// The failure that it found, if any.
    pub failure: Option<Failure>,
    /// Which schedules it tried. If there's a failure, the search stopped there.
    pub coverage: Coverage,
}

/// Tries schedules until the program fails, all have been tried, or a limit is reached.
///
/// First come all schedules without departures from the usual order, then all with one, with two, and so on, as long as the
/// limit allows for all schedules of the next number of departures. The rest of the limit goes to schedules by chance. If a
/// run finds new points, the search starts over with them, because there are more choices then.
///
/// # Errors
///
/// If the runner can't run a plan.
///
/// # Panics
///
/// If the runner returns another number of records than it got plans.
pub fn search<R: Runner>(limits: &Limits, runner: &mut R) -> Result<Search, R::Error> {
    let started = Instant::now();
    let mut searcher = Searcher {
        limits,
        runner: Counted { runner, runs: 0 },
        // Without a deadline if it's too far away for the clock.
        deadline: started.checked_add(limits.time),
        base: Plan::default(),
        length: 1,
        parties: 1,
        coverage: Coverage::default(),
        before: 0,
    };
    let found = loop {
        match searcher.sweep()? {
            End::Points => {
                searcher.coverage = Coverage::default();
                searcher.before = searcher.runner.runs;
            }
            End::Failed(plan, record) => break Some((plan, record)),
            End::Done => break None,
        }
    };
    let Searcher { mut runner, mut coverage, .. } = searcher;
    let failure = match found {
        Some((plan, record)) => Some(shrink(limits, &mut runner, plan, *record)?),
        None => None,
    };
    coverage.runs = runner.runs;
    coverage.elapsed = started.elapsed();
    Ok(Search { failure, coverage })
}

/// Why a sweep ended.
enum End {
    /// There are new points.
    Points,
    /// A run failed.
    Failed(Plan, Box<Record>),
    /// All schedules were tried, or a limit was reached.
    Done,
}

struct Searcher<'a, R> {
    limits: &'a Limits,
    runner: Counted<'a, R>,
    deadline: Option<Instant>,
    /// A plan with all points, and no departures.
    base: Plan,
    /// The largest number of choices in a run.
    length: u64,
    /// The largest number of parties in a run.
    parties: u64,
    coverage: Coverage,
    /// How many runs there were before the search started over.
    before: u64,
}

/// The schedules of one number of departures.
#[derive(Default)]
struct Level {
    schedules: Vec<Vec<Departure>>,
    /// How many there are. If it's more than the search may try, they aren't stored.
    size: u64,
}

impl<R: Runner> Searcher<'_, R> {
    /// Tries schedules of the current set of points.
    fn sweep(&mut self) -> Result<End, R::Error> {
        let mut level = Level { schedules: vec![Vec::new()], size: 1 };
        let mut departures = 0;
        while level.size > 0 && level.size <= self.remaining() {
            let all = self.coverage.schedules + level.size;
            let most = self.remaining() - level.size;
            let mut next = Level::default();
            for batch in level.schedules.chunks(self.batch()) {
                if self.late() {
                    return Ok(End::Done);
                }
                let plans: Vec<Plan> = batch.iter().map(|schedule| self.plan(schedule.clone())).collect();
                let records = self.runner.run(&plans)?;
                self.coverage.schedules += plans.len() as u64;
                self.coverage.unfinished = Some(Unfinished { departures, schedules: all });
                for (plan, record) in plans.iter().zip(&records) {
                    self.coverage.strayed += u64::from(plan.departures != record.departures() || record.away);
                    next.add_children(&plan.departures, record, most);
                }
                if let Some(end) = self.judge(plans, records) {
                    return Ok(end);
                }
            }
            self.coverage.unfinished = None;
            self.coverage.departures = Some(departures);
            departures += 1;
            level = next;
        }
        if level.size == 0 && self.coverage.strayed == 0 {
            self.coverage.exhausted = true;
            return Ok(End::Done);
        }
        self.sample()
    }

    /// Tries schedules by chance.
    fn sample(&mut self) -> Result<End, R::Error> {
        let mut schedules = 0;
        while self.remaining() > 0 && !self.late() {
            let batch = self.remaining().min(self.batch() as u64);
            let plans = (schedules..schedules + batch).map(|number| {
                let seed = self.limits.seed.wrapping_add(number);
                Plan {
                    chance: Some(Chance { seed, depth: self.limits.depth, length: self.length }),
                    ..self.base.clone()
                }
            });
            let plans: Vec<Plan> = plans.collect();
            let records = self.runner.run(&plans)?;
            schedules += batch;
            let end = self.judge(plans, records);
            self.coverage.chance = Some(ChanceCoverage {
                schedules,
                depth: self.limits.depth,
                parties: self.parties,
                length: self.length,
            });
            if let Some(end) = end {
                return Ok(end);
            }
        }
        Ok(End::Done)
    }

    /// Returns whether a batch ends the sweep. Failures come before new points.
    fn judge(&mut self, plans: Vec<Plan>, records: Vec<Record>) -> Option<End> {
        for record in &records {
            self.length = self.length.max(record.choices.len() as u64);
            self.parties = self.parties.max(record.parties as u64);
        }
        let known = self.base.points.len();
        self.base.points.extend(records.iter().flat_map(|record| record.points.iter().cloned()));
        let failed = plans.into_iter().zip(records).filter(|(_, record)| record.kind() != Kind::Passed);
        let simplest = failed.min_by_key(|(_, record)| record.departures().len());
        match simplest {
            Some((plan, record)) => Some(End::Failed(plan, Box::new(record))),
            None => (self.base.points.len() > known).then_some(End::Points),
        }
    }

    fn plan(&self, departures: Vec<Departure>) -> Plan {
        Plan { departures, ..self.base.clone() }
    }

    fn remaining(&self) -> u64 {
        let schedules = self.limits.schedules.max(1);
        // A program in which each run finds points isn't searched forever.
        let in_all = schedules.saturating_mul(MOST_RESTARTS).saturating_sub(self.runner.runs);
        schedules.saturating_sub(self.runner.runs - self.before).min(in_all)
    }

    fn batch(&self) -> usize {
        self.limits.width.max(1).saturating_mul(8)
    }

    /// Returns whether the time is over. There's always time for one batch.
    fn late(&self) -> bool {
        self.runner.runs > 0 && self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }
}

impl Level {
    /// Adds the schedules with one departure more than the recorded run had, after its last one.
    ///
    /// Each schedule has exactly one parent, the one without its last departure, so none is tried twice.
    fn add_children(&mut self, departures: &[Departure], record: &Record, most: u64) {
        // A run that strayed has other children than its plan.
        if record.departures() != departures {
            return;
        }
        let last = record.choices.iter().rposition(|choice| choice.party != choice.usual);
        for choice in &record.choices[last.map_or(0, |last| last + 1)..] {
            for run in choice.options.iter().filter(|option| **option != choice.usual) {
                self.size += 1;
                if self.size > most {
                    self.schedules = Vec::new();
                    continue;
                }
                let departure = Departure { before: choice.usual, step: choice.step, run: *run };
                self.schedules.push(departures.iter().copied().chain([departure]).collect());
            }
        }
    }
}

//! Runs plans for a search, within limits.

use std::time::Duration;

use crate::plan::Plan;
use crate::record::{Kind, Record};

/// How much a search may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How many runs, without those before new points were found, and those that shrink a failing plan.
    pub schedules: u64,
    /// How long, without shrinking, which may take half as long again, and at least 10 seconds.
    pub time: Duration,
    /// Seed of the first schedule by chance; the others have the seeds that follow.
    pub seed: u64,
    /// Depth of the schedules by chance: how many ordering constraints a failure may need.
    pub depth: u32,
    /// How many runs the runner makes at once.
    pub width: usize,
}

/// Runs programs.
pub trait Runner {
    /// Why a program can't be run at all. A program that fails isn't such an error.
    type Error;

    /// Runs each of the plans, as many at once as it likes, and returns their records in the same order.
    fn run(&mut self, plans: &[Plan]) -> Result<Vec<Record>, Self::Error>;
}

/// A schedule under which the program fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The schedule. If it's stable, it's strict, and no departure can be left out.
    pub plan: Plan,
    /// The record of a run of that plan.
    pub record: Record,
    /// How the run failed.
    pub kind: Kind,
    /// Whether the failure was reproduced. Otherwise this is the plan that failed once, as it was.
    pub stable: bool,
}

/// Counts the runs of a runner.
pub(crate) struct Counted<'a, R> {
    pub(crate) runner: &'a mut R,
    pub(crate) runs: u64,
}

impl<R: Runner> Counted<'_, R> {
    pub(crate) fn run(&mut self, plans: &[Plan]) -> Result<Vec<Record>, R::Error> {
        self.runs += plans.len() as u64;
        let mut records = self.runner.run(plans)?;
        assert_eq!(records.len(), plans.len(), "a runner returns one record per plan");
        for record in &mut records {
            record
                .outcome
                .get_or_insert_with(|| (Kind::Crashed, "the run ended without an outcome".to_owned()));
        }
        Ok(records)
    }
}

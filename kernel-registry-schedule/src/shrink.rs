//! Shrinks a failing plan to the departures that it needs.

use std::time::{Duration, Instant};

use crate::plan::{Departure, Plan};
use crate::record::{Kind, Record};
use crate::runner::{Counted, Failure, Limits, Runner};

/// Returns the failure with as few departures as can be found.
///
/// A schedule by chance is first rewritten as departures. Then follows Zeller and Hildebrandt's `ddmin`, which tries to leave
/// out ever smaller parts of the departures until none of them can be left out alone. Where a detour over other parties leads
/// to the one that matters, each departure of the detour is needed for the next, so these are merged.
pub(crate) fn shrink<R: Runner>(
    limits: &Limits,
    runner: &mut Counted<'_, R>,
    plan: Plan,
    record: Record,
) -> Result<Failure, R::Error> {
    let kind = record.kind();
    let time = (limits.time / 2).max(Duration::from_secs(10));
    let deadline = Instant::now().checked_add(time);
    let mut shrinker = Shrinker { runner, width: limits.width.max(1), deadline, kind };
    if let Some((plan, record)) = shrinker.reproduce(&plan, &record)? {
        return Ok(Failure { plan, record, kind, stable: true });
    }
    Ok(Failure { plan, record, kind, stable: false })
}

struct Shrinker<'a, 'r, R> {
    runner: &'a mut Counted<'r, R>,
    width: usize,
    deadline: Option<Instant>,
    kind: Kind,
}

impl<R: Runner> Shrinker<'_, '_, R> {
    /// Returns a small strict plan that fails in the same way, and the record of its run.
    fn reproduce(&mut self, plan: &Plan, record: &Record) -> Result<Option<(Plan, Record)>, R::Error> {
        let rewritten = Plan { departures: record.departures(), chance: None, strict: false, ..plan.clone() };
        let Some(mut failing) = self.first_failing(vec![rewritten])? else { return Ok(None) };
        if let Some(with_points) = self.with_points(&failing, record)? {
            failing = with_points;
        }
        let strict = Plan { strict: true, ..self.minimize(failing)? };
        let records = self.runner.run(std::slice::from_ref(&strict))?;
        let same = records.into_iter().find(|record| record.kind() == self.kind);
        Ok(same.map(|record| (strict, record)))
    }

    /// Adds the points that the failing run found, if the plan still fails with them.
    fn with_points(&mut self, plan: &Plan, record: &Record) -> Result<Option<Plan>, R::Error> {
        if record.points.is_subset(&plan.points) {
            return Ok(None);
        }
        let points = plan.points.union(&record.points).cloned().collect();
        self.first_failing(vec![Plan { points, ..plan.clone() }])
    }

    fn minimize(&mut self, mut plan: Plan) -> Result<Plan, R::Error> {
        loop {
            plan = self.leave_out(plan)?;
            match self.first_failing(merged(&plan))? {
                Some(smaller) => plan = smaller,
                None => return Ok(plan),
            }
        }
    }

    fn leave_out(&mut self, mut plan: Plan) -> Result<Plan, R::Error> {
        let mut chunks = 2;
        while !plan.departures.is_empty() && !self.late() {
            let departures = plan.departures.len();
            chunks = chunks.min(departures);
            if let Some(smaller) = self.first_failing(parts(&plan, chunks))? {
                plan = smaller;
                chunks = (chunks - 1).max(2);
            } else if chunks == departures {
                break;
            } else {
                chunks *= 2;
            }
        }
        Ok(plan)
    }

    /// Returns a plan that fails in the same way, with the departures that its run really made.
    ///
    /// It's the smallest of the first batch that has any.
    fn first_failing(&mut self, plans: Vec<Plan>) -> Result<Option<Plan>, R::Error> {
        for batch in plans.chunks(self.width) {
            if self.late() {
                break;
            }
            let records = self.runner.run(batch)?;
            let failing = batch.iter().zip(records).filter(|(_, record)| record.kind() == self.kind);
            let actual = failing.map(|(plan, record)| {
                let made = record.departures();
                let fewer = made.len() <= plan.departures.len();
                let departures = if fewer { made } else { plan.departures.clone() };
                Plan { departures, ..plan.clone() }
            });
            let smallest = actual.min_by_key(|plan| plan.departures.len());
            if smallest.is_some() {
                return Ok(smallest);
            }
        }
        Ok(None)
    }

    fn late(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }
}

/// Returns the plan with only one of so many chunks of its departures, and with all but one, the smallest first.
fn parts(plan: &Plan, chunks: usize) -> Vec<Plan> {
    let departures = &plan.departures;
    let bound = |chunk: usize| departures.len() * chunk / chunks;
    let with = |departures: Vec<Departure>| Plan { departures, ..plan.clone() };
    let only = |chunk: usize| with(departures[bound(chunk)..bound(chunk + 1)].to_vec());
    let without =
        |chunk: usize| with([&departures[..bound(chunk)], &departures[bound(chunk + 1)..]].concat());
    // Of two chunks, one is what's left without the other.
    let only = (0..chunks).filter(|_| chunks > 2).map(only);
    only.chain((0..chunks).map(without)).collect()
}

/// Returns the plan with two departures, and all between them, replaced by one that leads directly to the last one's party.
///
/// Those come first that are close to each other.
fn merged(plan: &Plan) -> Vec<Plan> {
    let departures = &plan.departures;
    let merge = |first: usize, last: usize| {
        let direct = Departure { run: departures[last].run, ..departures[first] };
        [&departures[..first], &[direct], &departures[last + 1..]].concat()
    };
    let pairs = (1..departures.len())
        .flat_map(|apart| (apart..departures.len()).map(move |last| (last - apart, last)));
    let useful = pairs.filter(|(first, last)| departures[*last].run != departures[*first].before);
    useful.map(|(first, last)| Plan { departures: merge(first, last), ..plan.clone() }).collect()
}

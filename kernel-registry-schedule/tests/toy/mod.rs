//! Toy programs: parties with operations on shared numbers, run in-process under a `Chooser`.

// Each test program uses its own part of this.
#![allow(dead_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kernel_registry_schedule::{Chooser, Entry, Kind, Limits, Misfit, Party, Plan, Point, Record, Runner};

pub type Memory = [i64; 8];

/// An operation of a party.
#[derive(Clone)]
pub struct Op {
    /// Whether it can be done. A spinning operation is tried nevertheless, and again and again.
    ready: fn(&Memory) -> bool,
    act: fn(&mut Memory),
    spins: bool,
    /// Others go before it only if the plan has this point.
    point: Option<Point>,
}

pub fn op(act: fn(&mut Memory)) -> Op {
    Op { ready: |_| true, act, spins: false, point: None }
}

pub fn nothing() -> Op {
    op(|_| {})
}

impl Op {
    pub fn when(self, ready: fn(&Memory) -> bool) -> Op {
        Op { ready, ..self }
    }

    pub fn spinning(self) -> Op {
        Op { spins: true, ..self }
    }

    pub fn at(self, kernel: &str, line: u32) -> Op {
        Op { point: Some(Point { kernel: kernel.to_owned(), line }), ..self }
    }

    fn enabled(&self, memory: &Memory) -> bool {
        self.spins || (self.ready)(memory)
    }
}

#[derive(Clone)]
pub struct Program {
    pub parties: BTreeMap<Party, Vec<Op>>,
    pub check: fn(&Memory) -> bool,
}

#[derive(Clone, Default)]
struct State {
    memory: Memory,
    done: BTreeMap<Party, usize>,
}

impl Program {
    pub fn new<const N: usize>(parties: [(Party, Vec<Op>); N]) -> Self {
        Program { parties: parties.into_iter().collect(), check: |_| true }
    }

    pub fn checked(self, check: fn(&Memory) -> bool) -> Self {
        Program { check, ..self }
    }

    /// Runs the program and returns the text of its record, with steps.
    pub fn text(&self, plan: &Plan) -> String {
        let mut entries = Vec::new();
        let mut chooser = Chooser::new(plan.clone());
        let (kind, text) = match self.follow(&mut chooser, &plan.points, &mut entries) {
            Ok(kind) => (kind, String::new()),
            Err(misfit) => (Kind::Misfit, misfit.to_string()),
        };
        entries.push(Entry::Outcome { kind, text });
        entries.iter().map(|entry| format!("{entry}\n")).collect()
    }

    pub fn run(&self, plan: &Plan) -> Record {
        let mut record = Record::read(&self.text(plan)).expect("a record that was just written");
        if let (Kind::Passed, Some(misfit)) = (record.kind(), record.unused(plan)) {
            record.outcome = Some((Kind::Misfit, misfit.to_string()));
        }
        record
    }

    fn follow(
        &self,
        chooser: &mut Chooser,
        points: &BTreeSet<Point>,
        entries: &mut Vec<Entry>,
    ) -> Result<Kind, Misfit> {
        let mut state = State::default();
        for _ in 0..20_000 {
            let options = self.options(&state);
            if options.is_empty() {
                return Ok(self.end(&state));
            }
            let choice = chooser.choose(&options)?;
            let party = choice.party;
            if choice.options.len() > 1 {
                entries.push(Entry::Choice(choice));
            }
            let hidden = |op: &&Op| op.point.as_ref().is_some_and(|point| !points.contains(point));
            loop {
                self.step(&mut state, party, entries);
                let Some(point) = self.next(&state, party).filter(hidden).and_then(|op| op.point.clone())
                else {
                    break;
                };
                entries.push(Entry::Point(point));
            }
        }
        Ok(Kind::Unending)
    }

    fn step(&self, state: &mut State, party: Party, entries: &mut Vec<Entry>) {
        let op = self.next(state, party).expect("an option has an operation");
        let done = state.done.entry(party).or_default();
        entries.push(Entry::Step { party, text: format!("operation {done}") });
        if (op.ready)(&state.memory) {
            *done += 1;
            (op.act)(&mut state.memory);
        }
    }

    fn next(&self, state: &State, party: Party) -> Option<&Op> {
        self.parties[&party].get(state.done.get(&party).copied().unwrap_or(0))
    }

    fn options(&self, state: &State) -> Vec<Party> {
        let enabled = |party: &&Party| self.next(state, **party).is_some_and(|op| op.enabled(&state.memory));
        // In another order than the sorted one.
        self.parties.keys().rev().filter(enabled).copied().collect()
    }

    fn end(&self, state: &State) -> Kind {
        if self.parties.keys().any(|party| self.next(state, *party).is_some()) {
            return Kind::Deadlock;
        }
        if (self.check)(&state.memory) { Kind::Passed } else { Kind::Failed }
    }

    /// Returns all orders of steps, found without a `Chooser`. All points are known, and nothing may spin.
    pub fn orders(&self) -> BTreeSet<Vec<Party>> {
        let mut orders = BTreeSet::new();
        self.add_orders(&State::default(), &mut Vec::new(), &mut orders);
        orders
    }

    fn add_orders(&self, state: &State, order: &mut Vec<Party>, orders: &mut BTreeSet<Vec<Party>>) {
        let options = self.options(state);
        if options.is_empty() {
            orders.insert(order.clone());
        }
        for party in options {
            let mut state = state.clone();
            self.step(&mut state, party, &mut Vec::new());
            order.push(party);
            self.add_orders(&state, order, orders);
            order.pop();
        }
    }
}

/// Runs a program and keeps the plans and records.
pub struct Toy {
    pub program: Program,
    pub runs: Vec<(Plan, Record)>,
}

impl Toy {
    pub fn new(program: Program) -> Self {
        Toy { program, runs: Vec::new() }
    }

    /// Returns the orders of steps in which the program ran.
    pub fn orders(&self) -> Vec<Vec<Party>> {
        let order = |record: &Record| record.steps.iter().map(|step| step.party).collect();
        self.runs.iter().map(|(_, record)| order(record)).collect()
    }
}

impl Runner for Toy {
    type Error = std::convert::Infallible;

    fn run(&mut self, plans: &[Plan]) -> Result<Vec<Record>, Self::Error> {
        let records: Vec<Record> = plans.iter().map(|plan| self.program.run(plan)).collect();
        self.runs.extend(plans.iter().cloned().zip(records.iter().cloned()));
        Ok(records)
    }
}

pub fn limits(schedules: u64) -> Limits {
    Limits { schedules, time: Duration::from_secs(60), seed: 1, depth: 3, width: 2 }
}

pub const A: Party = Party::Host(0);
pub const B: Party = Party::Host(1);
pub const C: Party = Party::Threads { grid: 0, block: 0, warp: 0, lane: 16 };

/// Both add one to a number, but not atomically.
pub fn lost_update() -> Program {
    let first = vec![op(|m| m[1] = m[0]), op(|m| m[0] = m[1] + 1)];
    let second = vec![op(|m| m[2] = m[0]), op(|m| m[0] = m[2] + 1)];
    Program::new([(A, first), (B, second)]).checked(|m| m[0] == 2)
}

/// Two parties take two locks in opposite orders, with many steps in between, among others that only take steps.
pub fn deadlock(between: usize, others: u32) -> Program {
    let middle = || std::iter::repeat_n(nothing(), between);
    let first = [op(|m| m[0] = 1).when(|m| m[0] == 0)].into_iter().chain(middle());
    let first = first.chain([op(|m| m[1] = 1).when(|m| m[1] == 0), op(|m| m[..2].fill(0))]);
    let second = [op(|m| m[1] = 1).when(|m| m[1] == 0)].into_iter().chain(middle());
    let second = second.chain([op(|m| m[0] = 1).when(|m| m[0] == 0), op(|m| m[..2].fill(0))]);
    let mut program = Program::new([(Party::Host(50), first.collect()), (Party::Host(51), second.collect())]);
    program.parties.extend((0..others).map(|other| (Party::Host(other), vec![nothing(); between])));
    program
}

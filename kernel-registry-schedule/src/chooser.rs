//! Decides inside a run who takes the next step.

use std::collections::{HashMap, VecDeque};
use std::error::Error;
use std::fmt::{self, Display, Formatter};

use crate::chance::Priorities;
use crate::party::Party;
use crate::plan::{Departure, Plan};

/// After this many steps in a row, a party lets the others go.
///
/// Otherwise a host thread that polls, or a kernel that spins, would never see the result that it waits for.
pub const FAIR: u64 = 500;

/// Decides who takes the next step, as a [`Plan`] says.
///
/// Without a departure the usual order applies: the party that took the last step continues as long as it can, and then the
/// next one after it in the order of [`Party`] goes, cyclically.
///
/// ```
/// use kernel_registry_schedule::{Chooser, Departure, Party, Plan};
///
/// let (first, second) = (Party::Host(0), Party::Host(1));
/// let departures = vec![Departure { before: first, step: 1, run: second }];
/// let mut chooser = Chooser::new(Plan { departures, ..Plan::default() });
/// assert_eq!(chooser.choose(&[first, second])?.party, first);
/// assert_eq!(chooser.choose(&[first, second])?.party, second);
/// assert_eq!(chooser.choose(&[first, second])?.party, second);
/// # Ok::<(), kernel_registry_schedule::Misfit>(())
/// ```
#[derive(Debug)]
pub struct Chooser {
    departures: Vec<Departure>,
    /// Indices of the departures that weren't made yet.
    pending: HashMap<(Party, u64), VecDeque<usize>>,
    strict: bool,
    priorities: Option<Priorities>,
    /// How many steps each party has taken.
    steps: HashMap<Party, u64>,
    last: Option<Party>,
    /// How many steps the last party took in a row although others could have gone.
    row: u64,
    /// How many steps others have taken since each option could go.
    waiting: HashMap<Party, u64>,
}

/// Who takes the next step, and who else could have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The party that takes the step.
    pub party: Party,
    /// The party whose turn it was in the usual order.
    pub usual: Party,
    /// How many steps `usual` had taken.
    pub step: u64,
    /// All parties that could take a step, sorted. Empty if there was only one.
    pub options: Vec<Party>,
}

impl Choice {
    /// Returns the departure that this choice is, if it isn't the usual one.
    pub fn departure(&self) -> Option<Departure> {
        let departure = Departure { before: self.usual, step: self.step, run: self.party };
        (self.party != self.usual).then_some(departure)
    }
}

impl Chooser {
    /// Prepares to follow a plan from its start.
    pub fn new(plan: Plan) -> Self {
        let mut pending: HashMap<_, VecDeque<_>> = HashMap::new();
        for (index, departure) in plan.departures.iter().enumerate() {
            pending.entry((departure.before, departure.step)).or_default().push_back(index);
        }
        Chooser {
            departures: plan.departures,
            pending,
            strict: plan.strict,
            priorities: plan.chance.map(Priorities::new),
            steps: HashMap::new(),
            last: None,
            row: 0,
            waiting: HashMap::new(),
        }
    }

    /// Returns who of `options` takes the next step, and counts that step.
    ///
    /// The options are all parties that can take a step now, in any order, without duplicates.
    ///
    /// # Errors
    ///
    /// If the plan is strict and has a departure here that none of the options can make.
    ///
    /// # Panics
    ///
    /// If there are no options.
    pub fn choose(&mut self, options: &[Party]) -> Result<Choice, Misfit> {
        let mut sorted = options.to_vec();
        sorted.sort_unstable();
        let starved = self.starved(&sorted);
        let usual = starved.unwrap_or_else(|| self.usual(&sorted));
        let step = self.steps.get(&usual).copied().unwrap_or(0);
        // Priorities count choices, so they're asked even if a departure overrules them.
        let by_chance = match &mut self.priorities {
            Some(priorities) if sorted.len() > 1 => {
                starved.into_iter().for_each(|party| priorities.raise(party));
                Some(priorities.choose(&sorted))
            }
            _ => None,
        };
        let departure = self.depart(usual, step, &sorted)?;
        let party = departure.or(by_chance).unwrap_or(usual);
        self.waiting.remove(&party);
        self.count(party, others(&sorted) > usize::from(!matches!(party, Party::Room(_))));
        let options = if sorted.len() > 1 { sorted } else { Vec::new() };
        Ok(Choice { party, usual, step, options })
    }

    /// Returns the party that has waited longest, if that's too long: others may take turns forever.
    fn starved(&mut self, sorted: &[Party]) -> Option<Party> {
        self.waiting.retain(|party, _| sorted.binary_search(party).is_ok());
        let usable = sorted.iter().filter(|party| !matches!(party, Party::Room(_)));
        usable.for_each(|party| *self.waiting.entry(*party).or_default() += 1);
        let longest = self.waiting.iter().max_by_key(|(party, waits)| (**waits, std::cmp::Reverse(**party)));
        longest.filter(|(_, waits)| **waits > 2 * FAIR).map(|(party, _)| *party)
    }

    /// Returns whose turn it is in the usual order, which never is little room if anything else can go.
    fn usual(&self, sorted: &[Party]) -> Party {
        let usable = |party: &Party| others(sorted) == 0 || !matches!(party, Party::Room(_));
        let mut usable = sorted.iter().copied().filter(usable).peekable();
        let first = *usable.peek().expect("someone can take a step");
        let Some(last) = self.last else { return first };
        let tired = self.row >= FAIR;
        usable.find(|party| *party > last || (*party == last && !tired)).unwrap_or(first)
    }

    /// Makes the next departure that's pending at this step of the usual party.
    fn depart(&mut self, usual: Party, step: u64, sorted: &[Party]) -> Result<Option<Party>, Misfit> {
        let Some(pending) = self.pending.get_mut(&(usual, step)) else { return Ok(None) };
        while let Some(index) = pending.pop_front() {
            let departure = self.departures[index];
            if sorted.binary_search(&departure.run).is_ok() {
                return Ok(Some(departure.run));
            }
            if self.strict {
                return Err(Misfit::NotAnOption { departure, options: sorted.to_vec() });
            }
        }
        Ok(None)
    }

    fn count(&mut self, party: Party, alternatives: bool) {
        *self.steps.entry(party).or_default() += 1;
        // A tired party that goes on because a departure says so starts anew.
        if self.last != Some(party) || (alternatives && self.row >= FAIR) {
            self.row = 0;
        }
        self.last = Some(party);
        self.row += u64::from(alternatives);
        if self.row >= FAIR
            && let Some(priorities) = &mut self.priorities
        {
            priorities.lower(party);
        }
    }
}

/// Returns how many parties are something else than a stream in little room.
fn others(parties: &[Party]) -> usize {
    parties.iter().filter(|party| !matches!(party, Party::Room(_))).count()
}

/// A run couldn't follow its strict plan.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Misfit {
    /// The run got to the departure, but the party couldn't take a step.
    NotAnOption {
        /// The departure.
        departure: Departure,
        /// Who could take a step, sorted.
        options: Vec<Party>,
    },
    /// The run ended before it got to the departure.
    Unused {
        /// The departure.
        departure: Departure,
    },
}

impl Display for Misfit {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Misfit::NotAnOption { departure, options } => {
                let options: Vec<String> = options.iter().map(Party::to_string).collect();
                write!(f, "`{departure}` isn't possible, only these can take a step: {}", options.join(", "))
            }
            Misfit::Unused { departure } => write!(f, "the run ended before it got to `{departure}`"),
        }
    }
}

impl Error for Misfit {}

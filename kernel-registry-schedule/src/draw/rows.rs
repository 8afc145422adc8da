//! Rows of a drawing: consecutive steps of one party.

use crate::party::Party;
use crate::record::Record;

/// How many rows a drawing keeps at its start, if there are too many.
const FIRST: usize = 100;

/// How many rows it keeps at its end, where the failure is.
const LAST: usize = 300;

/// A row of a drawing.
#[derive(Debug)]
pub(super) enum Row {
    /// Consecutive steps of one party.
    Run(Run),
    /// So many rows were left out.
    Gap(usize),
}

/// Consecutive steps of one party.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) party: Party,
    /// The party that would usually have been next.
    pub(super) instead_of: Option<Party>,
    /// What was done.
    pub(super) texts: Vec<String>,
    /// How many choices fell on the party.
    pub(super) choices: usize,
}

/// Returns the rows to draw: the first and last ones, and all that begin with a departure.
pub(super) fn rows(record: &Record) -> Vec<Row> {
    let runs = runs(record);
    let count = runs.len();
    let mut rows = Vec::new();
    for (index, run) in runs.into_iter().enumerate() {
        let kept = count <= FIRST + LAST || index < FIRST || index >= count - LAST;
        if kept || run.instead_of.is_some() {
            rows.push(Row::Run(run));
        } else if let Some(Row::Gap(left_out)) = rows.last_mut() {
            *left_out += 1;
        } else {
            rows.push(Row::Gap(1));
        }
    }
    rows
}

fn runs(record: &Record) -> Vec<Run> {
    let mut runs = Runs(Vec::new());
    let mut steps = record.steps.iter().peekable();
    // What was done before any choice.
    while let Some(step) = steps.next_if(|step| step.choices == 0) {
        runs.of_party(step.party).texts.push(step.text.clone());
    }
    for (index, choice) in record.choices.iter().enumerate() {
        if choice.party != choice.usual {
            runs.begin(choice.party, Some(choice.usual));
        }
        runs.of_party(choice.party).choices += 1;
        while let Some(step) = steps.next_if(|step| step.choices <= index + 1) {
            runs.of_party(step.party).texts.push(step.text.clone());
        }
    }
    runs.0
}

struct Runs(Vec<Run>);

impl Runs {
    /// Returns the last run if it's this party's, or else a new one.
    fn of_party(&mut self, party: Party) -> &mut Run {
        if self.0.last().is_none_or(|run| run.party != party) {
            self.begin(party, None);
        }
        self.0.last_mut().expect("a run was begun")
    }

    fn begin(&mut self, party: Party, instead_of: Option<Party>) {
        self.0.push(Run { party, instead_of, texts: Vec::new(), choices: 0 });
    }
}

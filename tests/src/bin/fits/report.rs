//! Sums up all trials, as text and as JSON.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Value, json};

use crate::gpu::Gpu;
use crate::ptx::Spec;
use crate::trial::{Figures, Trial};

/// The allowed percentage of wrong answers among "does not fit".
const ALLOWED: f64 = 2.0;

/// The most pairs that may remain untried.
const UNTRIED: usize = 3;

pub(crate) struct Report {
    device: String,
    seed: u64,
    trials: Vec<Trial>,
    /// The pairs that couldn't be tried, and why.
    untried: Vec<(u64, String)>,
}

/// A computed answer compared with what the device did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Right,
    /// "Fits" was computed, but the kernel didn't.
    WrongFits,
    /// "Does not fit" was computed, but the kernel did.
    WrongDoesNotFit,
    NotTried,
}

impl Verdict {
    fn of(fits: bool, did: Option<bool>) -> Self {
        match (fits, did) {
            (_, None) => Verdict::NotTried,
            (true, Some(false)) => Verdict::WrongFits,
            (false, Some(true)) => Verdict::WrongDoesNotFit,
            _ => Verdict::Right,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Verdict::Right => "right",
            Verdict::WrongFits => "wrong_fits",
            Verdict::WrongDoesNotFit => "wrong_does_not_fit",
            Verdict::NotTried => "not_tried",
        }
    }
}

impl Trial {
    fn grid(&self) -> Verdict {
        Verdict::of(self.residency.fits(), Some(self.arrived == self.pair.grid))
    }

    fn beside(&self) -> Verdict {
        Verdict::of(self.room.fits(), self.ran)
    }

    fn has_wrong_occupancy(&self) -> bool {
        [&self.resident, &self.probe]
            .into_iter()
            .any(|figures| figures.occupancy != figures.computed_occupancy)
    }
}

/// The counts of answers of one kind.
struct Tally {
    fits: usize,
    does_not_fit: usize,
    wrong_fits: usize,
    wrong_does_not_fit: usize,
}

impl Tally {
    fn of(answers: impl Iterator<Item = (bool, Verdict)>) -> Self {
        let mut tally = Tally { fits: 0, does_not_fit: 0, wrong_fits: 0, wrong_does_not_fit: 0 };
        for (fits, verdict) in answers.filter(|(_, verdict)| *verdict != Verdict::NotTried) {
            *(if fits { &mut tally.fits } else { &mut tally.does_not_fit }) += 1;
            tally.wrong_fits += usize::from(verdict == Verdict::WrongFits);
            tally.wrong_does_not_fit += usize::from(verdict == Verdict::WrongDoesNotFit);
        }
        tally
    }

    /// Returns the percentage of wrong answers among "does not fit".
    fn wrong_share(&self) -> f64 {
        100.0 * self.wrong_does_not_fit as f64 / self.does_not_fit.max(1) as f64
    }

    fn is_right(&self) -> bool {
        self.wrong_fits == 0 && self.wrong_share() <= ALLOWED
    }

    fn json(&self) -> Value {
        json!({
            "fits": self.fits,
            "does_not_fit": self.does_not_fit,
            "wrong_fits": self.wrong_fits,
            "wrong_does_not_fit": self.wrong_does_not_fit,
            "wrong_does_not_fit_percent": self.wrong_share(),
        })
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:>5} fit, {} wrong; {:>5} do not fit, {} wrong ({:.1} %)",
            self.fits,
            self.wrong_fits,
            self.does_not_fit,
            self.wrong_does_not_fit,
            self.wrong_share()
        )
    }
}

impl Report {
    pub(crate) fn new(gpu: &Gpu, seed: u64) -> Self {
        Report { device: gpu.words(), seed, trials: Vec::new(), untried: Vec::new() }
    }

    pub(crate) fn add(&mut self, trial: Trial) {
        self.trials.push(trial);
    }

    pub(crate) fn add_untried(&mut self, index: u64, why: String) {
        self.untried.push((index, why));
    }

    pub(crate) fn has_too_many_untried(&self) -> bool {
        self.untried.len() > UNTRIED
    }

    fn grids(&self) -> Tally {
        Tally::of(self.trials.iter().map(|trial| (trial.residency.fits(), trial.grid())))
    }

    fn besides(&self) -> Tally {
        Tally::of(self.trials.iter().map(|trial| (trial.room.fits(), trial.beside())))
    }

    fn wrong_occupancies(&self) -> usize {
        self.trials.iter().filter(|trial| trial.has_wrong_occupancy()).count()
    }

    pub(crate) fn is_right(&self) -> bool {
        self.grids().is_right()
            && self.besides().is_right()
            && self.wrong_occupancies() == 0
            && !self.has_too_many_untried()
            && !self.trials.is_empty()
    }

    /// Returns, for each limit that an answer named, how many answers were "does not fit", and how many of
    /// these were wrong.
    fn limits(&self) -> BTreeMap<&'static str, [usize; 2]> {
        let mut limits = BTreeMap::<_, [usize; 2]>::new();
        for trial in self.trials.iter().filter(|trial| trial.ran.is_some() && !trial.room.fits()) {
            let [all, wrong] = limits.entry(trial.room.limit.name()).or_default();
            *all += 1;
            *wrong += usize::from(trial.beside() == Verdict::WrongDoesNotFit);
        }
        limits
    }

    pub(crate) fn json(&self) -> Value {
        let limits: BTreeMap<_, _> = self
            .limits()
            .into_iter()
            .map(|(limit, [all, wrong])| (limit, json!({ "does_not_fit": all, "wrong": wrong })))
            .collect();
        json!({
            "device": self.device,
            "seed": self.seed,
            "right": self.is_right(),
            "untried": self.untried.iter().map(|(index, why)| json!({ "index": index, "why": why })).collect::<Vec<_>>(),
            "grids": self.grids().json(),
            "beside": self.besides().json(),
            "limits": limits,
            "wrong_occupancies": self.wrong_occupancies(),
            "pairs": self.trials.iter().map(trial).collect::<Vec<_>>(),
        })
    }
}

fn trial(trial: &Trial) -> Value {
    json!({
        "index": trial.index,
        "presses": format!("{:?}", trial.pair.scarce).to_lowercase(),
        "stays": kernel(&trial.pair.resident, &trial.resident),
        "passes": kernel(&trial.pair.probe, &trial.probe),
        "grid": trial.pair.grid,
        "capacity": trial.residency.capacity,
        "arrived": trial.arrived,
        "grid_verdict": trial.grid().name(),
        "fits": trial.room.fits(),
        "limit": trial.room.limit.name(),
        "carveout": trial.room.carveout,
        "blocks_at_once": trial.room.at_once,
        "ran": trial.ran,
        "verdict": trial.beside().name(),
        "milliseconds": trial.milliseconds,
    })
}

fn kernel(spec: &Spec, figures: &Figures) -> Value {
    json!({
        "threads": spec.threads,
        "asked_registers": spec.registers,
        "registers": figures.registers,
        "static_shared": figures.static_shared,
        "dynamic_shared": spec.dynamic_shared,
        "local": figures.local,
        "carveout": spec.carveout,
        "occupancy": figures.occupancy,
        "computed_occupancy": figures.computed_occupancy,
    })
}

fn words(spec: &Spec, figures: &Figures) -> String {
    let carveout = spec.carveout.map(|percent| format!(", carve-out {percent}")).unwrap_or_default();
    format!(
        "{} threads, {} registers, {}+{} bytes{carveout}",
        spec.threads, figures.registers, figures.static_shared, spec.dynamic_shared
    )
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}; seed {}", self.device, self.seed)?;
        for trial in &self.trials {
            let verdicts = [trial.grid(), trial.beside()];
            let is_wrong = verdicts
                .iter()
                .any(|verdict| matches!(verdict, Verdict::WrongFits | Verdict::WrongDoesNotFit));
            if !is_wrong && !trial.has_wrong_occupancy() {
                continue;
            }
            writeln!(
                f,
                "pair {}: grid {}, beside {} (limit: {})\n  resident   {} x {}; occupancy {}, computed {}; {} of {} blocks \
                 arrived\n  probe  {}; occupancy {}, computed {}",
                trial.index,
                verdicts[0].name(),
                verdicts[1].name(),
                trial.room.limit,
                trial.pair.grid,
                words(&trial.pair.resident, &trial.resident),
                trial.resident.occupancy,
                trial.resident.computed_occupancy,
                trial.arrived,
                trial.pair.grid,
                words(&trial.pair.probe, &trial.probe),
                trial.probe.occupancy,
                trial.probe.computed_occupancy,
            )?;
        }
        writeln!(f, "grids    {}", self.grids())?;
        writeln!(f, "beside   {}", self.besides())?;
        for (limit, [all, wrong]) in self.limits() {
            writeln!(f, "         limited by {limit}: {all}, {wrong} wrong")?;
        }
        writeln!(f, "occupancy differs from the driver's in {} pairs", self.wrong_occupancies())?;
        let milliseconds: u128 = self.trials.iter().map(|trial| trial.milliseconds).sum();
        writeln!(f, "{} pairs in {:.1} s", self.trials.len(), milliseconds as f64 / 1000.0)?;
        if !self.untried.is_empty() {
            writeln!(f, "{} could not be tried", self.untried.len())?;
        }
        for (index, why) in &self.untried {
            writeln!(f, "  pair {index}: {why}")?;
        }
        writeln!(f, "{}", if self.is_right() { "right" } else { "WRONG" })
    }
}

//! Schedules of simulated GPU programs.
//!
//! A simulator runs a program many times, each time in a process of its own and under another schedule. This crate has the
//! parts of that which don't depend on the simulator:
//!
//! 1. Inside a run, [`Chooser`] decides which [`Party`] takes the next step, according to a [`Plan`].
//! 2. The run appends an [`Entry`] per choice to a file, so whatever happened before a crash is known.
//! 3. Outside, [`search`] runs plans until a [`Record`] tells of a failure, and shrinks the plan that failed.
//! 4. [`draw`] shows a record as an SVG.
//!
//! A schedule is the list of its [`Departure`]s from a usual order, in which a party continues until it blocks. Most failures
//! need one or two departures, so the search tries the schedules with few departures first, and a failing schedule is short
//! enough to be read.

#![forbid(unsafe_code)]

mod chance;
mod chooser;
mod coverage;
mod draw;
mod party;
mod plan;
mod record;
mod report;
mod runner;
mod search;
mod shrink;
mod text;
pub mod variables;

pub use chooser::{Choice, Chooser, FAIR, Misfit};
pub use coverage::{ChanceCoverage, Coverage, Unfinished};
pub use draw::draw;
pub use party::{ParsePartyError, Party};
pub use plan::{Chance, Departure, Plan, Point};
pub use record::{ENDED, End, Entry, Kind, Record, Step};
pub use report::Report;
pub use runner::{Failure, Limits, Runner};
pub use search::{Search, search};
pub use text::{ParseError, Reason};

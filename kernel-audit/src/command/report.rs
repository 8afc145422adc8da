//! Writes reports: `groups`, `comparison`, `compiled`, `streams` and `stretches` sum up what was recorded; `hang` explains a hang; `text`, `json`, `html` and `trace` each write
//! one format.

pub(crate) mod comparison;
mod compiled;
mod fault;
mod groups;
pub(crate) mod hang;
pub(crate) mod html;
pub(crate) mod json;
pub(crate) mod page;
mod preloaded;
mod streams;
mod stretches;
mod text;
pub(crate) mod trace;
pub(crate) mod words;

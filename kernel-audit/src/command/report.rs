//! Reports: `groups`, `comparison` and `streams` sum up; `text`, `json`, `html` and `trace` write.

pub(crate) mod comparison;
mod groups;
pub(crate) mod html;
pub(crate) mod json;
pub(crate) mod page;
mod streams;
mod text;
pub(crate) mod trace;
pub(crate) mod words;

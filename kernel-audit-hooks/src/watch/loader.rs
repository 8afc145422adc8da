//! Reads what the loader of libraries has mapped: the program and its libraries, their symbols, and the driver.

pub(crate) mod build_id;
pub(crate) mod library;
pub(crate) mod mapped;
pub(crate) mod real;
pub(crate) mod symbols;

//! Development chores.

fn main() {}

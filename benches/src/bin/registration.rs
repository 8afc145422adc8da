//! What registration costs.

fn main() {}

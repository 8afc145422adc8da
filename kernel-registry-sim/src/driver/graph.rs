//! Groups the parts of graphs: their nodes, their launches, and the capture of streams, which creates graphs.

pub(crate) mod capture_rules;
pub(crate) mod capture_state;
pub(crate) mod launch;
pub(crate) mod nodes;

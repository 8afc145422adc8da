//! Collects the rows of all files in this folder.

use super::{
    arrays, contexts, copies, graph_nodes, graphs, ipc, kernels, libraries, pools, sparse, streams,
    virtual_memory,
};
use crate::row::Row;

pub(crate) fn rows() -> Vec<Row> {
    let groups = [
        kernels::rows(),
        libraries::rows(),
        graph_nodes::rows(),
        graphs::rows(),
        virtual_memory::rows(),
        pools::rows(),
        ipc::rows(),
        arrays::rows(),
        sparse::rows(),
        copies::rows(),
        contexts::rows(),
        streams::rows(),
    ];
    groups.into_iter().flatten().collect()
}

//! Rows for graph nodes that launch a kernel: does adding or changing the node load the kernel?

use census_kernels::plain::sibling;
use kernel_registry::cudarc::driver::sys;

use crate::bench::Bench;
use crate::cuda::{self, Done, Handle, NULL, driver, join_errors};
use crate::host::{kernels, row, with};
use crate::row::{Row, attempt};

pub(crate) fn rows() -> Vec<Row> {
    let changes = [
        change("cuGraphKernelNodeSetParams", |graphs, node| {
            driver!(cuGraphKernelNodeSetParams_v2(graphs.node, &raw mut *node))
        }),
        change("cuGraphExecKernelNodeSetParams", |graphs, node| {
            driver!(cuGraphExecKernelNodeSetParams_v2(graphs.instance, graphs.node, &raw mut *node))
        }),
        change("cuGraphNodeSetParams", |graphs, node| {
            driver!(cuGraphNodeSetParams(graphs.node, generic(node).as_mut_ptr()))
        }),
        change("cuGraphExecNodeSetParams", |graphs, node| {
            driver!(cuGraphExecNodeSetParams(graphs.instance, graphs.node, generic(node).as_mut_ptr()))
        }),
        change("cuGraphAddKernelNode", |graphs, node| cuda::add_kernel(graphs.graph, node).map(drop)),
        change("cuGraphAddNode", |graphs, node| {
            let mut added: Handle = NULL;
            let mut params = generic(node);
            driver!(cuGraphAddNode_v2(&raw mut added, graphs.graph, NULL, NULL, 0_usize, params.as_mut_ptr()))
        }),
    ];
    changes.into_iter().flatten().chain(questions()).collect()
}

/// A graph that launches a loaded kernel, the graph's node, and the graph's instance.
#[derive(Clone, Copy)]
struct Graphs {
    graph: sys::CUgraph,
    node: sys::CUgraphNode,
    instance: sys::CUgraphExec,
}

fn graphs(bench: &Bench) -> Done<Graphs> {
    let kernel = cuda::kernel(cuda::load_library(sibling::INFO)?, sibling::INFO)?;
    cuda::function_of_kernel(kernel)?;
    let graph = cuda::new_graph()?;
    let node = bench.with_args(|args| cuda::add_kernel(graph, &cuda::kernel_node(kernel, args)?))?;
    Ok(Graphs { graph, node, instance: cuda::instantiate(graph)? })
}

type Change = fn(Graphs, &mut sys::CUDA_KERNEL_NODE_PARAMS) -> Done;

/// Returns rows that change a node to a library's kernel: not loaded, in a library that the context has, and
/// loaded.
fn change(name: &str, change: Change) -> [Row; 3] {
    let changed = |name: &str, kernel: fn(&Bench) -> Done<sys::CUkernel>| {
        row(name, move |bench| {
            let (graphs, kernel) = (graphs(bench)?, kernel(bench)?);
            attempt(move || bench.with_args(|args| change(graphs, &mut cuda::kernel_node(kernel, args)?)))
        })
    };
    [
        changed(&format!("{name}_cold"), kernels::cold),
        changed(&format!("{name}_cold_in_context"), kernels::cold_in_context),
        changed(name, kernels::loaded),
    ]
}

/// Returns a kernel node's parameters in the structure for all kinds of nodes: the kind, three 32-bit words,
/// and 232 bytes of parameters.
fn generic(node: &sys::CUDA_KERNEL_NODE_PARAMS) -> [u64; 32] {
    let mut params = [0_u64; 32];
    // SAFETY: the parameters are plain data without padding, and fit into the structure.
    unsafe { params.as_mut_ptr().add(2).cast::<sys::CUDA_KERNEL_NODE_PARAMS>().write(*node) };
    params
}

fn questions() -> Vec<Row> {
    vec![
        with("kernel_node_questions", graphs, |_, graphs| {
            let mut params: sys::CUDA_KERNEL_NODE_PARAMS = cuda::zero();
            let (mut value, mut enabled, mut kind) = ([0_u64; 8], 0_u32, 0_u32);
            const PRIORITY: u32 = 8;
            join_errors([
                driver!(cuGraphKernelNodeGetParams_v2(graphs.node, &raw mut params)),
                driver!(cuGraphKernelNodeGetAttribute(graphs.node, PRIORITY, value.as_mut_ptr())),
                driver!(cuGraphKernelNodeSetAttribute(graphs.node, PRIORITY, value.as_ptr())),
                driver!(cuGraphKernelNodeCopyAttributes(graphs.node, graphs.node)),
                driver!(cuGraphNodeGetType(graphs.node, &raw mut kind)),
                driver!(cuGraphNodeGetEnabled(graphs.instance, graphs.node, &raw mut enabled)),
                driver!(cuGraphNodeSetEnabled(graphs.instance, graphs.node, 0_u32)),
            ])
        }),
        with("cuGraphExecUpdate", graphs, |_, graphs| {
            let mut result = [0_u64; 8];
            driver!(cuGraphExecUpdate_v2(graphs.instance, graphs.graph, result.as_mut_ptr()))
        }),
        with("cuGraphUpload_of_added", graphs, |bench, graphs| {
            cuda::upload_graph(graphs.instance, bench.tried_stream)
        }),
        with("cuGraphLaunch_of_added", graphs, |bench, graphs| {
            cuda::launch_graph(graphs.instance, bench.tried_stream)?;
            cuda::synchronize_stream(bench.tried_stream)
        }),
    ]
}

//! How much there is of everything, for tests that look whether something is left.

use super::process::Simulator;

/// What programs have made, and not destroyed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Live {
    /// Contexts, primary ones included.
    pub contexts: usize,
    /// Streams, without those that every context has.
    pub streams: usize,
    /// Events.
    pub events: usize,
    /// Modules, with those that libraries have in contexts.
    pub modules: usize,
    /// Libraries.
    pub libraries: usize,
    /// Graphs, and those that can be launched.
    pub graphs: usize,
    /// Pieces of memory, of devices and of the host, with the variables of modules.
    pub allocations: usize,
    /// Their bytes.
    pub bytes: u64,
}

/// Counts what there is.
///
/// ```
/// kernel_registry_sim::install()?;
/// let before = kernel_registry_sim::live();
/// // Here is what should leave nothing behind.
/// assert_eq!(kernel_registry_sim::live(), before);
/// # Ok::<(), kernel_registry_sim::InstallError>(())
/// ```
pub fn live() -> Live {
    // In a child of the process that has initialised the driver there is none.
    let Ok(simulator) = Simulator::of_this_process() else { return Live::default() };
    let state = simulator.lock();
    let contexts = state.contexts.iter().count();
    let (allocations, bytes) = state.memory.lock().count();
    Live {
        contexts,
        streams: state.streams.iter().filter(|(_, stream)| !stream.closed).count() - 2 * contexts,
        events: state.events.iter().count(),
        modules: state.modules.iter().count(),
        libraries: state.libraries.iter().count(),
        graphs: state.graphs.count(),
        allocations,
        bytes,
    }
}

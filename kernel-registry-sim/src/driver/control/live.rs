//! Counts the driver's objects that exist, for tests that look for leaks.

use crate::driver::state::simulator::Simulator;

/// The numbers of objects that were created and not destroyed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Live {
    /// Contexts, including primary contexts.
    pub contexts: usize,
    /// Streams, without the default streams.
    pub streams: usize,
    /// Events.
    pub events: usize,
    /// Modules, including the modules of libraries.
    pub modules: usize,
    /// Libraries.
    pub libraries: usize,
    /// Graphs and executable graphs.
    pub graphs: usize,
    /// Allocations of device and host memory, including the variables of modules.
    pub allocations: usize,
    /// Bytes of these allocations.
    pub bytes: u64,
}

/// Counts the objects that exist.
///
/// ```
/// kernel_registry_sim::install()?;
/// let before = kernel_registry_sim::live();
/// // Run the code that must leave nothing behind.
/// assert_eq!(kernel_registry_sim::live(), before);
/// # Ok::<(), kernel_registry_sim::InstallError>(())
/// ```
pub fn live() -> Live {
    // A child process after fork has no driver.
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

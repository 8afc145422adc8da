//! Returns races, for tests.

use kernel_registry_ptx::Race;

use crate::driver::state::simulator::Simulator;

/// Returns the races that were found since the last call, if [`Config::races`](crate::Config::races) is set.
///
/// ```
/// use kernel_registry_sim::{Config, races};
///
/// Config::default().races(true).install()?;
/// // Run the kernels, and wait for them.
/// assert_eq!(races(), []);
/// # Ok::<(), kernel_registry_sim::InstallError>(())
/// ```
pub fn races() -> Vec<Race> {
    let Ok(simulator) = Simulator::of_this_process() else { return Vec::new() };
    let mut state = simulator.lock();
    state.watched.as_mut().map(|watched| watched.take()).unwrap_or_default()
}

//! What a warm-up did.

use std::fmt;
use std::time::Duration;

/// What a warm-up did, and how long its steps took.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// All warm kernels, those of candle and others: `candle_kernels::affine::affine_f32`.
    pub registry: kernel_registry::Report,
    /// How many modules candle has. The others have no warm kernel.
    pub modules: usize,
    /// How long registering took. Only the first warm-up of the process registers.
    pub registered_in: Duration,
    /// How long loading took.
    pub warmed_in: Duration,
    /// How long it took until candle had its modules.
    pub taken_in: Duration,
    /// How long the hooks took.
    pub hooks_in: Duration,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { registry, modules, registered_in, warmed_in, taken_in, hooks_in } = self;
        writeln!(f, "{registry}")?;
        write!(
            f,
            "candle has {modules} modules: registered in {registered_in:.1?}, warmed in {warmed_in:.1?}, taken in {taken_in:.1?}"
        )?;
        if *hooks_in > Duration::ZERO { write!(f, ", hooks in {hooks_in:.1?}") } else { Ok(()) }
    }
}

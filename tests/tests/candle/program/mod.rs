//! Warms all kernels of candle on the simulated driver, and launches some of them with random arguments. This is the program of the
//! generated package.

// First, for its macro.
#[macro_use]
mod tensors;

mod convolutions;
mod elementwise;
mod indexing;
mod rows;

use std::error::Error;

use kernel_registry_sim::{Config, Device};

use tensors::Try;

/// The number of times that each check is made, each time with other shapes, numbers and blocks.
const TIMES: u64 = 4;

pub fn run() -> Result<(), Box<dyn Error>> {
    Config::with_devices([Device::a100()]).install()?;
    let context = kernel_registry::context(0)?;
    let warm = kernel_registry::warm_all(&context)?;
    println!("{} kernels are warm", warm.report().kernels.len());
    let stream = context.new_stream()?;
    let groups = [elementwise::checks(), rows::checks(), indexing::checks(), convolutions::checks()];
    let checks: Vec<_> = groups.into_iter().flatten().collect();
    for (number, (symbol, check)) in checks.iter().enumerate() {
        for time in 0..TIMES {
            let seed = number as u64 * TIMES + time;
            let tried = check(&mut Try::new(&stream, symbol, seed));
            tried.map_err(|error| format!("{symbol}, seed {seed}: {error}"))?;
        }
    }
    println!("{} kernels compute what the CPU does", checks.len());
    Ok(())
}

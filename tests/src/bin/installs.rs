//! Installs the simulated driver before CUDA is used, or afterwards if the argument is `late`. Then prints
//! the driver files that Linux has mapped into this process, and the driver's number of devices.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;

use kernel_registry::cudarc::driver::CudaContext;

fn main() -> Result<(), Box<dyn Error>> {
    if std::env::args().nth(1).is_some_and(|when| when == "late") {
        CudaContext::device_count()?;
    }
    kernel_registry_sim::Config::from_environment().devices(3).install()?;
    let devices = CudaContext::device_count()?;
    let maps = fs::read_to_string("/proc/self/maps")?;
    let files = maps.lines().filter_map(|line| line.split_whitespace().nth(5));
    let drivers: BTreeSet<_> = files.filter(|file| file.contains("libcuda.so")).collect();
    println!("{devices} {}", drivers.into_iter().collect::<Vec<_>>().join(" "));
    Ok(())
}

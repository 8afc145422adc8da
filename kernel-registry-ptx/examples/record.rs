//! Runs all cases of the differential test on a GPU, and writes the results to files in the folder that is
//! named: `cargo run -p kernel-registry-ptx --example record -- kernel-registry-ptx/tests/differential`.

#[path = "../tests/differential/case.rs"]
mod case;
#[path = "../tests/differential/expand.rs"]
mod expand;
#[path = "../tests/differential/generate.rs"]
mod generate;
#[path = "../tests/differential/instructions.rs"]
#[allow(dead_code)] // Only the test uses what compares results.
mod instructions;
#[path = "../tests/differential/operands.rs"]
mod operands;
#[path = "../tests/differential/random.rs"]
mod random;
#[path = "../tests/differential/recording.rs"]
#[allow(dead_code)] // Only the test reads recordings.
mod recording;
#[path = "../tests/differential/samples.rs"]
mod samples;
#[path = "../tests/differential/table.rs"]
#[allow(dead_code)] // Only the test uses bounds.
mod table;

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use case::{Argument, Case};
use cudarc::driver::{CudaContext, CudaStream, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;
use recording::Recording;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("name the folder to write to: tests/differential")?;
    let context = CudaContext::new(0)?;
    let stream = context.new_stream()?;
    let instructions = instructions::instructions().into_iter().map(|instruction| instruction.case);
    let mut failed = 0;
    for (file, cases) in [
        ("golden.bin", generate::cases()),
        ("instructions.bin", instructions.collect()),
        ("samples.bin", samples::samples()),
    ] {
        let mut recording = Vec::new();
        let mut count = 0;
        for case in &cases {
            // A kernel that is refused or that fails is left out. The test reports that its result is
            // missing.
            match run(&context, &stream, case) {
                Ok(result) => {
                    Recording::add(&mut recording, case, &result);
                    count += 1;
                }
                Err(error) => {
                    println!("{file}: {}: {error}", case.name);
                    failed += 1;
                }
            }
        }
        let path = Path::new(&folder).join(file);
        std::fs::write(&path, &recording)?;
        println!("{}: {count} of {} recorded, {} bytes", path.display(), cases.len(), recording.len());
    }
    if failed == 0 { Ok(()) } else { Err(format!("{failed} are not recorded").into()) }
}

/// Runs a case, and returns the content of its outputs after the kernel has ended.
fn run(context: &Arc<CudaContext>, stream: &Arc<CudaStream>, case: &Case) -> Result<Vec<u8>, Box<dyn Error>> {
    let kernel = context.load_module(Ptx::from_src(&case.text))?.load_function(&case.kernel)?;
    let memory = case
        .arguments
        .iter()
        .map(|argument| match argument {
            Argument::Value(_) => Ok(None),
            Argument::Input(bytes) | Argument::Output(bytes) => stream.clone_htod(bytes).map(Some),
        })
        .collect::<Result<Vec<_>, _>>()?;
    let [x, y, z] = case.grid;
    let [width, height, depth] = case.block;
    let mut launch = stream.launch_builder(&kernel);
    for (argument, memory) in case.arguments.iter().zip(&memory) {
        match (argument, memory) {
            // The driver reads from this address as many bytes as the parameter has.
            (Argument::Value(bytes), _) => launch.arg(&bytes[0]),
            (_, Some(memory)) => launch.arg(memory),
            (_, None) => continue,
        };
    }
    let shape = LaunchConfig {
        grid_dim: (x, y, z),
        block_dim: (width, height, depth),
        shared_mem_bytes: case.shared,
    };
    // SAFETY: the arguments have the sizes of the parameters. Each case keeps its kernel inside of the
    // memory: the interpreter runs the same cases and checks each access.
    unsafe { launch.launch(shape) }?;
    stream.synchronize()?;
    let mut results = Vec::new();
    for (argument, memory) in case.arguments.iter().zip(&memory) {
        if let (Argument::Output(_), Some(memory)) = (argument, memory) {
            results.extend(stream.clone_dtoh(memory)?);
        }
    }
    Ok(results)
}

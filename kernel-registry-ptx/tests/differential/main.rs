//! Compares the interpreter with a GPU. The results of each kernel on a GPU were recorded by
//! `cargo run -p kernel-registry-ptx --example record -- kernel-registry-ptx/tests/differential`.
//!
//! There are three recordings: of single instructions with operands at the edges of their ranges, of random
//! kernels, and of the kernels of the sample crate.

mod approximate;
mod case;
mod expand;
mod generate;
mod instructions;
mod operands;
mod random;
#[allow(dead_code)] // Only the example writes recordings.
mod recording;
mod samples;
mod table;

#[path = "../common/mod.rs"]
mod common;

use std::path::Path;

use case::{Argument, Case};
use common::{Device, run};
use generate::cases;
use instructions::{Instruction, instructions, refused};
use kernel_registry_ptx::LaunchParameters;
use recording::Recording;

#[test]
fn random_kernels() {
    compare("golden.bin", &cases());
}

#[test]
fn samples() {
    compare("samples.bin", &samples::samples());
}

#[test]
fn single_instructions() {
    let recording = recording("instructions.bin");
    let instructions = instructions();
    assert_eq!(recording.len(), instructions.len(), "as many are recorded as there are");
    let mut wrong = Vec::new();
    for instruction in instructions {
        let name = &instruction.case.name;
        let Some(expected) = recording.result(&instruction.case) else {
            wrong.push(format!("{name}: not recorded"));
            continue;
        };
        match simulated(&instruction.case) {
            Ok(found) => wrong.extend(differences(&instruction, &found, expected)),
            Err(error) => wrong.push(format!("{name}: {error}")),
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn instructions_that_a_gpu_refuses_are_refused() {
    let refused = refused();
    assert_eq!(refused.len(), 58);
    for instruction in refused {
        let name = &instruction.case.name;
        let error = simulated(&instruction.case).expect_err(name);
        assert!(error.contains(&format!("does not have `{name}`")), "{error}");
    }
}

/// Returns a line about the wrong results of an instruction, which shows the first operands with a wrong
/// result.
fn differences(instruction: &Instruction, found: &[u8], expected: &[u8]) -> Option<String> {
    let size = instruction.result.size();
    let mut all = instruction
        .operands
        .iter()
        .zip(found.chunks(size).zip(expected.chunks(size)))
        .map(|(operands, (found, expected))| (operands, number(found), number(expected)))
        .filter(|(operands, found, expected)| match instruction.bound {
            None => found != expected,
            Some(bound) => {
                let allowed = |answer| approximate::allows(instruction, bound, operands, answer);
                !allowed(*found) || !allowed(*expected)
            }
        });
    let (operands, found, expected) = all.next()?;
    let name = &instruction.case.name;
    let more = all.count();
    Some(format!("{name}: {operands:x?} is {found:#x}, was {expected:#x} (and {more} others)"))
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn recording(file: &str) -> Recording {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/differential").join(file);
    let bytes =
        std::fs::read(path).expect("recordings can be read; make them on a GPU with the example `record`");
    Recording::read(&bytes).expect("recordings are whole")
}

/// Compares the results of whole kernels with a recording, bit for bit.
fn compare(file: &str, cases: &[Case]) {
    let recording = recording(file);
    assert_eq!(recording.len(), cases.len(), "as many are recorded as there are");
    let mut wrong = Vec::new();
    for case in cases {
        match (simulated(case), recording.result(case)) {
            (_, None) => wrong.push(format!("{}: not recorded", case.name)),
            (Err(error), _) => wrong.push(format!("{}: {error}", case.name)),
            (Ok(found), Some(expected)) => {
                let index = found.iter().zip(expected).position(|(found, expected)| found != expected);
                wrong.extend(index.map(|index| format!("{}: differs from byte {index}", case.name)));
                assert!(expected.iter().any(|byte| *byte != expected[0]), "{} computes nothing", case.name);
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

/// Returns the interpreter's result, or its error.
fn simulated(case: &Case) -> Result<Vec<u8>, String> {
    let device = Device::default();
    let module = device.load(&case.text).map_err(|error| error.to_string())?;
    if let Some(lacking) = module.program().lacking(&case.kernel) {
        return Err(lacking.to_string());
    }
    // A device aligns memory to at least 16 bytes, so buffers are made of 16-byte elements.
    let mut buffers: Vec<Vec<u128>> = Vec::new();
    let mut arguments = Vec::new();
    for argument in &case.arguments {
        let bytes = match argument {
            Argument::Value(bytes) => bytes.clone(),
            Argument::Input(bytes) | Argument::Output(bytes) => {
                let mut buffer = vec![0u128; bytes.len().div_ceil(16)];
                for (index, byte) in bytes.iter().enumerate() {
                    buffer[index / 16] |= u128::from(*byte) << (index % 16 * 8);
                }
                let address = device.lend(&mut buffer);
                buffers.push(buffer);
                address.to_le_bytes().to_vec()
            }
        };
        // In all of these kernels, the alignment of structures is four bytes.
        let align = if bytes.len() > 8 { 4 } else { bytes.len() };
        arguments.resize(arguments.len().next_multiple_of(align), 0);
        arguments.extend(bytes);
    }
    let launch = LaunchParameters {
        grid: case.grid,
        block: case.block,
        cluster: None,
        dynamic_shared: case.shared,
        stack: 64 << 10,
        resident: 8,
        barrier: 0,
        arguments,
    };
    run(&device, &module, &case.kernel, launch).map_err(|fault| fault.to_string())?;
    let memory = case.arguments.iter().filter(|argument| !matches!(argument, Argument::Value(_)));
    let results = memory.zip(buffers).filter_map(|(argument, buffer)| match argument {
        Argument::Output(bytes) => {
            Some(buffer.into_iter().flat_map(u128::to_le_bytes).take(bytes.len()).collect::<Vec<_>>())
        }
        _ => None,
    });
    Ok(results.flatten().collect())
}

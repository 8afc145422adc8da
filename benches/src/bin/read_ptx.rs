//! Measures how long reading PTX takes, compared with visiting each token, which the reader avoids in the
//! bodies of kernels.
//!
//! `cargo run --release -p benches --bin read_ptx` reads PTX of the tests, each file many times; `-- FILE..`
//! reads these files.

use std::hint::black_box;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;
use std::{env, fs};

use benches::Result;
use benches::sample::Sample;
use benches::verdict::{self, Requirement};
use benches::workshop::repository;
use kernel_registry_cuda::ptx::lexer::Lexer;
use kernel_registry_image::read;

/// The repository's PTX from nvcc.
const FOLDER: &str = "kernel-registry-ptx/tests/corpus/nvcc";

/// The least number of bytes in a measurement.
const BYTES: usize = 10_000_000;

const ROUNDS: usize = 15;

fn main() -> ExitCode {
    let files: Vec<_> = env::args().skip(1).map(PathBuf::from).collect();
    verdict::end(verdict::of_times(|| measure(&files)))
}

fn measure(files: &[PathBuf]) -> Result<Vec<Requirement>> {
    let texts = texts(files)?;
    let length: usize = texts.iter().map(Vec::len).sum();
    let times = BYTES.div_ceil(length.max(1));
    let (mut reading, mut looking) = (Sample::default(), Sample::default());
    for _ in 0..ROUNDS {
        let start = Instant::now();
        for text in (0..times).flat_map(|_| &texts) {
            black_box(read(black_box(text))?);
        }
        reading.push(start.elapsed());

        let start = Instant::now();
        for text in (0..times).flat_map(|_| &texts) {
            black_box(Lexer::new(black_box(text), 0).count());
        }
        looking.push(start.elapsed());
    }
    let megabytes = (times * length) as f64 / 1e6;
    println!("{} files, {megabytes:.1} MB, medians of {ROUNDS}", texts.len());
    println!("  read               {:8.2} ms", reading.median() * 1e3);
    println!("  look at each token {:8.2} ms", looking.median() * 1e3);
    let ratio = reading.median() / looking.median();
    Ok(vec![Requirement::at_most("reading PTX, over looking at each token", ratio, 2.5, "times")])
}

/// Reads these files, or the repository's if there are none.
fn texts(files: &[PathBuf]) -> Result<Vec<Vec<u8>>> {
    let mut files = files.to_vec();
    if files.is_empty() {
        for entry in fs::read_dir(repository().join(FOLDER))? {
            let path = entry?.path();
            files.extend(Some(path).filter(|path| path.extension().is_some_and(|of_path| of_path == "ptx")));
        }
    }
    Ok(files.iter().map(fs::read).collect::<std::io::Result<_>>()?)
}

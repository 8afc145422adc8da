//! `cargo xtask fuzz`: fuzzes with libFuzzer, like cargo-fuzz but without needing it.

use std::fs;
use std::path::Path;
use std::process::Command;

use kernel_registry_format::baked::{self, Code};
use kernel_registry_format::{HEADER_LEN, MAGIC, section};
use object::{Object, ObjectSection};

use crate::run::{HOST, Outcome, cargo, entries, run, target, unstable_cargo, workspace};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// What to fuzz: the record decoder or the image reader
    #[arg(value_enum, default_value = "records")]
    target: Target,
    /// Seconds to run
    #[arg(long, default_value_t = 180)]
    seconds: u32,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Target {
    Records,
    Images,
}

/// Coverage instrumentation for libFuzzer, and the address sanitizer.
const FLAGS: [&str; 8] = [
    "--cfg=fuzzing",
    "-Zsanitizer=address",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Ccodegen-units=1",
];

pub(crate) fn fuzz(options: &Options) -> Outcome {
    let (name, max_len) = match options.target {
        Target::Records => ("records", 4096),
        Target::Images => ("images", 65536),
    };
    let corpus = workspace().join("fuzz/corpus").join(name);
    fs::create_dir_all(&corpus)?;
    match options.target {
        Target::Records => seed_records(&corpus)?,
        Target::Images => seed_images(&corpus)?,
    }
    let mut build = unstable_cargo("fuzz", &FLAGS);
    run(build.args(["build", "--release", "--target", HOST, "--manifest-path", "fuzz/Cargo.toml"]))?;
    let fuzzer = workspace().join("target/fuzz").join(HOST).join("release").join(name);
    let artifacts = workspace().join("fuzz/artifacts").join(name);
    fs::create_dir_all(&artifacts)?;
    run(Command::new(fuzzer)
        .arg(&corpus)
        .arg(format!("-max_total_time={}", options.seconds))
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .arg(format!("-max_len={max_len}"))
        .args(["-print_final_stats=1", "-timeout=10"]))
}

/// Adds a real program's section to the corpus, as a whole and record by record, and a file of baked code.
fn seed_records(corpus: &Path) -> Outcome {
    run(cargo().args(["build", "--quiet", "--package", "examples", "--bin", "quickstart"]))?;
    let program = fs::read(target().join("debug/quickstart"))?;
    let file = object::File::parse(&*program)?;
    let records = file.section_by_name(section::ELF).ok_or("the quickstart has no records")?.data()?;
    fs::write(corpus.join("section"), records)?;
    let code = Code { key: [1; 32], arch: "sm_90", compiler: "ptxas", code: b"code" };
    fs::write(corpus.join("baked"), baked::write(&[code; 3], |_| [0; 32]))?;
    let starts = records.windows(MAGIC.len()).enumerate().filter(|(_, window)| *window == MAGIC);
    for (start, _) in starts {
        let header = &records[start..start + HEADER_LEN];
        let length = u32::from_le_bytes([header[12], header[13], header[14], header[15]]) as usize;
        fs::write(corpus.join(format!("record-{start}")), &records[start..start + HEADER_LEN + length])?;
    }
    Ok(())
}

/// Adds the images of the golden tests to the corpus.
fn seed_images(corpus: &Path) -> Outcome {
    for file in entries(&workspace().join("kernel-registry-image/tests/images"))? {
        fs::copy(&file, corpus.join(file.file_name().unwrap_or_default()))?;
    }
    Ok(())
}

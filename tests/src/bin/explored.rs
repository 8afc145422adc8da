//! Explores the stories in examples/src/bin, cold and warm, and prints a row of a table for each: what was tried, how long it took,
//! and whether a failing order was found.
//!
//!     cargo build -p examples && cargo run -p tests --bin explored -- 200

use std::env;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Instant;

use tests::cargo_kernels_command;

/// The stories that run without a GPU and end by themselves in each order.
const STORIES: [&str; 7] =
    ["two_kernels", "persistent", "stream_fence", "freed_memory", "library_call", "carve_out", "two_grids"];

fn main() {
    let schedules = env::args().nth(1).unwrap_or_else(|| "200".to_owned());
    let folder =
        env::current_exe().ok().and_then(|program| Some(program.parent()?.to_owned())).unwrap_or_default();
    println!("| story | schedules | seconds | a second | verdict |\n|---|---|---|---|---|");
    let mut wrong = Vec::new();
    for story in STORIES {
        for is_cold in [true, false] {
            let name = if is_cold { format!("`{story} --cold`") } else { format!("`{story}`") };
            let begun = Instant::now();
            let output = explore(&schedules, &folder.join(story), is_cold);
            let seconds = begun.elapsed().as_secs_f64();
            let (code, said) = (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned());
            let runs = runs(&said).unwrap_or_else(|| schedules.parse().unwrap_or(0));
            let verdict = match code {
                Some(17) => "fails",
                Some(0) => "succeeds",
                _ => "?",
            };
            println!("| {name} | {runs} | {seconds:.1} | {:.1} | {verdict} |", runs as f64 / seconds);
            if code != Some(if is_cold { 17 } else { 0 }) {
                wrong.push(format!("{name}: {said}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Explores a story on a small device, whose kernels have room for all of their blocks.
fn explore(schedules: &str, story: &Path, is_cold: bool) -> Output {
    let mut command = cargo_kernels_command();
    command.args([
        "sim",
        "--offline",
        "--set",
        "PROCESSORS=4",
        "--set",
        "ROOM=all",
        "--explore",
        schedules,
        "--",
    ]);
    command.arg(PathBuf::from(story)).args(is_cold.then_some("--cold"));
    command.output().expect("the command runs")
}

/// Returns how many runs a failure took.
fn runs(said: &str) -> Option<u64> {
    let rest = said.split("That took ").nth(1)?;
    rest.split(' ').next()?.parse().ok()
}

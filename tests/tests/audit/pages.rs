//! Runs the commands that the pages show, and compares what they print with the pages.

use std::path::Path;
use std::process::Output;

use tests::guide::{blocks, page, workspace};
use tests::scratch_folder;

use super::hangs::built;
use crate::{has_open_python, simulated, text};

/// The folder in which the pages' commands find programs.
const PROGRAMS: &str = "target/debug";
const AUDIT: &str = "kernel-audit --sim ";

/// Splits a command into words, with double quotes around words that have spaces.
fn words(command: &str) -> Vec<String> {
    let parts = command.split('"').enumerate();
    let words = parts.flat_map(|(at, part)| match at % 2 {
        0 => part.split_whitespace().map(str::to_owned).collect(),
        _ => vec![part.to_owned()],
    });
    words.collect()
}

/// Runs a command of a page in the folder of the workspace. Files that the command writes and reads are in `folder`.
fn run(command: &str, folder: &Path) -> Output {
    let (variables, arguments) =
        command.split_once(AUDIT).unwrap_or_else(|| panic!("`{AUDIT}` in `{command}`"));
    let mut audit = simulated();
    audit.current_dir(workspace()).envs(variables.split_whitespace().filter_map(|one| one.split_once('=')));
    for word in words(arguments) {
        match word.strip_prefix(PROGRAMS) {
            Some(program) => audit.arg(&built(&[program.trim_start_matches('/')])[0]),
            None if word.ends_with(".preload") => audit.arg(folder.join(word)),
            None => audit.arg(word),
        };
    }
    audit.output().expect("it runs")
}

/// Replaces what differs between runs: numbers with their units, handles and the folders of programs.
fn constant(text: &str) -> String {
    let folder = Path::new(env!("CARGO_BIN_EXE_hardware")).parent().expect("a folder");
    let text = text.replace(folder.to_str().expect("UTF-8"), PROGRAMS);
    // The command is built as `cargo kernels audit` here, and advises to run itself again.
    let text = text.replace("cargo kernels audit", "kernel-audit");
    let mut constant = String::new();
    let mut after_number = false;
    for word in text.split_whitespace() {
        let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
        let is_number = bare.starts_with(|c: char| c.is_ascii_digit());
        let is_unit = after_number && ["ns", "us", "ms", "s"].contains(&bare);
        after_number = is_number;
        match () {
            _ if is_number => constant += &word.replace(bare, "0"),
            _ if is_unit => constant += &word.replace(bare, "s"),
            _ => constant += word,
        }
        constant.push(' ');
    }
    constant
}

/// A command of a page, and the parts of its output that the page shows: `..` stands for what is left out.
struct Sample<'a> {
    command: &'a str,
    parts: Vec<String>,
}

fn samples(block: &str) -> Vec<Sample<'_>> {
    let commands = block.split("$ ").skip(1);
    let sample = |text| {
        let (command, output) = str::split_once(text, '\n').expect("a line of its own");
        // In `worker(..)` the points are part of a word.
        let words: Vec<_> = output.split_whitespace().collect();
        let parts = words.split(|word| *word == "..").map(|part| constant(&part.join(" ")));
        let parts = parts.filter(|part| !part.is_empty());
        Sample { command, parts: parts.collect() }
    };
    commands.map(sample).collect()
}

/// Compares the samples of a page with what its commands print.
fn as_shown(name: &str) {
    let text_of_page = page(name);
    let (folder, mut count) = (scratch_folder(), 0);
    for block in blocks(&text_of_page).iter().filter(|block| block.text.contains(AUDIT)) {
        for Sample { command, parts } in samples(&block.text) {
            let output = run(command, &folder);
            let printed = format!("{}\n{}", text(&output.stderr), text(&output.stdout));
            let constant = constant(&printed);
            for part in &parts {
                count += 1;
                assert!(
                    constant.contains(part),
                    "{name}: `{command}` does not print `{part}`, but:\n{printed}"
                );
            }
        }
    }
    assert!(count > 0, "{name} shows nothing");
}

#[test]
fn a_page_shows_what_a_hang_prints() {
    needs_python!();
    as_shown("docs/audit.md");
}

#[test]
fn the_case_of_a_late_kernel_beside_nccl_is_as_shown() {
    needs_python!();
    if has_open_python() {
        as_shown("docs/case-nccl.md");
    }
}

#[test]
fn the_case_of_a_persistent_kernel_is_as_shown() {
    as_shown("docs/case-persistent.md");
}

#[test]
fn the_case_of_freed_memory_is_as_shown() {
    as_shown("docs/case-free.md");
}

#[test]
fn the_case_of_a_capture_is_as_shown() {
    needs_python!();
    as_shown("docs/case-capture.md");
}

#[test]
fn the_case_of_eager_is_as_shown() {
    needs_python!();
    as_shown("docs/case-eager.md");
}

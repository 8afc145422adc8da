//! `cargo xtask api`: writes the public API of the crates that programs depend on as committed text, so that a change of the API is seen
//! in review. `cargo semver-checks`, before a release, compares the others.

use std::fs;
use std::path::Path;

use crate::run::{Outcome, files_with, run, stem, unstable_cargo, workspace, write_or_compare};

/// The folder of the texts. Its files say which crates have one.
const FOLDER: &str = "docs/api";

/// The version of rustdoc's JSON that this version of `public-api` can read, which is Rust 1.95's.
const FORMAT: u64 = 57;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Change nothing, but fail if a text is not that of the crate
    #[arg(long)]
    check: bool,
}

pub(crate) fn api(options: &Options) -> Outcome {
    for file in files_with("txt", &workspace().join(FOLDER))? {
        let package = stem(&file);
        let json = workspace().join("target/api/doc").join(format!("{}.json", package.replace('-', "_")));
        let Some(text) = text(&package, &json)? else { return Ok(()) };
        write_or_compare(&file, text.as_bytes(), options.check, "cargo xtask api")?;
    }
    Ok(())
}

/// Returns the API as text, with a line for each public item. `None` if this compiler's rustdoc writes
/// another format.
fn text(package: &str, json: &Path) -> Outcome<Option<String>> {
    let rustdoc = ["rustdoc", "--quiet", "--lib", "--all-features", "--package", package, "--"];
    run(unstable_cargo("api", &[]).args(rustdoc).args(["-Zunstable-options", "--output-format=json"]))?;
    let written = fs::read_to_string(json)?;
    let format =
        written.rsplit_once("\"format_version\":").map(|(_, rest)| rest.trim_end_matches('}').trim());
    if format.and_then(|format| format.parse().ok()) != Some(FORMAT) {
        println!("NOT CHECKED: the API, because rustdoc writes format {format:?} and {FORMAT} can be read");
        return Ok(None);
    }
    let builder = public_api::Builder::from_rustdoc_json(json);
    let builder = builder.omit_blanket_impls(true).omit_auto_trait_impls(true).omit_auto_derived_impls(true);
    Ok(Some(format!("{}", builder.build()?)))
}

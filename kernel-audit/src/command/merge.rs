//! The command `merge`.

use std::io::Write;
use std::path::{Path, PathBuf};

use kernel_registry_command::terminal;

use super::cli::{Merge, PRELOAD};
use super::failure::Failure;
use super::files::is_output;
use super::how_run::HowRun;
use super::preload::{Earlier, Turn};
use super::process::{Audit, record_files};

/// Reports on the records of earlier runs. Preloads among the files are merged into the one that `--record` names.
pub(crate) fn merge(options: &Merge, words: &str) -> Result<(), Failure> {
    if let (Some(path), None) =
        (options.records.iter().find(|path| preload_at(path).is_some()), &options.reports.record)
    {
        return Err(Failure::MergedNowhere { path: path.clone() });
    }
    options.reports.can_be_written()?;
    let (mut files, mut earlier) = (Vec::new(), Earlier::default());
    let mut empty = Vec::new();
    for path in &options.records {
        let preload = preload_at(path);
        if let Some(preload) = &preload {
            earlier.add(preload)?;
        }
        if path.is_dir() {
            let records = record_files(path);
            if records.is_empty() && preload.is_none() {
                empty.push(path);
            }
            files.extend(records);
        } else if preload.is_none() {
            files.push(path.clone());
        }
    }
    files.sort();
    files.dedup();
    let mut audit = Audit::read(files)?;
    audit.set_run(HowRun::new(words));
    let merges_preloads = !earlier.files.is_empty();
    let _turn = options.reports.record.as_deref().map(Turn::take);
    options.reports.write(&audit, earlier, merges_preloads)?;
    if audit.processes.is_empty() && !merges_preloads {
        return Err(Failure::NothingToMerge { left_out: audit.left_out.len() });
    }
    for folder in empty {
        terminal::say(format_args!("warning: `{}` has no records", folder.display()));
    }
    if audit.processes.is_empty() {
        return Ok(());
    }
    match options.reports.json.as_deref() {
        Some(path) if is_output(path) => terminal::say(&audit),
        _ => terminal::print(|out| write!(out, "{audit}"))?,
    }
    match audit.verdict() {
        Err(Failure::Findings { .. }) if !options.reports.fail_on_findings => Ok(()),
        verdict => verdict,
    }
}

/// Returns the preload in a folder, or a path whose name is that of a preload.
fn preload_at(path: &Path) -> Option<PathBuf> {
    let inside = path.join(PRELOAD);
    let is_named = path.extension().is_some_and(|extension| extension == "preload") && !path.is_dir();
    if inside.is_file() { Some(inside) } else { is_named.then(|| path.to_owned()) }
}

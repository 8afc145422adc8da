//! Writes the declarations for a folder of images or CUDA sources: a module for each file, nested like the subfolders.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use super::input::Unit;
use super::kept::Kept;
use super::structs::Shared;
use super::text::printable;
use super::{difference, file, names, shared, text};
use crate::cli::Declare;
use crate::document::unread::Unread;
use crate::failure::Failure;
use crate::output;

/// The text by which this command finds the files that it wrote earlier.
const MARK: &str = "// Written by `cargo kernels declare`.";

/// The name of the file with a folder's own module.
const MODULE_FILE: &str = "mod.rs";

pub(super) fn run(options: &Declare) -> Result<(), Failure> {
    let folder = &options.file;
    if options.image.is_some() || options.source.is_some() {
        return Err(Failure::OfOneFile { path: folder.clone() });
    }
    let Some(target) = options.output.as_ref().or(options.check.as_ref()) else {
        return Err(Failure::NoOutput { path: folder.clone() });
    };
    let command = file::command(options, Some(target));
    let mut unread = Unread::default();
    let files = files(folder, target, options, &command, &mut unread)?;
    if files.is_empty() {
        return Err(Failure::NothingToDeclare { path: folder.clone() });
    }
    let stale: Vec<PathBuf> = written(target)?.into_iter().filter(|path| !files.contains_key(path)).collect();
    if options.check.is_none() {
        for (path, text) in &files {
            let path = target.join(path);
            let parent = path.parent().unwrap_or(target);
            fs::create_dir_all(parent).map_err(Failure::not_written(parent))?;
            file::write(text, &path)?;
        }
        let remove = |path: PathBuf| fs::remove_file(&path).map_err(Failure::not_written(&path));
        stale.into_iter().try_for_each(|path| remove(target.join(path)))?;
        return unread.check();
    }
    let mut lines: Vec<String> = stale.iter().map(|path| format!("gone: `{}`", path.display())).collect();
    for (path, text) in &files {
        match fs::read_to_string(target.join(path)) {
            Ok(old) => {
                let differences = difference::between(&old, text);
                lines.extend(differences.into_iter().map(|line| format!("{}: {line}", path.display())));
            }
            Err(_) => lines.push(format!("new: `{}`", path.display())),
        }
    }
    if lines.is_empty() {
        return unread.check();
    }
    output::print(|out| lines.iter().try_for_each(|line| writeln!(out, "{line}")))?;
    Err(Failure::Outdated { path: target.clone(), count: lines.len(), remedy: command })
}

/// Returns the text of each file, by its path in the output. Images and sources without kernels get no file. Adds the variants
/// that could not be read to `unread`.
fn files(
    folder: &Path,
    target: &Path,
    options: &Declare,
    command: &str,
    unread: &mut Unread,
) -> Result<BTreeMap<PathBuf, String>, Failure> {
    let sources = below(folder, &["cu", "ptx", "cubin", "fatbin"])?;
    let units = sources.iter().map(|file| Unit::read(&Declare { file: file.clone(), ..options.clone() }));
    let units = units.collect::<Result<Vec<_>, _>>()?;
    units.iter().for_each(|unit| unread.merge(unit.unread.clone()));
    let shared = shared::structs_of(&units);
    let structs_name = structs_module(folder, &sources);
    let mut files = BTreeMap::new();
    let mut modules: BTreeMap<PathBuf, BTreeSet<String>> = BTreeMap::new();
    for (file, unit) in sources.iter().zip(&units) {
        let relative = file.strip_prefix(folder).unwrap_or(file).with_extension("");
        let import = format!("{}{structs_name}", "super::".repeat(relative.iter().count()));
        let names: Vec<_> = relative.iter().map(module_name).collect();
        let path: PathBuf = names.iter().map(|name| name.strip_prefix("r#").unwrap_or(name)).collect();
        let old = target.join(&path).with_extension("rs");
        let text = match file::module(unit, &shared, &import, Some(&old), command) {
            Err(Failure::NothingToDeclare { .. }) => continue,
            text => text?,
        };
        for (above, name) in names.iter().enumerate() {
            modules.entry(path.iter().take(above).collect()).or_default().insert(name.clone());
        }
        if files.insert(path.with_extension("rs"), text).is_some() {
            return Err(Failure::SameModule { path: file.clone() });
        }
    }
    if !shared.structs.is_empty() {
        let none_shared = Shared::default();
        let kept = Kept::read(Some(&target.join(&structs_name).with_extension("rs")))?;
        let definitions = shared::definitions(&shared, &none_shared, &units);
        let text = text::structs(&definitions, &kept, &folder.display().to_string(), command);
        modules.entry(PathBuf::new()).or_default().insert(structs_name.clone());
        files.insert(Path::new(&structs_name).with_extension("rs"), text);
    }
    let command = printable(command);
    for (path, names) in modules {
        if files.contains_key(&path.with_extension("rs")) {
            return Err(Failure::SameModule { path: folder.join(path) });
        }
        let mut text = format!(
            "//! The kernels of `{}`.\n\n{MARK} Do not edit it. To update it, run\n//     {command}\n\n",
            printable(&folder.join(&path).display().to_string())
        );
        names.iter().for_each(|name| text += &format!("pub mod {name};\n"));
        files.insert(path.join(MODULE_FILE), text);
    }
    Ok(files)
}

/// Returns the name of the module of a file or folder.
fn module_name(part: &OsStr) -> String {
    names::function(&names::snake(&part.to_string_lossy()))
}

/// Returns a name for the module of shared structs. No other file or folder has this name.
fn structs_module(folder: &Path, sources: &[PathBuf]) -> String {
    let first = |file: &PathBuf| {
        let relative = file.strip_prefix(folder).ok()?.with_extension("");
        relative.iter().next().map(module_name)
    };
    let taken: BTreeSet<_> = sources.iter().filter_map(first).collect();
    let mut name = "structs".to_owned();
    while taken.contains(&name) {
        name.push('_');
    }
    name
}

/// Returns the files that an earlier run wrote, relative to `target`.
fn written(target: &Path) -> Result<Vec<PathBuf>, Failure> {
    if !target.exists() {
        return Ok(Vec::new());
    }
    let mut files = below(target, &["rs"])?;
    files.retain(|path| fs::read_to_string(path).is_ok_and(|text| text.contains(MARK)));
    Ok(files.iter().filter_map(|path| path.strip_prefix(target).ok().map(Path::to_owned)).collect())
}

/// Returns the files with these extensions in a folder and its subfolders, sorted.
fn below(folder: &Path, extensions: &[&str]) -> Result<Vec<PathBuf>, Failure> {
    let unreadable = Failure::of_io(folder);
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let path = entry.path();
        // Links are not followed: a link could lead to a folder that contains the link.
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            files.extend(below(&path, extensions)?);
        } else if path.extension().is_some_and(|extension| extensions.iter().any(|known| extension == *known))
        {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

//! Reads the signatures of the driver functions from their source files.

use std::fs;
use std::path::PathBuf;

pub struct Function {
    pub name: String,
    pub arguments: Vec<Argument>,
}

pub struct Argument {
    pub name: String,
    pub kind: Kind,
    pub is_used: bool,
}

#[derive(PartialEq)]
pub enum Kind {
    Handle,
    Out,
    In,
    Name,
    Image,
    Arguments,
    Packed,
    HostFunction,
    /// A number as wide as an address, and often an address.
    Size,
    Number,
}

impl Kind {
    fn of(rust: &str) -> Self {
        match rust.split('<').next().unwrap_or(rust) {
            "Handle" => Kind::Handle,
            "Out" => Kind::Out,
            "In" => Kind::In,
            "Name" => Kind::Name,
            "Image" => Kind::Image,
            "Arguments" => Kind::Arguments,
            "Packed" => Kind::Packed,
            "HostFunction" | "SharedMemory" => Kind::HostFunction,
            "usize" => Kind::Size,
            "i32" | "u32" | "u64" | "u16" | "u8" | "Code" | "Location" => Kind::Number,
            // Any other type is a pointer that is read.
            _ => Kind::In,
        }
    }
}

fn sources() -> Vec<String> {
    let calls = concat!(env!("CARGO_MANIFEST_DIR"), "/src/driver/calls");
    let mut paths = vec![calls.into(), format!("{calls}.rs").into()];
    let mut files: Vec<PathBuf> = Vec::new();
    while let Some(path) = paths.pop() {
        match fs::read_dir(&path) {
            Ok(folder) => paths.extend(folder.map(|entry| entry.unwrap().path())),
            Err(_) => files.push(path),
        }
    }
    files.sort();
    files.into_iter().map(|file| fs::read_to_string(file).unwrap()).collect()
}

/// Returns whether a driver of the default version has functions that this version of CUDA introduced.
fn is_there(since: u32) -> bool {
    since <= 13_000
}

/// Returns the functions that are simulated. Their sources look like `2000 fn cuInit(flags: u32) = {`.
pub fn simulated() -> Vec<Function> {
    let mut found = Vec::new();
    for source in sources() {
        for (start, _) in source.match_indices(" fn cu") {
            let before = source[..start].rsplit_once('\n').map_or("", |(_, line)| line.trim());
            if !before.parse().is_ok_and(is_there) {
                continue;
            }
            let (name, rest) = source[start + 4..].split_once('(').unwrap();
            let (arguments, _) = rest.split_once(") = ").unwrap();
            let arguments = arguments.split(',').filter_map(|argument| argument.split_once(": "));
            let arguments = arguments.map(|(name, rust)| Argument {
                is_used: !name.trim().starts_with('_'),
                name: name.trim().trim_start_matches('_').to_owned(),
                kind: Kind::of(rust.trim()),
            });
            found.push(Function { name: name.to_owned(), arguments: arguments.collect() });
        }
    }
    assert!(found.len() > 130, "{}", found.len());
    found
}

/// Returns the functions that are not simulated, which return `CUDA_ERROR_NOT_SUPPORTED`.
pub fn lacking() -> Vec<String> {
    let sources = sources();
    let lists = sources.iter().filter_map(|source| source.split_once("\nlacking! {")?.1.split_once("\n}"));
    let groups = lists.flat_map(|(list, _)| list.split(';')).filter_map(|group| group.split_once(':'));
    let groups = groups.filter(|(since, _)| since.trim().parse().is_ok_and(is_there));
    let found: Vec<_> = groups.flat_map(|(_, names)| names.split_whitespace().map(str::to_owned)).collect();
    assert!(found.len() > 150, "{}", found.len());
    found
}

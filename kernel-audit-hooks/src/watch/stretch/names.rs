//! Names functions by the addresses at which they begin.

use std::collections::HashMap;
use std::path::Path;

use crate::watch::caller;
use crate::watch::loader::mapped;
use crate::watch::loader::symbols::Symbols;

/// A function and its library.
#[derive(Default)]
pub(super) struct Named {
    pub(super) library: String,
    /// The function's name, if the file exports it.
    pub(super) function: Option<String>,
    /// The frame's line in a stack.
    pub(super) line: String,
    /// Whether it is of the program itself, and of no library.
    pub(super) is_program: bool,
    /// Whether it works for others: functions of the C library, of Python and of Python's own modules.
    pub(super) serves: bool,
}

/// The beginnings of the names of libraries that work for others.
const SERVE: [&str; 17] = [
    "libc.so",
    "libc-2",
    "libm.so",
    "libm-2",
    "libpthread",
    "libdl",
    "librt",
    "ld-linux",
    "linux-vdso",
    "libstdc++",
    "libgcc_s",
    "libffi",
    "libcrypto",
    "libssl",
    "libz.",
    "libpython",
    "python3",
];

/// The folder of Python's own modules.
const MODULES: &str = "/lib-dynload/";

/// Names functions. The tables of each file are read once.
pub(super) fn find(mut functions: Vec<u64>) -> HashMap<u64, Named> {
    functions.sort_unstable();
    functions.dedup();
    let mut found = HashMap::new();
    mapped::each(&mut |file| {
        let inside: Vec<_> =
            functions.iter().copied().filter(|function| file.segment_at(*function, 1).is_some()).collect();
        if inside.is_empty() {
            return false;
        }
        let path = file.path().unwrap_or_default();
        let names = Symbols::read(file).map(|symbols| symbols.around_each(&inside)).unwrap_or_default();
        for address in inside {
            // The line is that of the next address, as the lines of callers are.
            let (library, function, line) =
                caller::name(file, &path, address + 1, names.get(&address).copied());
            let line = function.as_ref().map_or(line, |function| format!("{library} {function}"));
            let named = Named {
                serves: serves(&library, &path),
                is_program: file.name.is_empty(),
                library,
                function,
                line,
            };
            found.insert(address, named);
        }
        false
    });
    found
}

fn serves(library: &str, path: &Path) -> bool {
    library.is_empty()
        || SERVE.iter().any(|beginning| library.starts_with(beginning))
        || path.to_str().is_some_and(|path| path.contains(MODULES))
}

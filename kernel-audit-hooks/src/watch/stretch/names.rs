//! Symbolizes functions by their start addresses.

use std::collections::HashMap;
use std::path::Path;

use crate::watch::caller;
use crate::watch::loader::mapped;
use crate::watch::loader::symbols::Symbols;

/// A function and its library.
#[derive(Default)]
pub(super) struct Function {
    pub(super) library: String,
    /// `None` if the file doesn't export the function.
    pub(super) function: Option<String>,
    /// The line for the stack.
    pub(super) line: String,
    /// Whether it's in the program itself, and not in a library.
    pub(super) is_program: bool,
    /// Whether it's in a support library: the C library, Python, or the standard library's modules.
    pub(super) is_support: bool,
}

/// Prefixes of support libraries' names.
const SUPPORT: [&str; 17] = [
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

/// The folder with the standard library's native modules.
const MODULES: &str = "/lib-dynload/";

/// Symbolizes functions. Reads each file's tables once.
pub(super) fn find(mut functions: Vec<u64>) -> HashMap<u64, Function> {
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
            // Offsets are those of return addresses, as in the stacks of callers.
            let (library, function, line) =
                caller::name(file, &path, address + 1, names.get(&address).copied());
            let line = function.as_ref().map_or(line, |function| format!("{library} {function}"));
            let named = Function {
                is_support: is_support(&library, &path),
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

fn is_support(library: &str, path: &Path) -> bool {
    library.is_empty()
        || SUPPORT.iter().any(|beginning| library.starts_with(beginning))
        || path.to_str().is_some_and(|path| path.contains(MODULES))
}

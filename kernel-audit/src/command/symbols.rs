//! Names the functions in stacks. Where the loader knows no function, as in Rust programs, the audited process writes
//! down a path, a build id and an offset. The file of that path can name the function, if it is the same file: the
//! process may have run on another machine, or before a build.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::path::Path;

use kernel_registry_command::Mapped;
use kernel_registry_image::readable;
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Object, ObjectSymbol, SymbolKind, elf};

use crate::record::{Report, SharedText, Spent};

/// The beginnings of names of functions that make calls for other functions, in Rust programs.
const INSIDE: [&str; 7] =
    ["cudarc::", "kernel_registry::", "crate::", "core::", "std::", "alloc::", "__rust_"];

/// The bytes by which the names of functions may make all events longer. A record can refer to long names many times.
const ROOM: usize = 64 << 20;

/// The most characters of a function's name.
const LONGEST: usize = 1000;

/// Names the functions in the stacks of all events, and the callers.
pub(crate) fn resolve(reports: &mut [Report]) {
    let (mut files, mut room) = (Files::default(), ROOM);
    let mut named = HashMap::<[SharedText; 2], [SharedText; 2]>::new();
    for event in reports.iter_mut().flat_map(|report| &mut report.events) {
        let recorded = [event.caller.clone(), event.stack.clone()];
        let before = event.caller.len() + event.stack.len();
        let [caller, text] = named.entry(recorded).or_insert_with_key(|recorded| files.name_frames(recorded));
        let longer = (caller.len() + text.len()).saturating_sub(before);
        if longer <= room {
            room -= longer;
            (event.caller, event.stack) = (caller.clone(), text.clone());
        }
    }
    for stretch in reports.iter_mut().flat_map(|report| &mut report.stretches) {
        for spent in &mut stretch.spent {
            let [_, stack] = files.name_frames(&[SharedText::default(), spent.stack.clone()]);
            let function = files.name_frame(&spent.function);
            let longer =
                (stack.len() + function.len()).saturating_sub(spent.stack.len() + spent.function.len());
            if longer <= room {
                room -= longer;
                let function =
                    if function == *spent.function { &function } else { without_offset(&function) };
                (spent.function, spent.stack) = (function.into(), stack);
            }
        }
        join_equal(&mut stretch.spent);
    }
}

/// Returns a frame's line without the offset in the function.
fn without_offset(frame: &str) -> &str {
    frame.rsplit_once('+').filter(|(name, _)| name.contains(' ')).map_or(frame, |(name, _)| name)
}

/// Adds up rows with the same function name. Compilers split functions into parts, whose rows get one name here.
fn join_equal(spent: &mut Vec<Spent>) {
    let mut first = HashMap::new();
    let mut joined = Vec::<Spent>::new();
    for one in spent.drain(..) {
        match first.get(&(one.what, one.function.clone())) {
            Some(index) => {
                let its: &mut Spent = &mut joined[*index];
                (its.took, its.looks) =
                    (its.took.saturating_add(one.took), its.looks.saturating_add(one.looks));
            }
            None => {
                first.insert((one.what, one.function.clone()), joined.len());
                joined.push(one);
            }
        }
    }
    joined.sort_by_key(|spent| Reverse(spent.took));
    *spent = joined;
}

/// Returns the recorded caller. If the recorded caller names no function, returns the first frame that does not make
/// the call for another function.
fn caller(recorded: &str, text: &str) -> String {
    if recorded.is_empty() || recorded.contains(' ') {
        return recorded.to_owned();
    }
    let frames = text.lines().map(|line| line.trim_start().trim_start_matches("at "));
    let named = frames.filter_map(|frame| Some(frame.rsplit_once('+')?.0));
    let mut of_library = named.filter(|frame| frame.split(' ').next() == Some(recorded));
    let outside = of_library.find(|frame| {
        let function = frame.split_once(' ').map_or("", |(_, function)| function.trim_start_matches('<'));
        !function.is_empty() && !INSIDE.iter().any(|inside| function.starts_with(inside))
    });
    outside.unwrap_or(recorded).to_owned()
}

#[derive(Default)]
struct Files(HashMap<String, Option<Symbols>>);

/// The functions of a file, by address.
struct Symbols {
    build_id: Vec<u8>,
    /// The address from which the loader counts offsets.
    base: u64,
    functions: Vec<(u64, u64, String)>,
}

impl Files {
    /// Names the functions in a caller and a stack.
    fn name_frames(&mut self, [recorded, stack]: &[SharedText; 2]) -> [SharedText; 2] {
        let lines: Vec<_> = stack.lines().map(|line| self.name_frame(line)).collect();
        let text = lines.join("\n");
        [caller(recorded, &text).into(), text.into()]
    }

    /// Names the function in a line of a stack, if the file that the process had loaded is still there and names it.
    fn name_frame(&mut self, line: &str) -> String {
        let indent = &line[..line.len() - line.trim_start().len()];
        let frame = line.trim_start();
        let (at, frame) = frame.strip_prefix("at ").map_or(("", frame), |frame| ("at ", frame));
        let offset = frame.rsplit_once("+0x").filter(|_| frame.starts_with('/'));
        let Some((path, offset)) = offset else { return line.to_owned() };
        let Ok(offset) = u64::from_str_radix(offset, 16) else { return line.to_owned() };
        let (path, build_id) = path.rsplit_once('#').unwrap_or((path, ""));
        let library = path.rsplit('/').next().unwrap_or(path);
        let symbols = self.0.entry(path.to_owned()).or_insert_with(|| read(Path::new(path)));
        let same = symbols.as_ref().filter(|symbols| hexadecimal(&symbols.build_id) == build_id);
        match same.and_then(|symbols| symbols.at(offset)) {
            Some((function, inside)) => format!("{indent}{at}{library} {function}+{inside:#x}"),
            None => format!("{indent}{at}{library}+{offset:#x}"),
        }
    }
}

impl Symbols {
    fn at(&self, offset: u64) -> Option<(String, u64)> {
        let address = self.base.checked_add(offset)?;
        let behind = self.functions.partition_point(|(start, ..)| *start <= address);
        let (start, size, name) = self.functions.get(behind.checked_sub(1)?)?;
        // The address can be just after the function, because a call that does not return can be the last instruction.
        (address - start <= *size).then(|| (demangled(name).chars().take(LONGEST).collect(), address - start))
    }
}

fn read(path: &Path) -> Option<Symbols> {
    let bytes = Mapped::open(path).ok()?;
    let header = elf::FileHeader64::<object::Endianness>::parse(&*bytes).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, &*bytes).ok()?;
    let loaded = segments.iter().filter(|segment| segment.p_type(endian) == elf::PT_LOAD);
    let base = loaded.map(|segment| segment.p_vaddr(endian)).min()? & !0xfff;
    let file = object::File::parse(&*bytes).ok()?;
    let build_id = file.build_id().ok()??.to_vec();
    let functions = file.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0);
    let named = functions
        .filter_map(|symbol| Some((symbol.address(), symbol.size(), symbol.name().ok()?.to_owned())));
    let mut functions: Vec<_> = named.collect();
    functions.sort_unstable();
    (!functions.is_empty()).then_some(Symbols { build_id, base, functions })
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns a symbol of Rust or C++ as people write it.
fn demangled(symbol: &str) -> String {
    // Compilers name the variants that they make of a function: `.isra.0`.
    let of_cpp = || symbol.split_once('.').map_or(symbol, |(name, _)| name);
    rustc_demangle::try_demangle(symbol).map_or_else(
        |_| if symbol.starts_with("_Z") { readable(of_cpp()) } else { symbol.to_owned() },
        |name| format!("{name:#}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_this_program_are_named() {
        let program = std::env::current_exe().unwrap();
        let symbols = read(&program).unwrap();
        let (start, _, name) = symbols
            .functions
            .iter()
            .find(|(.., name)| name.contains("functions_of_this_program_are_named"))
            .unwrap();
        let line = |id: &str| format!("    at {}{id}+{:#x}", program.display(), start - symbols.base + 1);
        let library = program.file_name().unwrap().to_string_lossy();
        let own = format!("#{}", hexadecimal(&symbols.build_id));
        let named = Files::default().name_frame(&line(&own));
        assert_eq!(named, format!("    at {library} {}+0x1", demangled(name)));
        assert!(named.contains("symbols::tests::functions_of_this_program_are_named"), "{named}");
        // A file with another build id, or without one, names no function.
        for id in ["", "#", "#0123456789abcdef0123456789abcdef01234567"] {
            let nameless = format!("    at {library}+{:#x}", start - symbols.base + 1);
            assert_eq!(Files::default().name_frame(&line(id)), nameless);
        }
    }

    #[test]
    fn variants_of_functions_have_the_name_of_the_function() {
        assert_eq!(demangled("_ZN2at4scanEi.isra.0"), "at::scan(int)");
        assert_eq!(demangled("_ZN2at4scanEi"), "at::scan(int)");
        assert_eq!(demangled("scan.isra.0"), "scan.isra.0");
    }

    #[test]
    fn lines_without_symbols_stay_as_they_are() {
        for line in ["", "    at libc.so.6 __libc_start_main+0x85", "libffi.so.8+0x6f7a", "a+0xzz", "/a+0xzz"]
        {
            assert_eq!(Files::default().name_frame(line), line);
        }
        assert_eq!(Files::default().name_frame("/no/such/file.so+0x10"), "file.so+0x10");
    }
}

//! Says in words where the threads of a process are.

use std::fmt;

use kernel_registry_command::many;

use super::host::{Frame, Thread};

/// The most places that are listed, and the most functions of each.
const GROUPS: usize = 12;
const FRAMES: usize = 16;

/// Libraries shown only by their entry point. They're stripped, so most inner frames have no symbol.
const LARGE: [&str; 10] = [
    "libcuda",
    "libcudart",
    "libcublas",
    "libcudnn",
    "libnccl",
    "libtorch",
    "libc10",
    "libc.",
    "libpthread",
    "libstdc++",
];

/// Our own libraries, and the name of our threads.
const OURS: &str = "libkernel_registry_";
const OWN_THREAD: &str = "kernel-registry";

/// The stacks of threads, those that are the same once: the threads of a pool are often at one place.
pub(super) struct Stacks<'a>(pub(super) &'a [Thread]);

impl fmt::Display for Stacks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut groups: Vec<(&Thread, Vec<String>, usize)> = Vec::new();
        let is_programs = |thread: &&Thread| thread.name.as_deref() != Some(OWN_THREAD);
        for thread in self.0.iter().filter(is_programs).filter(|thread| !thread.frames.is_empty()) {
            let lines = lines(&thread.frames);
            match groups.iter_mut().find(|group| group.1 == lines) {
                Some((.., others)) => *others += 1,
                None => groups.push((thread, lines, 0)),
            }
        }
        for (Thread { number, name, .. }, lines, others) in groups.iter().take(GROUPS) {
            write!(f, "\nthread {number}")?;
            name.iter().try_for_each(|name| write!(f, " {}", plain(name)))?;
            if *others > 0 {
                write!(f, ", and {others} more there")?;
            }
            writeln!(f)?;
            lines.iter().take(FRAMES).try_for_each(|line| writeln!(f, "  {line}"))?;
            if lines.len() > FRAMES {
                writeln!(f, "  and {} more; `--json` has them", many(lines.len() - FRAMES, "function"))?;
            }
        }
        if groups.len() > GROUPS {
            let rest = groups[GROUPS..].iter().map(|(.., others)| others + 1).sum();
            writeln!(f, "\n{} elsewhere; `--json` has all", many(rest, "thread"))?;
        }
        Ok(())
    }
}

/// Returns a line for each function, the innermost first.
fn lines(frames: &[Frame]) -> Vec<String> {
    let mut lines = Vec::new();
    for (index, frame) in frames.iter().enumerate() {
        let library = library(frame);
        let calls_within = frames.get(index + 1).is_some_and(|caller| self::library(caller) == library);
        let is_inside = calls_within && LARGE.iter().any(|large| library.starts_with(large));
        if !is_inside && !library.starts_with(OURS) {
            lines.push(line(frame));
        }
    }
    lines
}

fn line(frame: &Frame) -> String {
    let function = plain(without_hash(frame.function.as_deref().unwrap_or("?")));
    match (&frame.file, frame.line) {
        (Some(file), Some(line)) => format!("{}:{line} {function}", plain(name(file))),
        _ => format!("{} {function}", plain(library(frame))).trim_start().to_owned(),
    }
}

/// Returns the file name of the library, or an empty text.
fn library(frame: &Frame) -> &str {
    frame.library.as_deref().map(name).unwrap_or_default()
}

fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// Returns the name of a Rust function without the number that the compiler added.
fn without_hash(function: &str) -> &str {
    let is_hash = |end: &str| {
        end.strip_prefix('h')
            .is_some_and(|hash| hash.len() == 16 && hash.bytes().all(|c| c.is_ascii_hexdigit()))
    };
    function.rsplit_once("::").filter(|(_, end)| is_hash(end)).map_or(function, |(name, _)| name)
}

/// Returns a text of the program as one that a terminal only shows.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(library: &str, function: &str, file: &str) -> Frame {
        let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        Frame {
            function: some(function),
            file: some(file),
            line: some(file).map(|_| 7),
            library: some(library),
        }
    }

    #[test]
    fn a_stack_has_the_functions_that_a_user_knows() {
        let frames = [
            frame("/lib/libc.so.6", "futex", ""),
            frame("/lib/libc.so.6", "pthread_cond_wait", ""),
            frame("/lib/libcuda.so.1", "", ""),
            frame("/lib/libcuda.so.1", "cuStreamSynchronize", ""),
            frame("/tmp/libkernel_registry_hooks.so", "cuStreamSynchronize", ""),
            frame("/srv/engine.so", "engine::wait::h0123456789abcdef", ""),
            frame("/srv/engine.so", "server::handle_connection", ""),
            frame("/srv/engine.so", "step", "/src/engine.cpp"),
            frame("", "forward\n", "/srv/serve.py"),
            frame("", "", ""),
        ];
        let expected = [
            "libc.so.6 pthread_cond_wait",
            "libcuda.so.1 cuStreamSynchronize",
            "engine.so engine::wait",
            "engine.so server::handle_connection",
            "engine.cpp:7 step",
            "serve.py:7 forward\u{fffd}",
            "?",
        ];
        assert_eq!(lines(&frames), expected);
    }

    #[test]
    fn threads_at_one_place_are_listed_once() {
        let thread = |number, function: &str| Thread {
            number,
            name: (number == 3).then(|| OWN_THREAD.to_owned()),
            frames: if function.is_empty() { Vec::new() } else { vec![frame("", function, "")] },
        };
        let threads =
            [thread(1, "waits"), thread(2, "works"), thread(3, "x"), thread(4, "waits"), thread(5, "")];
        let expected = "\nthread 1, and 1 more there\n  waits\n\nthread 2\n  works\n";
        assert_eq!(Stacks(&threads).to_string(), expected);
        let many: Vec<_> = (10..30).map(|number| thread(number, &number.to_string())).collect();
        assert!(Stacks(&many).to_string().ends_with("\n8 threads elsewhere; `--json` has all\n"));
    }
}

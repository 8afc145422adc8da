//! Reads the Python frames of a thread, at findings and hangs only. CPython 3.11 and 3.12 export the function by which
//! they write a thread's frames when they crash. That function takes no lock, allocates nothing, and may be called in
//! the handler of a signal and without the interpreter's lock, for the thread's own frames. For other versions `locked`
//! asks for the frames, if the thread holds the interpreter's lock.

mod interpreter;
mod locked;
pub(crate) mod structures;

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::fd::AsRawFd;

use crate::watch::process::system;
use interpreter::MOST;
pub(crate) use interpreter::{Frame, Interpreter};

/// The most bytes of frames that are read.
const LONGEST: u64 = 32 << 10;

/// Returns the frames of this thread, the innermost first.
pub(crate) fn frames() -> Vec<Frame> {
    match Interpreter::find().zip(file()) {
        Some((interpreter, file)) => {
            interpreter.write(file.as_raw_fd());
            read(&file)
        }
        None => locked::frames().unwrap_or_default(),
    }
}

/// Creates a file in memory for frames.
pub(crate) fn file() -> Option<File> {
    system::memory_file(c"frames").ok()
}

/// Reads the frames that were written into a file.
pub(crate) fn read(mut file: &File) -> Vec<Frame> {
    let mut text = Vec::new();
    let read = file.seek(SeekFrom::Start(0)).and_then(|_| file.take(LONGEST).read_to_end(&mut text));
    let text = String::from_utf8_lossy(&text);
    let lines = if read.is_ok() { text.lines() } else { "".lines() };
    lines.filter_map(frame).take(MOST).collect()
}

/// Parses a line such as `  File "serve.py", line 42 in forward`.
fn frame(line: &str) -> Option<Frame> {
    let (file, rest) = line.trim_start().strip_prefix("File \"")?.rsplit_once("\", line ")?;
    let (line, function) = rest.split_once(" in ")?;
    Some(Frame { file: file.to_owned(), line: line.parse().ok()?, function: function.to_owned() })
}

/// Finds the frame of the user: the innermost frame that is neither of a package nor of Python's own library; or else
/// the innermost frame.
pub(crate) fn find_users_frame(frames: &[Frame]) -> Option<&Frame> {
    const OTHERS: [&str; 4] = ["/site-packages/", "/dist-packages/", "/lib/python", "<frozen "];
    let is_users = |frame: &&Frame| !OTHERS.iter().any(|other| frame.file.contains(other));
    frames.iter().find(is_users).or(frames.first())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_python_are_frames() {
        let read = |line: &str| frame(line).map(|frame| (frame.file, frame.line, frame.function));
        let of = |file: &str, line, function: &str| Some((file.to_owned(), line, function.to_owned()));
        assert_eq!(read("  File \"/srv/a.py\", line 42 in forward"), of("/srv/a.py", 42, "forward"));
        assert_eq!(read("  File \"a\", line 1 in b\", line 2 in c"), of("a\", line 1 in b", 2, "c"));
        for other in
            ["Stack (most recent call first):", "  File \"a\", line ??? in c", "  ...", "", "  File \""]
        {
            assert_eq!(read(other), None);
        }
    }

    #[test]
    fn the_users_frame_is_in_no_package() {
        let frame = |file: &str| Frame { file: file.to_owned(), line: 1, function: "f".to_owned() };
        let frames = [
            frame("/v/lib/python3.12/site-packages/torch/nn.py"),
            frame("/srv/serve.py"),
            frame("/srv/main.py"),
        ];
        assert_eq!(find_users_frame(&frames).map(|frame| &*frame.file), Some("/srv/serve.py"));
        assert_eq!(find_users_frame(&frames[..1]), frames.first());
        assert_eq!(find_users_frame(&[]), None);
    }

    #[test]
    fn a_program_without_python_has_no_frames() {
        assert_eq!(frames(), []);
    }
}

//! Decides whether Python has to print its own lines when a hang ends the program. The hooks read the frames of all
//! threads in CPython 3.11 to 3.15 only.

use std::env;
use std::ffi::OsStr;
use std::path::Path;

/// The variable with which Python writes the lines of all threads when a signal ends it.
pub(crate) const FAULTHANDLER: &str = "PYTHONFAULTHANDLER";

/// The files of the interpreters whose frames the hooks read in all threads.
const READ: [&str; 5] = ["python3.11", "python3.12", "python3.13", "python3.14", "python3.15"];

/// Returns whether the user has set the variable. An empty value turns it off.
pub(crate) fn chooses_itself() -> bool {
    env::var_os(FAULTHANDLER).is_some()
}

/// Returns whether a program is an interpreter whose frames the hooks read in all threads. Of another program, such as
/// a script that starts an interpreter, that is not known.
pub(crate) fn all_frames_are_read(program: &OsStr) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    let found = match Path::new(program).components().count() {
        1 => env::split_paths(&path).map(|folder| folder.join(program)).find(|path| path.is_file()),
        _ => Some(program.into()),
    };
    // `python3` is a link to the file with the version in its name.
    let file = found.and_then(|path| path.canonicalize().ok());
    file.is_some_and(|file| READ.iter().any(|name| file.ends_with(name)))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn an_interpreter_is_known_by_the_file_behind_links() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("python3");
        for (name, is_read) in [("python3.14", true), ("python3.14t", false), ("python3.10", false)] {
            let file = folder.path().join(name);
            fs::write(&file, "").unwrap();
            symlink(&file, &link).unwrap();
            assert_eq!(all_frames_are_read(link.as_os_str()), is_read, "{name}");
            fs::remove_file(&link).unwrap();
        }
        assert!(!all_frames_are_read("no such program".as_ref()));
    }
}

//! The stacks of a process's threads. cuda-gdb reads the native ones while it has joined the process, and py-spy, if it's
//! installed, reads Python's.

use std::collections::HashMap;
use std::env;
use std::path::Path;
use std::process::Command;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::programs;

/// A thread of the process.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Thread {
    pub(super) number: u32,
    pub(super) name: Option<String>,
    /// The functions, the innermost first.
    pub(super) frames: Vec<Frame>,
}

/// A function that a thread is in.
#[derive(Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Frame {
    pub(super) function: Option<String>,
    pub(super) file: Option<String>,
    pub(super) line: Option<u32>,
    /// The path of the library. The program itself and Python's code have none.
    pub(super) library: Option<String>,
}

/// Comes before and after what `host.py` prints.
const MARK: &str = "kernel-audit-stacks";

/// Returns cuda-gdb's command that prints the stacks.
pub(super) fn command() -> String {
    let program = format!("MARK = '{MARK}'\n{}", include_str!("host.py"));
    let hexadecimal: String = program.bytes().map(|byte| format!("{byte:02x}")).collect();
    // A command is a line.
    format!("python exec(bytes.fromhex('{hexadecimal}').decode())")
}

/// Parses the threads from cuda-gdb's stdout. Returns none if that cuda-gdb was built without Python.
pub(super) fn threads_of(output: &[u8]) -> Vec<Thread> {
    let text = String::from_utf8_lossy(output);
    // A path can have the mark in it.
    let json = text.split_once(MARK).and_then(|(_, rest)| Some(rest.rsplit_once(MARK)?.0));
    json.map(|json| each(json.as_bytes())).unwrap_or_default()
}

/// Returns the elements of a list, without those that can't be read: a program can have any file names.
fn each<T: DeserializeOwned>(json: &[u8]) -> Vec<T> {
    let all: Vec<Value> = serde_json::from_slice(json).unwrap_or_default();
    all.into_iter().filter_map(|value| serde_json::from_value(value).ok()).collect()
}

/// A thread as py-spy describes it.
#[derive(Deserialize)]
struct Spied {
    os_thread_id: Option<u32>,
    thread_name: Option<String>,
    frames: Vec<SpiedFrame>,
}

#[derive(Deserialize)]
struct SpiedFrame {
    name: String,
    filename: String,
    line: u32,
}

/// A thread's name and Python's frames, by its number.
pub(super) type Python = HashMap<u32, (Option<String>, Vec<Frame>)>;

/// Reads Python's frames with py-spy, or says why it can't. py-spy stops the process for some milliseconds.
pub(super) fn python(process: u32) -> Result<Python, String> {
    let own = env::current_exe().ok().and_then(|file| Some(file.parent()?.to_owned()));
    let program = programs::find("py-spy", own)
        .ok_or_else(|| "Python's lines come from py-spy: `pip install py-spy`".to_owned())?;
    let mut command = Command::new(program);
    let outputs = programs::run(command.args(["dump", "--json", "--pid", &process.to_string()]), process);
    let outputs = outputs.ok().flatten().unwrap_or_default();
    let spied: Vec<Spied> = each(&outputs.standard);
    if spied.is_empty() {
        let why = String::from_utf8_lossy(&outputs.error);
        let why = why.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
        let why: String = why.chars().filter(|c| !c.is_control()).take(300).collect();
        return Err(format!("py-spy did not read Python's lines: {why}"));
    }
    let thread = |Spied { os_thread_id, thread_name, frames }: Spied| {
        let frames = frames.into_iter().map(|SpiedFrame { name, filename, line }| Frame {
            function: Some(name),
            file: Some(filename),
            line: Some(line),
            library: None,
        });
        Some((os_thread_id?, (thread_name, frames.collect())))
    };
    Ok(spied.into_iter().filter_map(thread).collect())
}

/// Puts Python's frames in the place of the interpreter's.
pub(super) fn merged(native: Vec<Thread>, mut python: Python) -> Vec<Thread> {
    let mut threads = native;
    for thread in &mut threads {
        if let Some((name, frames)) = python.remove(&thread.number) {
            let inner = thread.frames.iter().take_while(|frame| !frame.is_interpreters()).count();
            thread.frames.truncate(inner);
            thread.frames.extend(frames);
            thread.name = name.or(thread.name.take());
        }
    }
    // A cuda-gdb without Python reads no stacks.
    threads.extend(python.into_iter().map(|(number, (name, frames))| Thread { number, name, frames }));
    threads.sort_by_key(|thread| thread.number);
    threads
}

impl Frame {
    /// Returns whether a native frame of a Python program is the interpreter's.
    fn is_interpreters(&self) -> bool {
        let Some(library) = &self.library else { return true };
        let name = Path::new(library).file_name().unwrap_or_default();
        name.as_encoded_bytes().starts_with(b"libpython")
    }
}

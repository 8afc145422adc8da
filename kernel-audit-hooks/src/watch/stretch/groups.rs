//! Groups what was seen in a stretch by what a reader can act on, and records it.

use std::collections::HashMap;

use super::names::{self, Named};
use super::samples::{self, Doing, Samples, Stretch};
use crate::record::{Kind, Spending};
use crate::watch::python::{self, Frame};
use crate::watch::record::call::{self, Hook};
use crate::watch::record::recording::{NewEvent, write_event};

/// The most groups that are recorded. The rest is one.
const MOST: usize = 100;

/// The function that runs Python functions.
const INTERPRETER: &str = "_PyEval_EvalFrameDefault";

/// The driver.
const DRIVER: &str = "libcuda.so";

/// Libraries that compile.
const COMPILERS: [&str; 4] = ["libnvrtc", "libnvJitLink", "libnvidia-ptxjitcompiler", "libnvptxcompiler"];

/// What some of the time was spent on.
#[derive(Default)]
struct Group<'a> {
    /// The looks in which it was seen.
    ticks: Vec<u32>,
    /// Where it was seen most, and in how many looks.
    most: Option<(&'a Doing, usize)>,
    took: u64,
}

/// Names and records what was seen.
pub(super) fn write(stretch: &Stretch, end: u64, samples: &Samples) {
    let functions = samples.seen.keys().flat_map(|doing| doing.position.functions.iter().copied());
    let hooks = call::list_hooks().iter().map(|hook| hook.address.addr() as u64);
    let names = names::find(functions.chain(hooks).collect());
    let mut groups = HashMap::<(Spending, String), Group<'_>>::new();
    for (doing, ticks) in &samples.seen {
        let group = groups.entry(key(doing, &frames(doing, &names))).or_default();
        group.ticks.extend(ticks);
        if group.most.is_none_or(|(_, most)| ticks.len() > most) {
            group.most = Some((doing, ticks.len()));
        }
    }
    groups.insert((Spending::Idle, String::new()), idle(samples));
    for group in groups.values_mut() {
        group.sum(samples);
    }
    let mut groups: Vec<_> = groups.into_iter().filter(|(_, group)| group.took > 0).collect();
    groups.sort_by(|(key, a), (other, b)| b.took.cmp(&a.took).then_with(|| key.cmp(other)));
    let mut rest = Group::default();
    let count = groups.len().saturating_sub(MOST);
    rest.ticks.extend(groups.drain(groups.len().min(MOST)..).flat_map(|(_, group)| group.ticks));
    if count > 0 {
        rest.sum(samples);
        groups.push(((Spending::Code, format!("{count} others")), rest));
    }

    let event = NewEvent { begun: stretch.begun, context: stretch.number.into(), ..NewEvent::default() };
    write_event(NewEvent {
        kind: Kind::Stretch,
        subject: &stretch.name,
        took: end.saturating_sub(stretch.begun),
        bytes: samples.ticks.len() as u64,
        stream: samples.lost,
        ..event
    });
    for ((what, function), group) in groups {
        let doing = group.most.map(|(doing, _)| doing);
        let stack = doing.map(|doing| stack(doing, &names)).unwrap_or_default();
        let user = doing.and_then(|doing| user(&doing.position.python)).unwrap_or_default();
        write_event(NewEvent {
            kind: Kind::Spent,
            result: what as u32,
            caller: &function,
            image: &user,
            took: group.took,
            bytes: group.ticks.len() as u64,
            text: &stack,
            ..event
        });
    }
}

impl Group<'_> {
    /// Sums the looks in which it was seen, each once.
    fn sum(&mut self, samples: &Samples) {
        self.ticks.sort_unstable();
        self.ticks.dedup();
        let lengths = self.ticks.iter().filter_map(|tick| samples.ticks.get(*tick as usize));
        self.took = lengths.map(|length| u64::from(*length)).sum();
    }
}

/// Returns the looks in which no thread did anything.
fn idle<'a>(samples: &Samples) -> Group<'a> {
    let mut is_idle = vec![true; samples.ticks.len()];
    for tick in samples.seen.values().flatten() {
        is_idle[*tick as usize] = false;
    }
    let ticks = (0..).zip(is_idle).filter(|(_, is_idle)| *is_idle).map(|(tick, _)| tick);
    Group { ticks: ticks.collect(), ..Group::default() }
}

/// Returns the hook that a thread is in. In a short call the stack tells it, because the call has returned when the
/// thread's slot is read again.
fn hook(doing: &Doing) -> Option<&'static Hook> {
    let hooks = call::list_hooks();
    let is_at = |address: &u64| hooks.iter().find(|hook| hook.address.addr() as u64 == *address);
    let in_slot = doing.call.and_then(|number| hooks.get(number as usize));
    in_slot.or_else(|| doing.position.functions.iter().rev().find_map(is_at))
}

/// Returns the functions of a stack up to the interpreter, the innermost first. Of a call, those of the audit are left
/// out.
fn frames<'a>(doing: &Doing, names: &'a HashMap<u64, Named>) -> Vec<&'a Named> {
    let mut ends = false;
    let own = hook(doing).and_then(|hook| names.get(&(hook.address.addr() as u64)));
    let own = own.filter(|own| !own.is_program);
    let is_own = |named: &&Named| own.is_some_and(|own| own.library == named.library);
    let functions = doing.position.functions.iter().filter_map(|function| names.get(function));
    functions
        .filter(|named| !is_own(named))
        .take_while(|named| !std::mem::replace(&mut ends, named.function.as_deref() == Some(INTERPRETER)))
        .collect()
}

/// Returns what is done, and the function by which a reader can tell it.
fn key(doing: &Doing, frames: &[&Named]) -> (Spending, String) {
    if let Some(hook) = hook(doing) {
        let what = if doing.call.is_some() { doing.what } else { samples::kind_of(hook.name) };
        return (what, hook.name.to_owned());
    }
    if let Some(innermost) = frames.iter().position(|named| named.library.starts_with(DRIVER)) {
        return (Spending::Call, entry(&frames[innermost..]).unwrap_or_default());
    }
    let compiles = |named: &&Named| COMPILERS.iter().any(|compiler| named.library.starts_with(compiler));
    if let Some(innermost) = frames.iter().position(compiles) {
        return (Spending::Compiling, entry(&frames[innermost..]).unwrap_or_default());
    }
    let opens = |named: &&Named| {
        named.library.starts_with("ld-linux")
            || matches!(named.function.as_deref(), Some("dlopen" | "dlmopen"))
    };
    if let Some(loader) = frames.iter().position(opens) {
        // A library that initializes itself is called by the loader.
        let initializer = frames[..loader].iter().rev().find(|named| !named.serves);
        let what = initializer.map(|named| format!("initializers of {}", named.library));
        return (Spending::Opening, what.unwrap_or_default());
    }
    let python = || innermost_of_package(&doing.position.python).map(name_of_line);
    let own = frames.iter().position(|named| !named.serves).and_then(|own| entry(&frames[own..]));
    let exported = own.as_ref().filter(|own| own.contains(' ')).cloned();
    let served = || {
        let mut named = frames.iter().filter_map(|named| Some((named, named.function.as_ref()?)));
        named.next().map(|(named, function)| format!("{} {function}", named.library))
    };
    let name = exported.or_else(python).or(own).or_else(served);
    (Spending::Code, name.or_else(|| Some(frames.first()?.line.clone())).unwrap_or_default())
}

/// Names the function by which the innermost frame's library was called. Of the program itself it is the innermost
/// function, because the outermost is always the same.
fn entry(frames: &[&Named]) -> Option<String> {
    let first = frames.first()?;
    let same = || frames.iter().take_while(|named| named.library == first.library);
    let named = || same().filter_map(|named| named.function.as_ref());
    let function = if first.is_program { named().next() } else { named().last() };
    Some(match function {
        Some(function) => format!("{} {function}", first.library),
        None => first.line.clone(),
    })
}

/// Returns the innermost function that is not of Python's own library, or else the innermost.
fn innermost_of_package(lines: &[Frame]) -> Option<&Frame> {
    let is_pythons = |line: &&Frame| {
        line.file.starts_with("<frozen ")
            || line.file.contains("/lib/python") && package(&line.file).is_none()
    };
    lines.iter().find(|line| !is_pythons(line)).or(lines.first())
}

/// Returns the path of a file in its package.
fn package(file: &str) -> Option<&str> {
    let after = |folder| file.rsplit_once(folder).map(|(_, path)| path);
    after("/site-packages/").or_else(|| after("/dist-packages/"))
}

fn name_of_line(line: &Frame) -> String {
    let file = package(&line.file).unwrap_or(line.file.rsplit('/').next().unwrap_or_default());
    format!("{file} {}", line.function)
}

/// Returns the line of the user in Python, such as `serve.py:42 forward`.
fn user(lines: &[Frame]) -> Option<String> {
    let user = python::find_users_frame(lines)?;
    let file = user.file.rsplit('/').next().unwrap_or_default();
    Some(format!("{file}:{} {}", user.line, user.function))
}

/// Returns the lines of a stack.
fn stack(doing: &Doing, names: &HashMap<u64, Named>) -> String {
    let python = doing.position.python.iter();
    let python = python.map(|line| format!("{}:{} {}\n", line.file, line.line, line.function));
    python.chain(frames(doing, names).into_iter().map(|named| format!("{}\n", named.line))).collect()
}

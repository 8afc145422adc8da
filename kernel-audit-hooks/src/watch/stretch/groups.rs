//! Groups a stretch's samples by causes that a reader can act on, and records the groups.

use std::collections::HashMap;

use super::names::{self, Function};
use super::samples::{self, Activity, Samples, Stretch};
use crate::record::{Fields, Kind, Spending};
use crate::watch::python::{self, Frame};
use crate::watch::record::call::{self, Hook};
use crate::watch::record::new_event::NewEvent;
use crate::watch::record::recording::write_with;

/// The maximum number of groups. The others are merged into one.
const MOST: usize = 100;

/// The interpreter's function that runs Python functions.
const INTERPRETER: &str = "_PyEval_EvalFrameDefault";

const DRIVER: &str = "libcuda.so";

/// Libraries with compilers.
const COMPILERS: [&str; 4] = ["libnvrtc", "libnvJitLink", "libnvidia-ptxjitcompiler", "libnvptxcompiler"];

/// Samples with the same cause.
#[derive(Default)]
struct Group<'a> {
    ticks: Vec<u32>,
    /// The most frequent activity, and its number of ticks.
    most: Option<(&'a Activity, usize)>,
    took: u64,
}

/// Symbolizes and records a stretch.
pub(super) fn write(stretch: &Stretch, end: u64, samples: &Samples) {
    let functions = samples.seen.keys().flat_map(|activity| activity.position.functions.iter().copied());
    let hooks = call::list_hooks().iter().map(|hook| hook.address.addr() as u64);
    let names = names::find(functions.chain(hooks).collect());
    let mut groups = HashMap::<(Spending, String), Group<'_>>::new();
    for (activity, ticks) in &samples.seen {
        let group = groups.entry(key(activity, &frames(activity, &names))).or_default();
        group.ticks.extend(ticks);
        if group.most.is_none_or(|(_, most)| ticks.len() > most) {
            group.most = Some((activity, ticks.len()));
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
    let fields = Fields {
        numbers: [samples.ticks.len() as u64, samples.lost],
        texts: [&*stretch.name, "", ""],
        ..Fields::default()
    };
    write_with(&fields, NewEvent { kind: Kind::Stretch, took: end.saturating_sub(stretch.begun), ..event });
    for ((what, function), group) in groups {
        let activity = group.most.map(|(activity, _)| activity);
        let stack = activity.map(|activity| stack(activity, &names)).unwrap_or_default();
        let user = activity.and_then(|activity| user(&activity.position.python)).unwrap_or_default();
        let fields = Fields {
            code: what as u16,
            numbers: [group.ticks.len() as u64, 0],
            texts: [&*function, &*user, ""],
            ..Fields::default()
        };
        write_with(&fields, NewEvent { kind: Kind::Spent, took: group.took, stack: &stack, ..event });
    }
}

impl Group<'_> {
    /// Sums the lengths of the ticks, each once.
    fn sum(&mut self, samples: &Samples) {
        self.ticks.sort_unstable();
        self.ticks.dedup();
        let lengths = self.ticks.iter().filter_map(|tick| samples.ticks.get(*tick as usize));
        self.took = lengths.map(|length| u64::from(*length)).sum();
    }
}

/// Returns the ticks in which no thread was active.
fn idle<'a>(samples: &Samples) -> Group<'a> {
    let mut is_idle = vec![true; samples.ticks.len()];
    for tick in samples.seen.values().flatten() {
        is_idle[*tick as usize] = false;
    }
    let ticks = (0..).zip(is_idle).filter(|(_, is_idle)| *is_idle).map(|(tick, _)| tick);
    Group { ticks: ticks.collect(), ..Group::default() }
}

/// Returns the hook that a thread is in. A short call is on the stack only: its slot is free by now.
fn hook(activity: &Activity) -> Option<&'static Hook> {
    let hooks = call::list_hooks();
    let is_at = |address: &u64| hooks.iter().find(|hook| hook.address.addr() as u64 == *address);
    let in_slot = activity.call.and_then(|number| hooks.get(number as usize));
    in_slot.or_else(|| activity.position.functions.iter().rev().find_map(is_at))
}

/// Returns a stack's functions up to the interpreter, the innermost first, without those of the audit.
fn frames<'a>(activity: &Activity, names: &'a HashMap<u64, Function>) -> Vec<&'a Function> {
    let mut ends = false;
    let own = hook(activity).and_then(|hook| names.get(&(hook.address.addr() as u64)));
    let own = own.filter(|own| !own.is_program);
    let is_own = |named: &&Function| own.is_some_and(|own| own.library == named.library);
    let functions = activity.position.functions.iter().filter_map(|function| names.get(function));
    functions
        .filter(|named| !is_own(named))
        .take_while(|named| !std::mem::replace(&mut ends, named.function.as_deref() == Some(INTERPRETER)))
        .collect()
}

/// Returns the kind of activity, and the function to show for it.
fn key(activity: &Activity, frames: &[&Function]) -> (Spending, String) {
    if let Some(hook) = hook(activity) {
        let what = if activity.call.is_some() { activity.what } else { samples::kind_of(hook.name) };
        return (what, hook.name.to_owned());
    }
    if let Some(innermost) = frames.iter().position(|named| named.library.starts_with(DRIVER)) {
        return (Spending::Call, entry(&frames[innermost..]).unwrap_or_default());
    }
    let compiles = |named: &&Function| COMPILERS.iter().any(|compiler| named.library.starts_with(compiler));
    if let Some(innermost) = frames.iter().position(compiles) {
        return (Spending::Compiling, entry(&frames[innermost..]).unwrap_or_default());
    }
    let opens = |named: &&Function| {
        named.library.starts_with("ld-linux")
            || matches!(named.function.as_deref(), Some("dlopen" | "dlmopen"))
    };
    if let Some(loader) = frames.iter().position(opens) {
        // The loader calls a library's initializers.
        let initializer = frames[..loader].iter().rev().find(|named| !named.is_support);
        let what = initializer.map(|named| format!("initializers of {}", named.library));
        return (Spending::Opening, what.unwrap_or_default());
    }
    let python = || innermost_of_package(&activity.position.python).map(name_of_line);
    let own = frames.iter().position(|named| !named.is_support).and_then(|own| entry(&frames[own..]));
    let exported = own.as_ref().filter(|own| own.contains(' ')).cloned();
    let served = || {
        let mut named = frames.iter().filter_map(|named| Some((named, named.function.as_ref()?)));
        named.next().map(|(named, function)| format!("{} {function}", named.library))
    };
    let name = exported.or_else(python).or(own).or_else(served);
    (Spending::Code, name.or_else(|| Some(frames.first()?.line.clone())).unwrap_or_default())
}

/// Returns the function by which the innermost frame's library was entered. For the program itself, returns
/// the innermost function, because the outermost is always `main`.
fn entry(frames: &[&Function]) -> Option<String> {
    let first = frames.first()?;
    let same = || frames.iter().take_while(|named| named.library == first.library);
    let named = || same().filter_map(|named| named.function.as_ref());
    let function = if first.is_program { named().next() } else { named().last() };
    Some(match function {
        Some(function) => format!("{} {function}", first.library),
        None => first.line.clone(),
    })
}

/// Returns the innermost frame outside of Python's standard library, or else the innermost frame.
fn innermost_of_package(lines: &[Frame]) -> Option<&Frame> {
    let is_pythons = |line: &&Frame| {
        line.file.starts_with("<frozen ")
            || line.file.contains("/lib/python") && package(&line.file).is_none()
    };
    lines.iter().find(|line| !is_pythons(line)).or(lines.first())
}

/// Returns a file's path relative to `site-packages`.
fn package(file: &str) -> Option<&str> {
    let after = |folder| file.rsplit_once(folder).map(|(_, path)| path);
    after("/site-packages/").or_else(|| after("/dist-packages/"))
}

fn name_of_line(line: &Frame) -> String {
    let file = package(&line.file).unwrap_or(line.file.rsplit('/').next().unwrap_or_default());
    format!("{file} {}", line.function)
}

/// Returns the user's Python line, such as `serve.py:42 forward`.
fn user(lines: &[Frame]) -> Option<String> {
    let user = python::find_users_frame(lines)?;
    let file = user.file.rsplit('/').next().unwrap_or_default();
    Some(format!("{file}:{} {}", user.line, user.function))
}

fn stack(activity: &Activity, names: &HashMap<u64, Function>) -> String {
    let python = activity.position.python.iter();
    let python = python.map(|line| format!("{}:{} {}\n", line.file, line.line, line.function));
    python.chain(frames(activity, names).into_iter().map(|named| format!("{}\n", named.line))).collect()
}

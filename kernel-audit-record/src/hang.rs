//! The sentences on a hang, made of its [`Explanation`]: where the program hangs, what it called, what runs at the same time, why the call
//! waits, and what ends it. The process prints them if no command runs it. The command adds what it knows of other events.

use std::collections::HashSet;
use std::fmt;

use kernel_registry_cuda::rules::{self, Reader, Rule};

use crate::causes;
use crate::record::{Event, Explanation, Running, ThreadInCall, UnloadedHandles, UnloadedLaunch, Work};
use crate::wrapped;

/// The lines, in the order in which people read them. Names of kernels stand between backticks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// The file, line and function of the user, or a library and its function.
    pub place: String,
    pub called: String,
    /// What runs at the same time: a text for each stream.
    pub beside: Vec<String>,
    pub why: String,
    /// What ends the hang, in the order in which people try it. Text after a line break gets a line of its own.
    pub cures: Vec<String>,
}

/// A hanging call, with what the process found out about it.
#[derive(Clone, Copy)]
pub struct Hanging<'a> {
    /// The driver's function.
    pub call: &'a str,
    /// The symbol of the kernel that the call is about.
    pub kernel: Option<&'a str>,
    pub thread: u32,
    pub stream: u64,
    /// The function that made the call.
    pub caller: &'a str,
    /// Whether `warm_all` is a remedy.
    pub uses_kernel_registry: bool,
    pub explanation: &'a Explanation,
}

impl<'a> Hanging<'a> {
    /// Returns the call of a recorded hang. Without an explanation, because the record had no room for it, there's only the call.
    pub fn new(event: &'a Event, uses_kernel_registry: bool) -> Self {
        static NONE: Explanation = Explanation::none();
        Hanging {
            call: &event.call,
            kernel: event.subject.kernel().map(|symbol| &**symbol),
            thread: event.thread,
            stream: event.stream,
            caller: &event.caller,
            uses_kernel_registry,
            explanation: event.explanation.as_deref().unwrap_or(&NONE),
        }
    }

    fn rules(&self) -> impl Iterator<Item = &'static Rule> + use<'a> {
        self.explanation.rules.iter().filter_map(|name| rules::named(name))
    }

    /// Returns the lines. `more` adds to the words on a stream.
    pub fn lines(&self, more: impl Fn(&Running) -> String) -> Lines {
        let Hanging { call, kernel, explanation, .. } = *self;
        let about = kernel.map(|kernel| format!(" for `{kernel}`")).unwrap_or_default();
        let loaded = match kernel {
            Some(_) if !explanation.is_loaded => ", which was not loaded before",
            _ => "",
        };
        Lines {
            place: self.caller.to_owned(),
            called: format!("`{call}`{about}{loaded}"),
            beside: self.beside(more),
            why: self.why(),
            cures: vec![self.cure()],
        }
    }

    /// Returns what is known besides the lines, in sentences.
    pub fn details(&self) -> Vec<String> {
        let Explanation { busy, launches, handles, threads, aborts_after_ms, .. } = self.explanation;
        let mut details = vec![format!("It is thread {} that hangs", self.thread)];
        details.extend(aborts_after_ms.map(|after| {
            format!(
                "It may wait for work that takes long, so it is ended after {:.1} s, not now",
                after as f64 / 1e3
            )
        }));
        // The first is the reason itself.
        let waits = waits(launches, handles.as_ref()).skip(self.explanation.waits_for_load.into());
        details.extend(waits);
        details.extend(busy.iter().flatten().map(last_launched));
        let in_call =
            |ThreadInCall { thread, call }: &ThreadInCall| format!("Thread {thread} is in `{call}`");
        details.extend(threads.iter().map(in_call));
        details.iter_mut().for_each(|detail| detail.push('.'));
        details
    }

    /// Returns the lines, the details and a stack for people.
    pub fn in_words(&self, stack: &str) -> String {
        let lines = self.lines(|_| String::new()).to_string();
        let details: String = self.details().iter().map(|detail| format!("\n{detail}")).collect();
        let stack: String = stack.lines().map(|frame| format!("\n    at {frame}")).collect();
        format!("{}{details}{stack}", lines.trim_end())
    }

    fn why(&self) -> String {
        let Explanation { launches, handles, busy, waits_for_load, .. } = self.explanation;
        let busy = busy.as_deref().unwrap_or_default();
        let first_wait = waits(launches, handles.as_ref()).next().filter(|_| *waits_for_load);
        let because: Vec<_> = self.rules().map(|rule| rule.because).collect();
        let mut why = match first_wait {
            Some(wait) => wait,
            None if !because.is_empty() => because.join("; or "),
            None if busy.iter().any(|busy| self.stream > 0 && busy.stream == self.stream) => {
                "its own stream is busy".to_owned()
            }
            None => "no rule says that it waits for kernels".to_owned(),
        };
        if !busy.is_empty() && self.rules().any(causes::waits_for_device) {
            why += ". If what runs there waits for this program, both wait forever";
        }
        why
    }

    /// Returns what prevents the hang by a change to the program, or nothing.
    pub fn cure(&self) -> String {
        let reader: Reader = causes::reader(self.caller, self.uses_kernel_registry);
        let mut remedies: Vec<_> = self.rules().map(|rule| rule.remedy_for(reader)).collect();
        remedies.dedup();
        remedies.join("; or ")
    }

    /// Returns what runs in each stream. The kernel of a launch that has not returned is not running yet, but what was launched before it is.
    fn beside(&self, more: impl Fn(&Running) -> String) -> Vec<String> {
        const MOST: usize = 8;
        let Some(busy) = &self.explanation.busy else {
            return vec!["the driver does not answer which streams are busy".to_owned()];
        };
        if busy.is_empty() {
            return vec!["no stream that was used is busy".to_owned()];
        }
        let (own, others): (Vec<&Running>, Vec<&Running>) = busy.iter().partition(|running| running.is_own);
        let (mut words, mut streams) = (Vec::new(), HashSet::new());
        for running in others {
            if streams.insert(running.stream) {
                let waits = self.explanation.launches.iter().any(|launch| launch.is(running));
                let (waits, runs) = ("waits", if waits { "waits to be loaded" } else { "runs" });
                words.push(format!("{}{}", running.in_words(waits, runs), more(running)));
            }
        }
        if own.iter().any(|running| streams.insert(running.stream)) {
            words.push(format!("what was launched before in its own stream {:#x}", self.stream));
        }
        let left_out = words.split_off(words.len().min(MOST)).len();
        words.extend((left_out > 0).then(|| format!("{left_out} more streams that are busy")));
        words
    }
}

/// Says which kernels the device waits for before it loads them.
fn waits(
    launches: &[UnloadedLaunch],
    handles: Option<&UnloadedHandles>,
) -> impl Iterator<Item = String> + use<> {
    let handles = handles.map(ToString::to_string);
    launches.iter().map(ToString::to_string).chain(handles).collect::<Vec<_>>().into_iter()
}

fn last_launched(Running { stream, what, thread, .. }: &Running) -> String {
    let last = match what {
        Work::Wait => "what came last there is a wait for a word in memory".to_owned(),
        Work::Kernel { symbol } => format!("the last kernel launched there is `{symbol}`"),
        Work::Handle { handle } => format!("the last kernel launched there is {handle:#x}"),
    };
    format!("Stream {stream:#x} is busy: {last}, by thread {thread}")
}

impl UnloadedLaunch {
    /// Returns whether this launch is what a stream has come to.
    fn is(&self, running: &Running) -> bool {
        let kernel = match &running.what {
            Work::Kernel { symbol } => Some(symbol),
            _ => None,
        };
        self.stream == running.stream && kernel == Some(&self.kernel)
    }
}

impl Running {
    fn in_words(&self, waits: &str, runs: &str) -> String {
        let stream = self.stream;
        match &self.what {
            Work::Wait => format!("stream {stream:#x} {waits} for a word in memory"),
            Work::Kernel { symbol } => format!("`{symbol}` {runs} in stream {stream:#x}"),
            Work::Handle { handle } => format!("kernel {handle:#x} {runs} in stream {stream:#x}"),
        }
    }
}

/// Writes what runs now.
impl fmt::Display for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.in_words("waits", "runs"))
    }
}

impl fmt::Display for UnloadedLaunch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UnloadedLaunch { kernel, stream, thread, caller, running } = self;
        write!(f, "kernel `{kernel}` was not loaded when thread {thread} launched it in stream {stream:#x}")?;
        if !caller.is_empty() {
            write!(f, " (at {caller})")?;
        }
        write!(f, ", while {}: it waits on the device until nothing runs there", names(running))
    }
}

impl fmt::Display for UnloadedHandles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UnloadedHandles { kernels, count, running } = self;
        let (kernel, is) = if *count == 1 { ("kernel", "was") } else { ("kernels", "were") };
        let listed: Vec<_> = kernels.iter().map(|kernel| format!("`{kernel}`")).collect();
        let more = match count.saturating_sub(kernels.len() as u32) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let listed = listed.join(", ");
        write!(
            f,
            "{kernel} {listed}{more} {is} not loaded when asked for, while {}: loading waits until nothing runs there",
            names(running)
        )
    }
}

fn names(running: &[Running]) -> String {
    let names = running.iter().map(|running| running.in_words("waited", "ran"));
    names.collect::<Vec<_>>().join(" and ")
}

impl Lines {
    /// Returns the labels with their texts.
    fn labelled(&self) -> [(&'static str, Vec<&str>); 5] {
        fn many(texts: &[String]) -> Vec<&str> {
            texts.iter().map(String::as_str).collect()
        }
        [
            ("where", vec![&self.place]),
            ("calls", vec![&self.called]),
            ("beside", many(&self.beside)),
            ("why", vec![&self.why]),
            ("cure", many(&self.cures)),
        ]
    }

    /// Returns each label with its texts, without those that are empty.
    pub fn entries(&self) -> impl Iterator<Item = (&'static str, Vec<&str>)> {
        let filled = self.labelled().map(|(label, texts)| {
            (label, texts.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>())
        });
        filled.into_iter().filter(|(_, texts)| !texts.is_empty())
    }
}

/// Writes the lines for a terminal: a label, and the texts in a column of their own.
impl fmt::Display for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const COLUMN: usize = 10;
        for (label, texts) in self.labelled() {
            let mut before = label;
            for text in texts.into_iter().filter(|text| !text.is_empty()) {
                for line in text.split('\n') {
                    writeln!(f, "  {before:<8}{}", wrapped::hanging(line, COLUMN))?;
                    before = "";
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn running(stream: u64, symbol: &str) -> Running {
        let what = Work::Kernel { symbol: symbol.into() };
        Running { stream, what, thread: 7, is_own: false }
    }

    fn hanging(explanation: &Explanation) -> Hanging<'_> {
        Hanging {
            call: "cuLaunchKernel",
            kernel: Some("late"),
            thread: 8,
            stream: 0x40,
            caller: "tp.py:21 rank_main",
            uses_kernel_registry: false,
            explanation,
        }
    }

    #[test]
    fn an_explanation_becomes_lines_and_details() {
        let own = Running { is_own: true, ..running(0x40, "late") };
        let wait = Running { what: Work::Wait, ..running(0x60, "") };
        let explanation = Explanation {
            rules: vec![rules::LOAD.name.into(), "a rule of another version".into()],
            busy: Some(vec![own, running(0x20, "spin"), running(0x20, "spun"), wait]),
            threads: vec![ThreadInCall { thread: 9, call: "cuMemAlloc_v2".into() }],
            ..Explanation::default()
        };
        let hanging = hanging(&explanation);
        let lines = hanging.lines(|running| format!(", since {}", running.thread));
        assert_eq!(lines.called, "`cuLaunchKernel` for `late`, which was not loaded before");
        assert_eq!(
            lines.beside,
            [
                "`spin` runs in stream 0x20, since 7",
                "stream 0x60 waits for a word in memory, since 7",
                "what was launched before in its own stream 0x40"
            ]
        );
        assert!(lines.why.starts_with(rules::LOAD.because), "{}", lines.why);
        assert!(lines.why.ends_with("both wait forever"), "{}", lines.why);
        assert_eq!(lines.cures, [rules::LOAD.remedy_for(Reader::Python)]);
        let details = hanging.details();
        assert_eq!(details.first().map(String::as_str), Some("It is thread 8 that hangs."));
        assert_eq!(details.last().map(String::as_str), Some("Thread 9 is in `cuMemAlloc_v2`."));
    }

    #[test]
    fn a_launch_that_waits_on_the_device_is_the_reason() {
        let launch = UnloadedLaunch {
            kernel: "late".into(),
            stream: 0x20,
            thread: 7,
            caller: "".into(),
            running: vec![running(0x40, "spin")],
        };
        let explanation =
            Explanation { waits_for_load: true, launches: vec![launch; 2], ..Explanation::default() };
        let why = hanging(&explanation).lines(|_| String::new()).why;
        assert_eq!(
            why,
            "kernel `late` was not loaded when thread 7 launched it in stream 0x20, while `spin` ran in stream 0x40: it waits on the \
             device until nothing runs there"
        );
        assert_eq!(hanging(&explanation).details()[1], format!("{why}."));
    }

    #[test]
    fn people_read_a_column() {
        let lines = Lines {
            place: "tp.py:21 rank_main".into(),
            called: "`cuLaunchKernel` for `late`".into(),
            beside: vec!["`spin` in stream 0x20".into(), "`all_reduce` in stream 0x40".into()],
            why: "a kernel is loaded only when nothing runs on the device".into(),
            cures: vec!["record it:\n  kernel-audit --record".into(), "or wait".into()],
        };
        assert_eq!(
            lines.to_string(),
            "  where   tp.py:21 rank_main
  calls   `cuLaunchKernel` for `late`
  beside  `spin` in stream 0x20
          `all_reduce` in stream 0x40
  why     a kernel is loaded only when nothing runs on the device
  cure    record it:
            kernel-audit --record
          or wait
"
        );
    }
}

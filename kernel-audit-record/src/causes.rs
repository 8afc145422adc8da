//! Groups findings by their cause. Says of each cause in one sentence what is wrong, and what to do.

use std::cmp::Reverse;
use std::fmt;

use kernel_registry_cuda::rules::{self, Reader, Rule};

use crate::record::{Event, Format, Kind, Report, Subject, Time};

/// Findings of one kind and one rule. `Display` writes what is wrong, as a sentence without its final point.
#[derive(Clone, Debug)]
pub struct Cause<'a> {
    /// At least one finding, the longest first.
    findings: Vec<&'a Event>,
    rule: Option<&'static Rule>,
    uses_kernel_registry: bool,
}

/// Returns the causes of all findings but hangs, because hangs explain themselves. Causes with calls that would have
/// waited for a resident kernel come first, then calls that were refused, then causes that took the longest in total.
pub fn causes<'a>(reports: impl IntoIterator<Item = &'a Report>) -> Vec<Cause<'a>> {
    let mut causes = reports.into_iter().fold(Vec::new(), add_findings);
    for cause in &mut causes {
        cause.findings.sort_by(|a, b| b.took.cmp(&a.took).then(a.begun.cmp(&b.begun)));
    }
    causes.sort_by_key(|cause| {
        (cause.weight().is_some(), !cause.longest().waits_for_resident(), Reverse(cause.total()))
    });
    causes
}

fn add_findings<'a>(mut causes: Vec<Cause<'a>>, report: &'a Report) -> Vec<Cause<'a>> {
    let uses_kernel_registry = report.uses_kernel_registry;
    let findings = report.events.iter().filter(|event| event.is_finding && event.kind != Kind::Hang);
    for finding in findings {
        let rule = rule(finding);
        let key = |event: &Event| (event.kind, event.waits_for_resident());
        let same = |cause: &&mut Cause<'_>| {
            (cause.rule, cause.uses_kernel_registry) == (rule, uses_kernel_registry)
                && key(cause.longest()) == key(finding)
        };
        match causes.iter_mut().find(same) {
            Some(cause) => cause.findings.push(finding),
            None => causes.push(Cause { findings: vec![finding], rule, uses_kernel_registry }),
        }
    }
    causes
}

/// Returns whether a preload prevents this finding.
#[doc(hidden)]
pub fn is_preloadable(finding: &Event) -> bool {
    rules::named(&finding.rule).is_some_and(|rule| rule.can_be_preloaded)
}

/// Returns who is to follow a remedy: the author of the function that made the call. Of a Python function the file and the line are
/// known: `serve.py:42 forward`.
#[doc(hidden)]
pub fn reader(caller: &str, uses_kernel_registry: bool) -> Reader {
    let has_line = |word: &str| {
        let line = word.rsplit_once(':').map_or("", |(_, line)| line);
        !line.is_empty() && line.bytes().all(|digit| digit.is_ascii_digit())
    };
    match uses_kernel_registry {
        _ if caller.split(' ').any(has_line) => Reader::Python,
        true => Reader::KernelRegistry,
        false => Reader::Other,
    }
}

/// Returns whether calls under this rule wait for all that runs on the device. Others wait for work that the program
/// named, or for a thread that does so.
#[doc(hidden)]
pub fn waits_for_device(rule: &Rule) -> bool {
    *rule != rules::SYNCHRONIZE && *rule != rules::LOCKED
}

/// Returns the rule by which a finding waits, or else the likeliest rule.
fn rule(finding: &Event) -> Option<&'static Rule> {
    let is_image = matches!(finding.kind, Kind::Image | Kind::Refused)
        && finding.subject.image().is_some_and(|image| image.format != Format::Library);
    let likeliest = || match is_image {
        true if rules::LATE_LIBRARY.calls.contains(&&*finding.call) => Some(&rules::LATE_LIBRARY),
        // The remedy of this rule helps whether loading is eager or not.
        true => Some(&rules::MODULE),
        false => rules::of(&finding.call, true).next(),
    };
    rules::named(&finding.rule).or_else(likeliest)
}

impl<'a> Cause<'a> {
    /// Returns the number of findings.
    pub fn count(&self) -> usize {
        self.findings.len()
    }

    /// Returns what prevents the findings, if that is known.
    pub fn remedy(&self) -> Option<&'static str> {
        const COMPILE: &str =
            "compile it before the program is ready, or let `--record` keep the result for `--preload`";
        let by_kind = (self.longest().kind == Kind::Compile).then_some(COMPILE);
        let reader = reader(self.caller(), self.uses_kernel_registry);
        self.rule.map(|rule| rule.remedy_for(reader)).or(by_kind)
    }

    /// Returns how long the findings took in total. `None` of calls that weigh more than any time: a program may not go on
    /// after a refused call, and one that waits for a resident kernel could have waited forever.
    #[doc(hidden)]
    pub fn weight(&self) -> Option<u64> {
        let first = self.longest();
        (first.kind != Kind::Refused && !first.waits_for_resident()).then(|| self.total())
    }

    /// Returns the caller of the call that took longest: a library and a function in it.
    pub fn caller(&self) -> &str {
        &self.longest().caller
    }

    fn longest(&self) -> &'a Event {
        self.findings[0]
    }

    fn total(&self) -> u64 {
        self.findings.iter().fold(0, |total, finding| total.saturating_add(finding.took))
    }
}

/// Writes one sentence, without its final point.
impl fmt::Display for Cause<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, count) = (self.longest(), self.count());
        let about = match &first.subject {
            Subject::Nothing => format!("`{}`", first.call),
            Subject::Image(image) => format!("`{}` of a {image}", first.call),
            subject => format!("`{}` of `{subject}`", first.call),
        };
        if first.waits_for_resident() {
            let done = match first.kind {
                Kind::Refused => "was refused",
                Kind::Deferred => "was deferred until that ended",
                _ => "waited for it",
            };
            let resident = &first.resident;
            match count {
                1 => write!(f, "{about} was called while kernel `{resident}` was resident, and {done}")?,
                _ => write!(
                    f,
                    "{count} calls, such as {about}, were made while kernel `{resident}` was resident, and each {done}"
                )?,
            }
        } else {
            let (single, several) = match first.kind {
                Kind::Load => ("kernel was loaded", "kernels were loaded"),
                Kind::Image if self.rule == Some(&rules::LATE_LIBRARY) => {
                    ("library was loaded", "libraries were loaded")
                }
                Kind::Image => ("module or library was loaded", "modules or libraries were loaded"),
                Kind::Resize if self.rule == Some(&rules::STACK) => {
                    ("kernel needed a larger stack", "kernels needed a larger stack")
                }
                Kind::Resize => ("limit of the GPU was set", "limits of the GPU were set"),
                Kind::Compile => ("program was compiled by NVRTC", "programs were compiled by NVRTC"),
                Kind::Refused => ("call was refused, which came", "calls were refused, which came"),
                _ => ("call was made", "calls were made"),
            };
            let what = if count == 1 { single } else { several };
            write!(f, "{count} {what} after the program was ready (")?;
            if count > 1 {
                write!(f, "the longest: ")?;
            }
            write!(f, "{about})")?;
            if self.total() > 0 {
                write!(f, ", which took {}", Time(self.total()))?;
            }
        }
        match self.rule {
            Some(rule) => write!(f, ": {}", rule.because),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Image, Limit};

    fn finding(kind: Kind, call: &str, subject: Subject, rule: &Rule) -> Event {
        let (call, rule) = (call.into(), rule.name.into());
        Event { kind, call, subject, rule, is_finding: true, took: 1_500_000, ..Event::default() }
    }

    /// Returns what a report on these findings says: each cause and its remedy.
    fn sentences_of(events: Vec<Event>, uses_kernel_registry: bool) -> Vec<String> {
        let report = Report { events, uses_kernel_registry, ..Report::default() };
        let causes = causes([&report]);
        causes.iter().map(|cause| format!("{cause}. {}", cause.remedy().unwrap_or_default())).collect()
    }

    #[test]
    fn each_cause_is_a_sentence_with_its_remedy() {
        let load = || finding(Kind::Load, "cuLaunchKernel", Subject::of_kernel("late"), &rules::LOAD);
        assert_eq!(
            sentences_of(vec![load()], false),
            [
                "1 kernel was loaded after the program was ready (`cuLaunchKernel` of `late`), which took 1.5 ms: a kernel is loaded only \
              when nothing runs on the device. run each operation once before work starts that does not end, or load its kernels by \
              one call of `cudaFuncGetAttributes`, `cuKernelGetFunction` or `cuModuleGetFunction` each"
            ]
        );
        let warmed = sentences_of(vec![load(), load()], true);
        assert!(
            warmed[0].starts_with("2 kernels were loaded") && warmed[0].contains("call `warm_all`"),
            "{warmed:?}"
        );

        let image = || Subject::Image(Image::unloaded(Format::Ptx, 283, "".into()));
        let module = finding(Kind::Image, "cuModuleLoadData", image(), &rules::MODULE);
        let module = &sentences_of(vec![module], false)[0];
        assert!(
            module.starts_with("1 module or library was loaded after the program was ready (`cuModuleLoadData` of a PTX of 283 bytes)")
                && module.contains("load all modules"),
            "{module}"
        );

        // In LAZY mode `cuLibraryLoadData` waits for nothing, so these findings name no rule.
        let library =
            |kind| Event { rule: "".into(), ..finding(kind, "cuLibraryLoadData", image(), &rules::LIBRARY) };
        let library = sentences_of(vec![library(Kind::Image), library(Kind::Refused)], false);
        assert!(
            library[1].starts_with(
                "1 library was loaded after the program was ready (`cuLibraryLoadData` of a PTX of 283 bytes)"
            ),
            "{library:?}"
        );
        for text in library {
            assert!(text.contains("load all libraries, and compile"), "{text}");
            assert!(
                !text.contains("when nothing runs") && !text.contains("with `cuLibraryLoadData`"),
                "{text}"
            );
        }

        let limit = Subject::Limit { limit: Limit::Stack, bytes: 8192, kernel: "deep".into() };
        let stack =
            &sentences_of(vec![finding(Kind::Resize, "cuLaunchKernel", limit, &rules::STACK)], false)[0];
        assert!(
            stack.starts_with("1 kernel needed a larger stack")
                && stack.contains("set the stack limit to the largest frame"),
            "{stack}"
        );
    }

    #[test]
    fn refused_calls_come_before_calls_that_took_longer() {
        let took = |kind, call, took| Event { took, ..finding(kind, call, Subject::Nothing, &rules::MODULE) };
        let short = took(Kind::Load, "cuShort", 600_000);
        let long = took(Kind::Compile, "cuLong", 90_000_000);
        let refused = took(Kind::Refused, "cuRefused", 0);
        let report = Report { events: vec![short, long, refused], ..Report::default() };
        let causes = causes([&report]);
        let order: Vec<_> = causes.iter().map(|cause| (&*cause.longest().call, cause.weight())).collect();
        assert_eq!(order, [("cuRefused", None), ("cuLong", Some(90_000_000)), ("cuShort", Some(600_000))]);
    }

    #[test]
    fn calls_that_would_wait_for_a_resident_kernel_come_first() {
        let free = finding(Kind::Refused, "cuMemFree_v2", Subject::Handle { handle: 0x7f00 }, &rules::FREE);
        let free = Event { resident: "spin".into(), took: 0, ..free };
        let said = sentences_of(
            vec![finding(Kind::Load, "cuLaunchKernel", Subject::of_kernel("late"), &rules::LOAD), free],
            false,
        );
        assert_eq!(
            said[0],
            "`cuMemFree_v2` of `0x7f00` was called while kernel `spin` was resident, and was refused: memory is freed only when \
             nothing runs on the device. free it later, or with `cuMemFreeAsync`, which does not wait and also takes what `cuMemAlloc` gave"
        );
        assert_eq!(said.len(), 2);
    }
}

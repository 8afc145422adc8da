//! A row of the census: one operation, and what is there meanwhile.

use crate::bench::Bench;
use crate::cuda::Done;
use crate::resident::Beside;
use crate::{calls, first, launches, limits, loading, locked, stack, waiting};

/// What is tried, ready to be tried.
pub(crate) type Attempt<'b> = Box<dyn FnOnce() -> Done + 'b>;

pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) section: Section,
    pub(crate) beside: Beside,
    /// Whether a kernel is launched that tells when it runs. Otherwise the row is over when the calls return.
    pub(crate) launches: bool,
    /// Why the operation can block although every kernel was warmed.
    pub(crate) remains: Option<&'static str>,
    /// The driver refuses it: the error is what there is to find out.
    pub(crate) refused: bool,
    prepare: Prepare,
}

type Prepare = Box<dyn for<'b> Fn(&'b Bench) -> Done<Attempt<'b>>>;

/// What rows are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    /// Which call really loads a kernel.
    Loading,
    /// First launches of kernels that are loaded.
    FirstLaunch,
    /// Calls of the host that launch nothing.
    HostCall,
}

impl Row {
    /// A row that launches a kernel which tells when it runs.
    pub(crate) fn launch(
        section: Section,
        name: impl Into<String>,
        prepare: impl for<'b> Fn(&'b Bench) -> Done<Attempt<'b>> + 'static,
    ) -> Self {
        Row { launches: true, ..Row::call(section, name, prepare) }
    }

    /// A row that is over when its calls return.
    pub(crate) fn call(
        section: Section,
        name: impl Into<String>,
        prepare: impl for<'b> Fn(&'b Bench) -> Done<Attempt<'b>> + 'static,
    ) -> Self {
        let prepare = Box::new(prepare);
        Row {
            name: name.into(),
            section,
            beside: Beside::Thread,
            launches: false,
            remains: None,
            refused: false,
            prepare,
        }
    }

    pub(crate) fn beside(self, beside: Beside) -> Self {
        Row { beside, ..self }
    }

    /// The same, where warming cannot help, and why.
    pub(crate) fn remains(self, why: &'static str) -> Self {
        Row { remains: Some(why), ..self }
    }

    /// The same, which the driver was seen to refuse.
    pub(crate) fn refused(self) -> Self {
        Row { refused: true, ..self }
    }

    /// Does what comes before the resident kernel.
    pub(crate) fn prepare<'b>(&self, bench: &'b Bench) -> Done<Attempt<'b>> {
        (self.prepare)(bench)
    }
}

/// What is tried, as a result.
pub(crate) fn attempt<'b>(operation: impl FnOnce() -> Done + 'b) -> Done<Attempt<'b>> {
    Ok(Box::new(operation))
}

/// All rows, by section.
pub(crate) fn all() -> Vec<Row> {
    let groups = [
        loading::rows(),
        first::rows(),
        stack::rows(),
        launches::rows(),
        waiting::rows(),
        calls::rows(),
        limits::rows(),
        locked::rows(),
    ];
    groups.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_names() {
        let rows = all();
        let names: BTreeSet<_> = rows.iter().map(|row| &*row.name).collect();
        assert_eq!(names.len(), rows.len());
        for name in names {
            let (group, rest) = name.split_once('/').unwrap_or_else(|| panic!("{name}: no group"));
            let is_plain = |part: &str| part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            assert!(is_plain(group) && is_plain(rest) && !rest.is_empty(), "{name}");
        }
    }

    /// Warming is about kernels: what the host calls is nobody's to prevent.
    #[test]
    fn only_launches_remain() {
        assert!(all().iter().all(|row| row.remains.is_none() || row.section != Section::HostCall));
    }
}

//! Defines a row of the census: an operation, and the resident work that runs while it's tried.

use crate::bench::Bench;
use crate::cuda::Done;
use crate::resident::ResidentWork;

/// A prepared operation, which is tried by calling it.
pub(crate) type Attempt<'b> = Box<dyn FnOnce() -> Done + 'b>;

pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) subject: Subject,
    pub(crate) work: ResidentWork,
    /// Whether the row launches a kernel that sets a word. Otherwise the row ends when its calls return.
    pub(crate) launches: bool,
    /// Why the operation can block although every kernel is warm.
    pub(crate) remains: Option<&'static str>,
    /// Whether the driver refuses the operation, so that an error is the expected result.
    pub(crate) refused: bool,
    prepare: Prepare,
}

type Prepare = Box<dyn for<'b> Fn(&'b Bench) -> Done<Attempt<'b>>>;

/// The subject of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// The row finds the call that loads a kernel.
    Loading,
    /// The row tries the first launch of a loaded kernel.
    FirstLaunch,
    /// The row tries calls of the host that launch nothing.
    HostCall,
}

impl Row {
    /// Returns a row that launches a kernel which sets a word when it runs.
    pub(crate) fn launch(
        subject: Subject,
        name: impl Into<String>,
        prepare: impl for<'b> Fn(&'b Bench) -> Done<Attempt<'b>> + 'static,
    ) -> Self {
        Row { launches: true, ..Row::call(subject, name, prepare) }
    }

    /// Returns a row that ends when its calls return.
    pub(crate) fn call(
        subject: Subject,
        name: impl Into<String>,
        prepare: impl for<'b> Fn(&'b Bench) -> Done<Attempt<'b>> + 'static,
    ) -> Self {
        let prepare = Box::new(prepare);
        Row {
            name: name.into(),
            subject,
            work: ResidentWork::Thread,
            launches: false,
            remains: None,
            refused: false,
            prepare,
        }
    }

    pub(crate) fn during(self, work: ResidentWork) -> Self {
        Row { work, ..self }
    }

    /// Marks a row that warming can't help, with the reason.
    pub(crate) fn remains(self, why: &'static str) -> Self {
        Row { remains: Some(why), ..self }
    }

    /// Marks a row that the driver is known to refuse.
    pub(crate) fn refused(self) -> Self {
        Row { refused: true, ..self }
    }

    /// Prepares the operation, before the resident work starts.
    pub(crate) fn prepare<'b>(&self, bench: &'b Bench) -> Done<Attempt<'b>> {
        (self.prepare)(bench)
    }
}

/// Boxes an operation that is ready to be tried.
pub(crate) fn attempt<'b>(operation: impl FnOnce() -> Done + 'b) -> Done<Attempt<'b>> {
    Ok(Box::new(operation))
}

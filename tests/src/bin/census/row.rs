//! A row of the census: one operation, and the resident work beside it.

use crate::bench::Bench;
use crate::cuda::Done;
use crate::resident::Beside;

/// A prepared operation.
pub(crate) type Attempt<'b> = Box<dyn FnOnce() -> Done + 'b>;

pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) section: Section,
    pub(crate) beside: Beside,
    /// Whether it launches a kernel that sets a word. Otherwise the row ends when the calls return.
    pub(crate) launches: bool,
    /// Why the operation can block although every kernel is warm.
    pub(crate) remains: Option<&'static str>,
    /// Whether the driver refuses it: then the error is the expected result.
    pub(crate) refused: bool,
    prepare: Prepare,
}

type Prepare = Box<dyn for<'b> Fn(&'b Bench) -> Done<Attempt<'b>>>;

/// The subject of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    /// Which call loads a kernel.
    Loading,
    /// First launches of loaded kernels.
    FirstLaunch,
    /// Calls of the host that launch nothing.
    HostCall,
}

impl Row {
    /// A row that launches a kernel which sets a word when it runs.
    pub(crate) fn launch(
        section: Section,
        name: impl Into<String>,
        prepare: impl for<'b> Fn(&'b Bench) -> Done<Attempt<'b>> + 'static,
    ) -> Self {
        Row { launches: true, ..Row::call(section, name, prepare) }
    }

    /// A row that ends when its calls return.
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

    /// Marks a row where warming cannot help, with the reason.
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

/// An operation ready to be tried.
pub(crate) fn attempt<'b>(operation: impl FnOnce() -> Done + 'b) -> Done<Attempt<'b>> {
    Ok(Box::new(operation))
}

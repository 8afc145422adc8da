//! An event before it is written to the record.

use kernel_registry_cuda::rules::Rule;

use crate::record::{Explanation, Kind, Subject};

/// An event to be recorded, with the fields of [`crate::record::Event`].
#[derive(Clone, Copy, Default)]
pub(crate) struct NewEvent<'a> {
    pub(crate) kind: Kind,
    pub(crate) call: &'a str,
    pub(crate) thread: u32,
    pub(crate) stream: u64,
    pub(crate) context: u64,
    pub(crate) subject: Subject<&'a str>,
    pub(crate) begun: u64,
    pub(crate) took: u64,
    pub(crate) result: u32,
    pub(crate) is_finding: bool,
    pub(crate) resident: &'a str,
    pub(crate) rule: Option<&'static Rule>,
    pub(crate) library: &'a str,
    pub(crate) caller: &'a str,
    pub(crate) stack: &'a str,
    pub(crate) reason: &'a str,
    pub(crate) explanation: Option<&'a Explanation>,
}

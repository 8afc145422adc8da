//! Explains a fault: what failed, which call said so first, and how to find the line.

use std::collections::HashSet;

use kernel_registry_cuda::sticky;
use kernel_registry_image::readable;

use crate::command::how_run::HowRun;
use crate::command::process::Process;
use crate::command::report::words::caller;
use crate::hang::Lines;
use crate::record::{Event, Running, Work};

/// The most kernels that are named.
const MOST: usize = 8;

/// Returns the lines on a fault.
pub(crate) fn lines(process: &Process, fault: &Event, run: &HowRun) -> Lines {
    let launched = fault.explanation.iter().flat_map(|its| its.busy.iter().flatten());
    let mut said = HashSet::new();
    let beside = launched.filter_map(|last| match &last.what {
        // It's the launch that failed, and the kernel before it isn't known any more.
        Work::Kernel { .. } if last.is_own => {
            Some(format!("what was launched before in its own stream {:#x}", last.stream))
        }
        Work::Kernel { symbol } => {
            let Running { stream, thread, .. } = last;
            Some(format!("`{}` was launched last in stream {stream:#x} by thread {thread}", readable(symbol)))
        }
        _ => None,
    });
    let beside = beside.filter(|words| said.insert(words.clone()));
    let what = sticky::reason(fault.result).unwrap_or("a kernel failed");
    Lines {
        place: match &*fault.caller {
            "" => format!("{}, thread {}", process.name, fault.thread),
            by => caller(by),
        },
        called: format!("`{}`, the first watched call that returned the error", fault.call),
        beside: beside.take(MOST).collect(),
        why: format!(
            "{what} (result {}); it may be an earlier kernel than these; all later calls fail",
            fault.result
        ),
        cures: run.find_fault(&process.report).into_iter().collect(),
    }
}

//! Makes the bars of a stream, which show how many kernels were launched in it.

use kernel_registry_image::readable;

use super::axis::{NARROWEST, x};
use crate::command::report::streams::Launches;
use crate::command::report::words::{Time, short};

/// One sample or several, drawn as one bar.
pub(super) struct Bar<'a> {
    /// The left end in units of the timeline; `to` is the right end.
    pub(super) from: f64,
    pub(super) to: f64,
    launches: Launches<'a>,
}

impl Bar<'_> {
    /// Returns the number of launches in each unit of the timeline.
    pub(super) fn rate(&self) -> f64 {
        self.launches.count as f64 / (self.to - self.from)
    }

    pub(super) fn title(&self) -> String {
        let Launches { from, to, count, kernel } = self.launches;
        let last = short(&readable(kernel));
        let last = if last.is_empty() { String::new() } else { format!("; the last: {last}") };
        let launches = if count == 1 { "1 launch".to_owned() } else { format!("{count} launches") };
        format!("{launches} from {} to {}{last}", Time(from), Time(to))
    }
}

pub(super) fn bars<'a>(samples: &[Launches<'a>], end: u64) -> Vec<Bar<'a>> {
    let mut bars = Vec::<Bar<'_>>::new();
    for sample in samples {
        let (from, to) = (x(sample.from, end), x(sample.to, end));
        match bars.last_mut().filter(|bar| from < bar.to) {
            Some(bar) => {
                bar.to = bar.to.max(to);
                bar.launches.to = sample.to;
                bar.launches.count += sample.count;
                bar.launches.kernel = sample.kernel;
            }
            None => bars.push(Bar { from, to: to.max(from + NARROWEST), launches: *sample }),
        }
    }
    bars
}

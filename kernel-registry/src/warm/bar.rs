//! Shows a progress bar on the terminal, with the feature `indicatif`.

use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};

use super::Warmup;
use super::progress::Progress;

impl Warmup<'_> {
    /// Shows a progress bar on standard error, if standard error is a terminal. The bar is removed when the warm-up ends.
    /// This replaces a function set by [`progress`](Warmup::progress).
    ///
    /// ```no_run
    /// # fn main() -> Result<(), kernel_registry::MainError> {
    /// # let context = kernel_registry::context(0)?;
    /// let warm = kernel_registry::Warmup::new().progress_bar().warm(&context)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn progress_bar(self) -> Self {
        // The bar is cleared when the warm-up drops it, even after a failure.
        let bar = ProgressBar::new(0).with_style(style()).with_finish(ProgressFinish::AndClear);
        self.progress(move |progress| show(&bar, progress))
    }
}

fn show(bar: &ProgressBar, Progress { stage, done, of }: Progress) {
    // Only compiling is counted, because only compiling takes long. Later stages leave the bar's position unchanged.
    if of == 0 {
        bar.set_message(stage.as_str());
    } else {
        bar.set_length(of as u64);
        bar.set_position(done as u64);
        bar.set_message(format!("{}: {done} of {of} compiled", stage.as_str()));
    }
}

fn style() -> ProgressStyle {
    const TEMPLATE: &str = "warming kernels {bar:32} {msg}";
    ProgressStyle::with_template(TEMPLATE).unwrap_or_else(|_| ProgressStyle::default_bar())
}

#[cfg(test)]
mod tests {
    use indicatif::{InMemoryTerm, ProgressDrawTarget};

    use super::*;
    use crate::warm::Stage;

    #[test]
    fn the_bar_shows_stage_and_images_and_disappears_at_the_end() {
        let terminal = InMemoryTerm::new(4, 100);
        let target = ProgressDrawTarget::term_like(Box::new(terminal.clone()));
        let bar = ProgressBar::with_draw_target(Some(0), target);
        let bar = bar.with_style(style()).with_finish(ProgressFinish::AndClear);
        let shown = |stage, done, of| {
            show(&bar, Progress { stage, done, of });
            bar.force_draw();
            terminal.contents()
        };
        let loading = shown(Stage::Load, 3, 12);
        assert!(loading.starts_with("warming kernels "), "{loading}");
        assert!(loading.ends_with(" load: 3 of 12 compiled"), "{loading}");
        assert!(shown(Stage::Verify, 0, 0).ends_with(" verify"));
        assert_eq!(bar.position(), 3);
        drop(bar);
        assert_eq!(terminal.contents(), "");
    }
}

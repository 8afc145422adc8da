//! The command line of `diff`.

use std::path::PathBuf;

use clap::Args;

use crate::diff::Growth;
use crate::failure::EXIT_CODES;

#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Diff {
    /// The earlier build: a binary with kernels, an image (PTX, cubin or fatbin), or a file with the output of
    /// `cargo kernels show --all --json` for either
    pub(crate) old: PathBuf,

    /// The later build, likewise
    pub(crate) new: PathBuf,

    /// Write JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// Write Markdown, for a pull request
    #[arg(long, conflicts_with = "json")]
    pub(crate) markdown: bool,

    /// Also write a page of HTML to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) limits: DiffLimits,
}

/// Limits for the kernels of both builds.
#[derive(Args)]
#[command(next_help_heading = "Limits (for each kernel and architecture of both builds)")]
pub(crate) struct DiffLimits {
    /// By how much registers may grow: `+10%` or `+8`
    #[arg(long, value_name = "GROWTH")]
    pub(crate) max_registers: Option<Growth>,

    /// By how much the stack may grow
    #[arg(long, value_name = "GROWTH")]
    pub(crate) max_stack: Option<Growth>,

    /// By how much static shared memory may grow
    #[arg(long, value_name = "GROWTH")]
    pub(crate) max_shared: Option<Growth>,

    /// By how much machine code, or the text in PTX, may grow
    #[arg(long, value_name = "GROWTH")]
    pub(crate) max_code: Option<Growth>,

    /// Local frames may not grow: spilled registers are in them, and images do not tell them from arrays
    #[arg(long)]
    pub(crate) no_new_spills: bool,

    /// No kernel may be removed
    #[arg(long)]
    pub(crate) no_removed: bool,
}

//! The command line of `completions`.

use clap::Args;
use clap_complete::Shell;

const COMPLETIONS: &str = "\
Shells complete `cargo-kernels`, the program, which takes the same arguments as `cargo kernels`. For bash:

    cargo kernels completions bash > ~/.local/share/bash-completion/completions/cargo-kernels";

#[derive(Args)]
#[command(after_help = COMPLETIONS)]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: Shell,
}

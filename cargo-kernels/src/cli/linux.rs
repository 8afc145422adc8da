//! The command line of commands that only Linux has. Other systems accept it, so that the command can say so.

use std::ffi::OsString;

use clap::Args;

#[derive(Args)]
#[command(disable_help_flag = true)]
pub(crate) struct OnLinux {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _arguments: Vec<OsString>,
}

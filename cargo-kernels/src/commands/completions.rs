//! `cargo kernels completions`: writes a script with which a shell completes the arguments of the program `cargo-kernels`.

use std::io::Write;

use clap::Args;
use clap_complete::Shell;

use crate::cli::{Completions, Kernels};
use crate::failure::Failure;
use crate::output;

pub(crate) fn run(options: &Completions) -> Result<(), Failure> {
    output::print(|out| out.write_all(script(options.shell).as_bytes()))
}

fn script(shell: Shell) -> String {
    let mut command = Kernels::augment_args(clap::Command::new("cargo-kernels"));
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "cargo-kernels", &mut script);
    // With a hyphen in the program's name, bash completes no options of a command: https://github.com/clap-rs/clap/issues/6421.
    String::from_utf8_lossy(&script).replace("cargo__subcmd__kernels", "cargo__kernels")
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn each_script_knows_commands_and_options() {
        for shell in Shell::value_variants() {
            let text = script(*shell);
            for word in ["cargo-kernels", "declare", "no-default-features"] {
                assert!(text.contains(word), "{shell}: {word}");
            }
            assert!(!text.contains(|c: char| c.is_control() && !matches!(c, '\n' | '\t')), "{shell}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn bash_completes_the_options_of_a_command() {
        let ask = "\nCOMP_WORDS=(cargo-kernels list --no); COMP_CWORD=2; \
                   _cargo__kernels cargo-kernels --no list; echo ${COMPREPLY[@]}";
        let output =
            std::process::Command::new("bash").args(["-c", &(script(Shell::Bash) + ask)]).output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "--no-default-features\n");
    }
}

//! Runs the command `kernel-audit`: see `kernel_audit::command`.

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    use clap::Parser;
    use kernel_audit::command::{Audit, Failure, run};
    use kernel_registry_command::{finish, parse};

    /// Run a program behind a library in front of the CUDA driver: what it loads late, what takes long, and what never returns
    #[derive(Parser)]
    #[command(name = "kernel-audit", version)]
    struct Options {
        #[command(flatten)]
        audit: Audit,
    }

    let options: Options = parse(std::env::args_os().collect());
    finish(run(&options.audit, ""), Failure::code)
}

#[cfg(not(target_os = "linux"))]
fn main() -> std::process::ExitCode {
    eprintln!("error: `kernel-audit` is for Linux");
    std::process::ExitCode::FAILURE
}

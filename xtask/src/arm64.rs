//! `cargo xtask arm64`: builds for arm64 Linux on another machine, and runs the tests there with qemu's user
//! mode.

mod debian;
mod left_out;
mod wheel;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use cargo_metadata::camino::Utf8PathBuf;
use cargo_metadata::{Message, MetadataCommand};

use crate::run::{Outcome, cargo, link, run, target, workspace};
use left_out::{LEFT_OUT, PARTS, Part};
use wheel::WHEEL;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Run the slow tests, too
    #[arg(long)]
    all: bool,

    /// Only run `cargo check` on all crates. Says so if Rust's target is not there and cannot be installed
    #[arg(long, conflicts_with_all = ["all", "command"])]
    check: bool,

    /// Only run the part of the tests with this name, or else those with this word in their names
    #[arg(long, value_name = "WORD")]
    only: Option<String>,

    /// Run this command instead of the tests, where arm64 programs can run
    #[arg(last = true)]
    command: Vec<String>,
}

pub(crate) const TARGET: &str = "aarch64-unknown-linux-gnu";

/// The factor for time limits of tests (`tests::patience`), because qemu translates each instruction.
const PATIENCE: &str = "10";

pub(crate) fn arm64(options: &Options) -> Outcome {
    let target = install_target();
    if options.check {
        return match target {
            Ok(()) => check(),
            Err(why) => {
                println!("NOT CHECKED: whether the crates compile for arm64: {why}");
                Ok(())
            }
        };
    }
    target?;
    let machine = Machine::new()?;
    if let Some((program, args)) = options.command.split_first() {
        return run(machine.command(program).args(args));
    }
    let is_name = |word: &str| PARTS.iter().any(|part| part.name() == word);
    let chosen = |name: &str, is_slow: bool| match &options.only {
        Some(word) if is_name(word) => name == word,
        Some(word) => name.contains(word.as_str()),
        None => options.all || !is_slow,
    };
    let (parts, others): (Vec<&Part>, Vec<&Part>) =
        PARTS.iter().partition(|part| chosen(&part.name(), part.slow));
    // Its release builds and pip take about as long as all fast tests together.
    let with_wheel = chosen(WHEEL, true);
    if parts.is_empty() && !with_wheel {
        return Err("no part of the tests has this word in its name".into());
    }
    let mut failed = if parts.is_empty() { Vec::new() } else { machine.test(&parts)? };
    if with_wheel
        && let Err(error) = wheel::test(|program| machine.command(program), &machine.target(), TARGET)
    {
        eprintln!("{error}");
        failed.push(WHEEL.to_owned());
    }
    for part in others {
        println!("not run: {}", part.name());
    }
    if !with_wheel {
        println!("not run: {WHEEL}");
    }
    for (part, test, reason) in LEFT_OUT {
        println!("left out: {part} {test}: {reason}");
    }
    if failed.is_empty() {
        Ok(())
    } else {
        Err(format!("tests failed on arm64: {}", failed.join(", ")).into())
    }
}

/// Installs Rust's standard library for the target if it's missing.
fn install_target() -> Outcome {
    let print = ["--print", "target-libdir", "--target", TARGET];
    let output = Command::new("rustc").args(print).output()?;
    let folder = PathBuf::from(String::from_utf8(output.stdout)?.trim());
    if folder.is_dir() {
        return Ok(());
    }
    let added = Command::new("rustup").args(["target", "add", TARGET]).current_dir(workspace()).status();
    match added {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(format!("the target {TARGET} cannot be installed: see what rustup says above").into()),
        Err(error) => Err(format!(
            "`rustup` does not start ({error}): install Rust's standard library for {TARGET} in {}",
            folder.display()
        )
        .into()),
    }
}

/// Checks what is compiled for arm64. Nothing is linked, so no other compiler is needed.
fn check() -> Outcome {
    let mut check = cargo();
    check.args(["check", "--locked", "--workspace", "--all-targets", "--target", TARGET]);
    run(check.env("KERNEL_REGISTRY_COMPILER", "prebuilt"))
}

/// The environment that builds and runs arm64 programs.
struct Machine {
    /// A folder in the target directory.
    folder: PathBuf,
}

/// Makes Linux start arm64 programs with qemu, inside separate namespaces, so that the machine itself stays
/// unchanged. The cross compiler and arm64's libraries are added to the machine's files, as on a
/// multi-architecture system.
const ENTER: &str = r#"set -eu
folder=$1
shift
mount -t binfmt_misc none /proc/sys/fs/binfmt_misc
printf '%s' ':arm64:M::\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00:\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff:'"$folder/qemu-aarch64:FPOC" >/proc/sys/fs/binfmt_misc/register
mount -t overlay overlay -o "lowerdir=$folder/libraries:$folder/cross/usr:/usr" /usr
exec "$@"
"#;

impl Machine {
    /// Installs what is missing.
    fn new() -> Outcome<Self> {
        let folder = std::path::absolute(target())?.join("arm64");
        let machine = Machine { folder };
        fs::create_dir_all(&machine.folder)?;
        debian::install(&machine.folder)?;
        fs::write(machine.folder.join("enter"), ENTER)?;
        let home = machine.folder.join("cargo-home");
        fs::create_dir_all(&home)?;
        // Tests build programs for the processor that they run on, even without an option or a variable.
        fs::write(home.join("config.toml"), format!("[build]\ntarget = \"{TARGET}\"\n"))?;
        link(&cargo_home()?.join("registry"), &home.join("registry"))?;
        let starts = machine.command("true").output()?;
        if !starts.status.success() {
            return Err(format!(
                "Linux does not start programs by qemu here, which needs Linux 6.7 or newer and user namespaces: {}",
                String::from_utf8_lossy(&starts.stderr).trim()
            )
            .into());
        }
        Ok(machine)
    }

    /// Returns the target directory of arm64 builds.
    fn target(&self) -> PathBuf {
        self.folder.join("target")
    }

    /// Returns a command that runs where arm64 programs can run.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh"]);
        command.arg(self.folder.join("enter")).arg(&self.folder).arg(program);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = [self.folder.join("bin")].into_iter().chain(std::env::split_paths(&path));
        command.env("PATH", std::env::join_paths(folders).unwrap_or(path.clone()));
        command
            .env("CARGO_HOME", self.folder.join("cargo-home"))
            // Another home would make cargo build everything again.
            .env("CARGO_TARGET_DIR", self.target())
            .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", "/usr/bin/aarch64-linux-gnu-gcc")
            .env("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER", "/usr/bin/gcc")
            .env("HOST_CC", "/usr/bin/gcc")
            .env("CARGO_INCREMENTAL", "0")
            .env("CARGO_PROFILE_DEV_DEBUG", "false")
            .env("KERNEL_REGISTRY_COMPILER", "prebuilt")
            .env("TESTS_PATIENCE", PATIENCE);
        command
    }

    /// Builds these tests, then runs them. Returns the names of the failed tests.
    fn test(&self, parts: &[&Part]) -> Outcome<Vec<String>> {
        let begin = Instant::now();
        let programs = self.build(parts)?;
        println!("\n== built (after {} s)", begin.elapsed().as_secs());
        let mut failed = Vec::new();
        for part in parts {
            println!("\n== {} (after {} s)", part.name(), begin.elapsed().as_secs());
            let mut count = 0;
            for program in programs.iter().filter(|program| program.is_of(part)) {
                count += 1;
                let mut test = self.command(program.file.as_str());
                test.args(["--quiet", "--exact"]).current_dir(&program.folder);
                test.env("CARGO", env!("CARGO"));
                for (_, skipped, _) in LEFT_OUT.iter().filter(|(name, ..)| *name == part.name()) {
                    test.args(["--skip", skipped]);
                }
                if !test.env("CARGO_MANIFEST_DIR", &program.folder).status()?.success() {
                    failed.push(format!("{}/{}", program.package(), program.name));
                }
            }
            if count == 0 {
                return Err(format!("there are no tests of {}", part.name()).into());
            }
        }
        println!("\n== done (after {} s)", begin.elapsed().as_secs());
        Ok(failed)
    }

    /// Builds all tests in one go, with the features of all parts, so that each crate is built only once.
    fn build(&self, parts: &[&Part]) -> Outcome<Vec<Program>> {
        let metadata = MetadataCommand::new().no_deps().current_dir(workspace()).exec()?;
        let mut targets = BTreeSet::new();
        targets.extend(PARTS.iter().map(|part| ["--package", part.package].map(str::to_owned)));
        for part in parts {
            let package = metadata.packages.iter().find(|package| package.name == part.package);
            let package = package.ok_or_else(|| format!("there is no package {}", part.package))?;
            for target in &package.targets {
                let name = target.name.clone();
                if target.is_test() && part.test.is_none_or(|test| test == name) {
                    targets.insert(["--test".to_owned(), name]);
                } else if target.is_bin() && part.test.is_none() && target.required_features.is_empty() {
                    targets.insert(["--bin".to_owned(), name]);
                }
            }
        }
        let mut build = self.command(env!("CARGO"));
        build.args(["test", "--no-run", "--locked", "--lib"]).args(targets.into_iter().flatten());
        build.args(["--message-format", "json-render-diagnostics"]);
        let output = build.current_dir(workspace()).stderr(Stdio::inherit()).output()?;
        if !output.status.success() {
            return Err(format!("the tests do not build for arm64 ({})", output.status).into());
        }
        let mut programs = Vec::new();
        for message in Message::parse_stream(&*output.stdout) {
            let Message::CompilerArtifact(artifact) = message? else { continue };
            if let (Some(file), true) = (artifact.executable, artifact.profile.test) {
                let folder = artifact.manifest_path.parent().ok_or("a manifest is in a folder")?.to_owned();
                programs.push(Program { folder, name: artifact.target.name, file });
            }
        }
        Ok(programs)
    }
}

/// A test program.
struct Program {
    /// The folder of its package.
    folder: Utf8PathBuf,
    name: String,
    file: Utf8PathBuf,
}

impl Program {
    fn package(&self) -> &str {
        self.folder.file_name().unwrap_or_default()
    }

    fn is_of(&self, part: &Part) -> bool {
        self.package() == part.package && part.test.is_none_or(|test| test == self.name)
    }
}

fn cargo_home() -> Outcome<PathBuf> {
    if let Some(home) = std::env::var_os("CARGO_HOME") {
        return Ok(home.into());
    }
    let home = std::env::home_dir().ok_or("there is no home directory: set `CARGO_HOME`")?;
    Ok(home.join(".cargo"))
}

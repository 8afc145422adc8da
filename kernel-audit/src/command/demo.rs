//! Demonstrates the command on a program that hangs: its hang is explained, what it loads late is recorded, and with that
//! preloaded it ends. The program is a mode of this command, and the driver is the simulated one, so a demonstration needs
//! no other file and no GPU. A kernel that never ends is shown by a core dump of a real GPU.

mod program;

use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs, io};

use kernel_registry_command::{Failure as Shared, terminal};

use super::cli::Demo;
use super::failure::Failure;
use super::libraries;

const STORY: &str = "\
A program launches a kernel that runs until a second kernel sets a flag. Then it
launches the second kernel, for the first time. CUDA loads a kernel at its first
launch, and waits with that until nothing runs. So the program waits for the
first kernel, and the first kernel for the program.
";

const ENDLESS: &str = "
The program has ended, and nothing was loaded late.

4. Another program hangs: its kernel never ends. Its GPU, an H200, says why: the
   blocks wait for each other, and some have no room. This is a core dump of it.
   `COMMAND dump PID` looks at a process that hangs now.
";

/// The core dump, compressed by zstd.
const CORE: &[u8] = include_bytes!("demo/endless.core.zst");

const END: &str = "
With a program of yours:

    COMMAND --on-hang abort python3 train.py          explains a hang
    COMMAND dump PID                                  says what GPUs do now
    COMMAND --record late.preload python3 serve.py    records what is late
    COMMAND --preload late.preload python3 serve.py   loads it at the start
";

/// A run of the program.
struct Step {
    says: &'static str,
    options: &'static [&'static str],
    /// The option that takes the file of what is late, if any.
    file: Option<&'static str>,
    /// The exit code of the command.
    code: i32,
    /// Whether the report is shown.
    is_shown: bool,
}

const STEPS: [Step; 3] = [
    Step {
        says: "1. The program hangs. A call that takes a second is explained, and ends it.",
        options: &["--hang-after", "1", "--on-hang", "abort"],
        file: None,
        code: ABORTED,
        is_shown: true,
    },
    Step {
        says: "2. What it loads late is recorded. The report is the same, and is not shown.",
        options: &["--hang-after", "1", "--on-hang", "abort"],
        file: Some("--record"),
        code: ABORTED,
        is_shown: false,
    },
    Step {
        says: "3. That is loaded at the start. What is still late would be refused.",
        options: &["--after-ready", "refuse"],
        file: Some("--preload"),
        code: 0,
        is_shown: true,
    },
];

/// The exit code of the command if a hang ended the program: 128 and the number of the signal.
const ABORTED: i32 = 128 + libc::SIGABRT;

/// Runs the steps, or the program itself. `words` follow the file of this program on the command line.
pub(crate) fn demo(options: &Demo, words: &str) -> Result<(), Failure> {
    if options.program {
        return program::run();
    }
    // If the libraries have to be built, that comes before the story.
    libraries::hooks(options.offline)?;
    libraries::driver(true, options.offline)?;
    let own = Own::find(words)?;
    let folder = tempfile::Builder::new().prefix("kernel-audit-").tempdir();
    let folder = folder.map_err(Failure::of_io(&env::temp_dir()))?;
    let file = folder.path().join("late.preload");
    print(STORY)?;
    for step in STEPS {
        let arguments = own.arguments(&step, &file);
        let line = format!("{} {}", own.name, arguments.join(" ".as_ref()).display());
        print(&format!("\n{}\n$ {line}\n", step.says))?;
        let code = own.run(&arguments, step.is_shown)?;
        if code != step.code {
            return Err(Failure::Demo { line, code, expected: step.code });
        }
        if !step.is_shown {
            let recorded = fs::read_to_string(&file).map_err(Failure::of_io(&file))?;
            print(&recorded.lines().map(|line| format!("    {line}\n")).collect::<String>())?;
        }
    }
    print(&ENDLESS.replace("COMMAND", &own.name))?;
    own.describe_endless(folder.path())?;
    print(&END.replace("COMMAND", &own.name))
}

fn print(text: &str) -> Result<(), Failure> {
    Ok(terminal::print(|out| write!(out, "{text}"))?)
}

/// This command, to be run again.
struct Own {
    file: PathBuf,
    /// The words with which a user runs it.
    name: String,
}

impl Own {
    fn find(words: &str) -> Result<Self, Failure> {
        let file = env::current_exe().map_err(Failure::of_io(Path::new("/proc/self/exe")))?;
        let name = format!("{}{words}", file.file_name().unwrap_or_default().display());
        Ok(Own { file, name })
    }

    /// Returns the arguments with which a step runs this command.
    fn arguments(&self, step: &Step, file: &Path) -> Vec<OsString> {
        let options = ["--sim"].iter().chain(step.options).map(OsString::from);
        let file = step.file.into_iter().flat_map(|option| [option.into(), file.into()]);
        let program = self.name.split(' ').chain(["demo", "--program"]).map(OsString::from);
        options.chain(file).chain(program).collect()
    }

    /// Runs `dump` with the core dump.
    fn describe_endless(&self, folder: &Path) -> Result<(), Failure> {
        let path = folder.join("gpu.core");
        let unpacked = ruzstd::decoding::StreamingDecoder::new(CORE).map_err(io::Error::other);
        let mut bytes = Vec::new();
        unpacked.and_then(|mut decoder| decoder.read_to_end(&mut bytes)).map_err(Failure::of_io(&path))?;
        fs::write(&path, bytes).map_err(Failure::of_io(&path))?;
        let line = format!("{} dump --core {}", self.name, path.display());
        print(&format!("\n$ {line}\n"))?;
        let arguments = ["dump".into(), "--core".into(), path.into_os_string()];
        match self.run(&arguments, true)? {
            0 => Ok(()),
            code => Err(Failure::Demo { line, code, expected: 0 }),
        }
    }

    /// Runs this command. Returns the exit code.
    fn run(&self, arguments: &[OsString], is_shown: bool) -> Result<i32, Failure> {
        let mut command = Command::new(&self.file);
        let mut words = self.name.split(' ');
        words.next().map(|name| command.arg0(name));
        command.args(words).args(arguments).env("PATH", self.first_on_path());
        // Variables of CUDA and of the simulated driver would make another program of this one.
        let is_of_driver = |name: &str| name.starts_with("CUDA_") || name.starts_with("KERNEL_REGISTRY_SIM_");
        for (name, _) in env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_of_driver)) {
            command.env_remove(name);
        }
        if !is_shown {
            command.stdout(Stdio::null()).stderr(Stdio::null());
        }
        let not_run = |source| Shared::NotRun { program: self.file.clone().into(), source };
        let status = command.status().map_err(not_run)?;
        Ok(status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1))
    }

    /// Returns `PATH` with the folder of this command in front, so that the report names the program by one word.
    fn first_on_path(&self) -> OsString {
        let before = env::var_os("PATH").unwrap_or_default();
        let folders = self.file.parent().map(Path::to_owned).into_iter().chain(env::split_paths(&before));
        env::join_paths(folders).unwrap_or(before)
    }
}

//! A stand-in for NVRTC, which counts what it compiles, and a client that prints everything it gets from it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use serde_json::Value;
use tests::scratch_folder;

use crate::{simulated, text};

pub const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/audit/nvrtc");

/// Runs the C compiler.
pub fn cc(arguments: &[&str]) {
    let output = Command::new("cc").args(arguments).output().expect("a C compiler");
    assert!(output.status.success(), "{}", text(&output.stderr));
}

/// Builds the stand-in of a major version in a folder, with its builtins. `build` makes builds of one version differ.
pub fn build(folder: &Path, major: u32, build: &str) -> PathBuf {
    fs::create_dir_all(folder).unwrap();
    let path = |name: String| folder.join(name).to_str().unwrap().to_owned();
    let (library, builtins) =
        (path(format!("libnvrtc.so.{major}")), path(format!("libnvrtc-builtins.so.{major}.0")));
    // Its slots cannot be written to.
    let soname = format!("-Wl,-soname,libnvrtc.so.{major},--build-id,-z,now,-z,relro");
    let source = format!("{SOURCES}/nvrtc.c");
    cc(&["-shared", "-fPIC", "-w", &soname, &format!("-DMAJOR={major}"), "-o", &library, &source]);
    let empty = path("builtins.c".to_owned());
    fs::write(&empty, format!("const char *build = \"{build}\";")).unwrap();
    cc(&["-shared", "-fPIC", "-Wl,--build-id", "-o", &builtins, &empty]);
    library.into()
}

/// The stand-in of version 13, and clients that open it and that are linked with it.
pub fn programs() -> &'static [PathBuf; 3] {
    static BUILT: OnceLock<[PathBuf; 3]> = OnceLock::new();
    BUILT.get_or_init(|| {
        let folder = scratch_folder();
        let nvrtc = build(&folder, 13, "one");
        let path = |name: &str| folder.join(name);
        let client = format!("{SOURCES}/client.c");
        let (opens, linked) = (path("opens"), path("linked"));
        cc(&["-o", opens.to_str().unwrap(), &client, "-ldl", "-lpthread"]);
        let rpath = format!("-Wl,-rpath,{}", folder.display());
        cc(&[
            "-DLINKED",
            "-o",
            linked.to_str().unwrap(),
            &client,
            nvrtc.to_str().unwrap(),
            &rpath,
            "-lpthread",
        ]);
        [nvrtc, opens, linked]
    })
}

/// A client to run: by default the one that opens the stand-in.
pub struct Client {
    pub folder: PathBuf,
    pub program: PathBuf,
    pub nvrtc: PathBuf,
    pub way: &'static str,
    pub texts: Vec<String>,
    pub option: Option<String>,
    /// The name that the client gives its programs.
    pub name: Option<PathBuf>,
    pub variables: Vec<(&'static str, &'static str)>,
    /// The working directory.
    pub directory: Option<PathBuf>,
}

impl Client {
    pub fn new(texts: &[&str]) -> Self {
        let [nvrtc, program, _] = programs().clone();
        let texts = texts.iter().map(|text| (*text).to_owned()).collect();
        Client {
            folder: scratch_folder(),
            program,
            nvrtc,
            way: "plain",
            texts,
            option: None,
            name: None,
            variables: Vec::new(),
            directory: None,
        }
    }

    pub fn file(&self) -> PathBuf {
        self.folder.join("late.preload")
    }

    pub fn configure(&self, command: &mut Command) {
        let count = self.folder.join("count");
        let _ = fs::remove_file(&count);
        command.env("COUNT", count).arg(&self.program).arg(&self.nvrtc).arg(self.way).args(&self.texts);
        command.envs(self.option.iter().map(|option| ("OPTION", option)));
        command.envs(self.name.iter().map(|name| ("NAME", name))).envs(self.variables.iter().copied());
        if let Some(directory) = &self.directory {
            command.current_dir(directory).env("PWD", directory);
        }
    }

    /// How often the stand-in compiled for the program in the last run.
    pub fn compiled(&self) -> usize {
        let lines = fs::read_to_string(self.folder.join("count")).unwrap_or_default();
        lines.lines().filter(|line| *line == "compiled").count()
    }

    /// Runs it without an audit. Returns what it prints.
    pub fn plain(&self) -> String {
        let mut command = Command::new("env");
        self.configure(&mut command);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout).to_owned()
    }

    /// Runs it behind the audit with these options.
    pub fn audited(&self, options: &[&str]) -> (Output, Value) {
        let json = self.folder.join("report.json");
        let mut command = simulated();
        command.arg("--json").arg(&json).args(options).arg("--");
        self.configure(&mut command);
        let output = command.output().unwrap();
        let report = fs::read(&json).unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr)));
        (output, serde_json::from_slice(&report).unwrap())
    }

    pub fn record(&self) -> (Output, Value) {
        self.audited(&["--record", self.file().to_str().unwrap()])
    }

    pub fn preload(&self) -> (Output, Value) {
        self.audited(&["--preload", self.file().to_str().unwrap()])
    }

    /// Runs it with a preload, in which something was changed. Checks that it prints what it prints without, and returns what the audit said.
    pub fn is_same_with_preload(&self) -> String {
        let (output, _) = self.preload();
        let compiled = self.compiled();
        assert_eq!(text(&output.stdout), self.plain(), "{}", text(&output.stderr));
        // The plain run has counted, too.
        fs::write(self.folder.join("count"), "compiled\n".repeat(compiled)).unwrap();
        text(&output.stderr).to_owned()
    }
}

pub const KERNEL: &str = "__global__ void k() {}";

//! Tests that what NVRTC has compiled is not compiled again, and that programs notice nothing of that. A stand-in for NVRTC counts what it compiles.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use kernel_audit::preload::{Preload, images};
use serde_json::Value;
use tests::scratch_folder;

use super::{events, simulated, text};

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/audit/nvrtc");

/// Runs the C compiler.
fn cc(arguments: &[&str]) {
    let output = Command::new("cc").args(arguments).output().expect("a C compiler");
    assert!(output.status.success(), "{}", text(&output.stderr));
}

/// Builds the stand-in of a major version in a folder, with its builtins. `build` makes builds of one version differ.
fn build(folder: &Path, major: u32, build: &str) -> PathBuf {
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
fn programs() -> &'static [PathBuf; 3] {
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
struct Client {
    folder: PathBuf,
    program: PathBuf,
    nvrtc: PathBuf,
    way: &'static str,
    texts: Vec<String>,
    option: Option<String>,
    /// The name that the client gives its programs.
    name: Option<PathBuf>,
    variables: Vec<(&'static str, &'static str)>,
    /// The working directory.
    directory: Option<PathBuf>,
}

impl Client {
    fn new(texts: &[&str]) -> Self {
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

    fn file(&self) -> PathBuf {
        self.folder.join("late.preload")
    }

    fn configure(&self, command: &mut Command) {
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
    fn compiled(&self) -> usize {
        let lines = fs::read_to_string(self.folder.join("count")).unwrap_or_default();
        lines.lines().filter(|line| *line == "compiled").count()
    }

    /// Runs it without an audit. Returns what it prints.
    fn plain(&self) -> String {
        let mut command = Command::new("env");
        self.configure(&mut command);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout).to_owned()
    }

    /// Runs it behind the audit with these options.
    fn audited(&self, options: &[&str]) -> (Output, Value) {
        let json = self.folder.join("report.json");
        let mut command = simulated();
        command.arg("--json").arg(&json).args(options).arg("--");
        self.configure(&mut command);
        let output = command.output().unwrap();
        let report = fs::read(&json).unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr)));
        (output, serde_json::from_slice(&report).unwrap())
    }

    fn record(&self) -> (Output, Value) {
        self.audited(&["--record", self.file().to_str().unwrap()])
    }

    fn preload(&self) -> (Output, Value) {
        self.audited(&["--preload", self.file().to_str().unwrap()])
    }

    /// Runs it with a preload, in which something was changed. Checks that it prints what it prints without, and returns what the audit said.
    fn is_same_with_preload(&self) -> String {
        let (output, _) = self.preload();
        let compiled = self.compiled();
        assert_eq!(text(&output.stdout), self.plain(), "{}", text(&output.stderr));
        // The plain run has counted, too.
        fs::write(self.folder.join("count"), "compiled\n".repeat(compiled)).unwrap();
        text(&output.stderr).to_owned()
    }
}

const KERNEL: &str = "__global__ void k() {}";

#[test]
fn what_was_compiled_once_is_given_back() {
    let [_, opens, linked] = programs();
    for program in [opens, linked] {
        let client = Client {
            program: program.clone(),
            option: Some("-w".to_owned()),
            ..Client::new(&[KERNEL, "int x;", KERNEL])
        };
        let plain = client.plain();
        assert_eq!(client.compiled(), 3);
        let (recorded, report) = client.record();
        assert_eq!(text(&recorded.stdout), plain, "{}", text(&recorded.stderr));
        assert_eq!(client.compiled(), 3, "{}", text(&recorded.stderr));
        assert_eq!((events(&report, "compile").len(), events(&report, "kept").len()), (3, 0));
        assert_eq!(Preload::read(&client.file()).unwrap().compiled.len(), 2);

        let (preloaded, report) = client.preload();
        assert_eq!(text(&preloaded.stdout), plain, "{}", text(&preloaded.stderr));
        assert_eq!(client.compiled(), 0, "{}", text(&preloaded.stderr));
        assert_eq!(events(&report, "kept").len(), 3);
        let took: Vec<_> =
            events(&report, "kept").iter().map(|event| event["took_ms"].as_f64().unwrap()).collect();
        assert!(took.iter().any(|took| *took < 1.0), "{took:?}");

        // What a run with a preload records has what the preload had.
        let more = Client { texts: vec!["int y;".to_owned()], ..client };
        let file = more.file();
        let file = file.to_str().unwrap();
        more.audited(&["--preload", file, "--record", file]);
        assert_eq!(more.compiled(), 1);
        assert_eq!(Preload::read(&more.file()).unwrap().compiled.len(), 3);
    }
}

#[test]
fn python_gets_what_was_kept() {
    needs_python!();
    let program = r"
import ctypes, sys
nvrtc = ctypes.CDLL(sys.argv[1])
for text in sys.argv[3:]:
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), text.encode(), None, 0, None, None) == 0
    assert nvrtc.nvrtcCompileProgram(program, 0, None) == 0
    assert nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size)) == 0
    ptx = ctypes.create_string_buffer(size.value)
    assert nvrtc.nvrtcGetPTX(program, ptx) == 0
    print(ptx.value)
";
    let mut client = Client::new(&[KERNEL]);
    let path = client.folder.join("compile.py");
    fs::write(&path, program).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    let script = format!("#!/bin/sh\nexec python3 {} \"$@\"\n", path.display());
    client.program = client.folder.join("compile");
    fs::write(&client.program, script).unwrap();
    fs::set_permissions(&client.program, Permissions::from_mode(0o755)).unwrap();
    let plain = client.plain();
    let (recorded, report) = client.record();
    assert_eq!(text(&recorded.stdout), plain, "{}", text(&recorded.stderr));
    let caller = events(&report, "compile")[0]["caller"].as_str().unwrap();
    assert!(caller.starts_with("compile.py:7 "), "{caller}");
    let (preloaded, _) = client.preload();
    assert_eq!((text(&preloaded.stdout), client.compiled()), (&*plain, 0), "{}", text(&preloaded.stderr));
}

#[test]
fn what_failed_or_is_not_known_to_be_the_same_is_compiled_each_time() {
    for (program, option, why) in [
        ("an error", None, None),
        ("int when = __TIME__;", None, Some("its text has `__TIME__`")),
        (KERNEL, Some("-DX=__DATE__"), Some("its text has `__DATE__`")),
        ("it tells the time", None, Some("another compilation of it gave another result")),
        (KERNEL, Some("--pch"), Some("its option `--pch` shares headers with other compilations")),
        ("it writes a file", None, Some("NVRTC writes the file `/dev/null` for it")),
        ("it lists files", None, Some("NVRTC calls `opendir` for it")),
    ] {
        let client = Client { option: option.map(str::to_owned), ..Client::new(&[program, program]) };
        let plain = client.plain();
        let (output, report) = client.record();
        let is_same = text(&output.stdout) == plain || program.contains("the time");
        // The time alone makes two compilations of a shadow.
        assert!(is_same && client.compiled() >= 2, "{}", text(&output.stderr));
        let compilations = events(&report, "compile");
        assert_eq!(compilations.len(), 2);
        assert_eq!(compilations[0]["remedy"], why.unwrap_or_default(), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains(why.unwrap_or_default()));
        client.preload();
        assert_eq!(client.compiled(), 2);
        assert!(Preload::read(&client.file()).unwrap().compiled.is_empty());
    }
}

/// A client whose program includes a header, from the second of two folders, and that header. The first folder does not exist.
fn including(header: &str) -> (Client, PathBuf) {
    let mut client = Client::new(&["#include \"x.h\"\n", "#include \"x.h\"\n"]);
    let folders = ["first", "second"].map(|name| client.folder.join(name));
    fs::create_dir(&folders[1]).unwrap();
    let path = folders[1].join("x.h");
    fs::write(&path, header).unwrap();
    // A file that is as new as the compilation may have changed in the meantime.
    thread::sleep(Duration::from_millis(50));
    client.option = Some(format!("-I{}", folders[1].display()));
    client.name = Some(folders[0].join("program.cu"));
    (client, path)
}

#[test]
fn what_reads_files_is_kept_as_long_as_they_are_the_same() {
    let (client, header) = including("int one;");
    let (first, program) = (header.parent().unwrap().with_file_name("first"), client.plain());
    assert!(program.contains("int one;"));
    let (output, _) = client.record();
    assert_eq!(text(&output.stdout), program, "{}", text(&output.stderr));
    let compiled = || {
        client.is_same_with_preload();
        client.compiled()
    };
    assert_eq!(compiled(), 0);
    // A file where the compiler looks first.
    fs::create_dir(&first).unwrap();
    fs::write(first.join("x.h"), "int first;").unwrap();
    thread::sleep(Duration::from_millis(50));
    assert_eq!(compiled(), 2);
    fs::remove_dir_all(&first).unwrap();
    assert_eq!(compiled(), 0);
    // Other contents of the same length, and then the same contents.
    for (contents, times) in [("int two;", 2), ("int one;", 0)] {
        fs::write(&header, contents).unwrap();
        thread::sleep(Duration::from_millis(50));
        assert_eq!(compiled(), times, "{contents}");
    }
    fs::remove_file(&header).unwrap();
    assert_eq!(compiled(), 2);
    fs::create_dir(&header).unwrap();
    assert_eq!(compiled(), 2);
}

#[test]
fn a_thread_can_be_cancelled_while_the_compiler_opens_a_file() {
    let mut client = Client::new(&[]);
    let pipe = client.folder.join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    client.way = "cancelled";
    client.texts = vec![format!("#include \"{}\"", pipe.display())];
    assert_eq!(client.plain(), "cancelled 1");
    let (output, _) = client.record();
    assert_eq!(text(&output.stdout), "cancelled 1", "{}", text(&output.stderr));
}

#[test]
fn a_header_that_tells_the_time_is_read_each_time() {
    let (client, header) = including("int when = __TIME__;");
    let (output, report) = client.record();
    let why = format!("it reads `{}`, and its text has `__TIME__`", header.display());
    assert_eq!(events(&report, "compile")[1]["remedy"], why, "{}", text(&output.stderr));
    assert_eq!(client.compiled(), 2);
}

#[test]
fn a_program_in_another_folder_is_the_same_unless_its_result_depends_on_it() {
    for (program, compiled) in [(KERNEL, 0), ("a warning\n", 1), ("it tells its length", 1)] {
        let mut client = Client::new(&[program]);
        for (name, times) in [("one", 1), ("second", compiled)] {
            let folder = client.folder.join(name);
            fs::create_dir(&folder).unwrap();
            client.name = Some(folder.join("program.cu"));
            if name == "one" {
                client.record();
                continue;
            }
            client.is_same_with_preload();
            assert_eq!(client.compiled(), times, "{program} in {name}");
        }
        client.name = client.name.map(|name| name.with_file_name("other.cu"));
        client.is_same_with_preload();
        assert_eq!(client.compiled(), 1);
    }
}

#[test]
fn another_compiler_compiles_again() {
    let mut client = Client::new(&[KERNEL]);
    client.record();
    for (major, other) in [(13, "two"), (12, "one")] {
        client.nvrtc = build(&client.folder.join(format!("{major}{other}")), major, other);
        client.is_same_with_preload();
        assert_eq!(client.compiled(), 1);
    }
}

#[test]
fn each_of_two_compilers_in_a_process_gets_its_own() {
    let folder = scratch_folder();
    let other = build(&folder, 12, "one").to_str().unwrap().to_owned();
    let client = Client { way: "both", ..Client::new(&[&other, KERNEL]) };
    let plain = client.plain();
    assert!(plain.contains("ptx 12 of") && plain.contains("ptx 13 of"), "{plain}");
    let (recorded, _) = client.record();
    assert_eq!((text(&recorded.stdout), client.compiled()), (&*plain, 2));
    let (preloaded, _) = client.preload();
    assert_eq!((text(&preloaded.stdout), client.compiled()), (&*plain, 0));
}

#[test]
fn threads_are_given_the_same_result() {
    let client = Client { way: "threads", ..Client::new(&[KERNEL]) };
    let plain = client.plain();
    assert_eq!(client.compiled(), 8);
    let (recorded, _) = client.record();
    assert_eq!((text(&recorded.stdout), client.compiled()), (&*plain, 8), "{}", text(&recorded.stderr));
    let (preloaded, _) = client.preload();
    assert_eq!((text(&preloaded.stdout), client.compiled()), (&*plain, 0), "{}", text(&preloaded.stderr));
}

#[test]
fn variables_and_the_working_directory_count_where_the_compiler_asks_for_them() {
    let program = "it tells variables";
    let with = |variables: &[(&'static str, &'static str)], client: Client| Client {
        variables: variables.to_vec(),
        ..client
    };
    let mut client = with(&[("NVRTC_AT_LOAD", "one"), ("NVRTC_VARIABLE", "two")], Client::new(&[program]));
    client.record();
    for (variables, times) in [
        (&[("NVRTC_AT_LOAD", "one"), ("NVRTC_VARIABLE", "two")][..], 0),
        (&[("NVRTC_AT_LOAD", "three"), ("NVRTC_VARIABLE", "two")], 1),
        (&[("NVRTC_AT_LOAD", "one"), ("NVRTC_VARIABLE", "three")], 1),
        (&[("NVRTC_AT_LOAD", "one")], 1),
        (&[("NVRTC_AT_LOAD", "one"), ("NVRTC_VARIABLE", "two"), ("OTHER", "x")], 0),
    ] {
        client = with(variables, client);
        client.is_same_with_preload();
        assert_eq!(client.compiled(), times, "{variables:?}");
    }

    for (program, times) in [("it tells the place", 1), (KERNEL, 0)] {
        let mut client = Client::new(&[program]);
        let folders = ["one", "second"].map(|name| client.folder.join(name));
        folders.iter().for_each(|folder| fs::create_dir(folder).unwrap());
        client.directory = Some(folders[0].clone());
        client.record();
        client.is_same_with_preload();
        assert_eq!(client.compiled(), 0, "{program}");
        client.directory = Some(folders[1].clone());
        client.is_same_with_preload();
        assert_eq!(client.compiled(), times, "{program}");
    }
}

#[test]
fn a_program_that_was_given_a_result_is_compiled_once_it_is_used_otherwise() {
    for (variable, program, times) in [("MISUSE", KERNEL, 1), ("TWICE", "it tells its history", 2)] {
        let mut client = Client::new(&[program]);
        client.record();
        client.is_same_with_preload();
        assert_eq!(client.compiled(), 0);
        client.variables = vec![(variable, "1")];
        client.is_same_with_preload();
        assert_eq!(client.compiled(), times, "{variable}");
        // Nor is the second result recorded.
        fs::remove_file(client.file()).unwrap();
        client.record();
        assert_eq!(Preload::read(&client.file()).unwrap().compiled.len(), 1);
    }
}

#[test]
fn a_forked_child_has_the_result_of_its_parent() {
    let client = Client { way: "fork", ..Client::new(&[KERNEL]) };
    let plain = client.plain();
    let (recorded, _) = client.record();
    assert_eq!(text(&recorded.stdout), plain, "{}", text(&recorded.stderr));
    let (preloaded, _) = client.preload();
    assert_eq!((text(&preloaded.stdout), client.compiled()), (&*plain, 0), "{}", text(&preloaded.stderr));
}

#[test]
fn cancelled_threads_and_callbacks_end_compilations_as_without() {
    let client = Client { way: "ends", ..Client::new(&[KERNEL]) };
    let plain = client.plain();
    let mut took = Duration::ZERO;
    for _ in 0..2 {
        let begun = Instant::now();
        let (output, _) = client.record();
        assert_eq!(text(&output.stdout), plain, "{}", text(&output.stderr));
        took = begun.elapsed();
    }
    // Nobody waits for the thread that is gone. The first run may have built the library.
    assert!(took < tests::limit(40), "{took:?}");
    let (output, _) = client.preload();
    assert_eq!(text(&output.stdout), plain, "{}", text(&output.stderr));
}

#[test]
fn libraries_that_stand_in_front_of_the_same_functions_work() {
    let client = Client::new(&[KERNEL]);
    // Sanitizers ask for the functions behind their own when these are called first.
    let source = "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <link.h>\n#include <pthread.h>\n\
        int dl_iterate_phdr(int (*see)(struct dl_phdr_info *, size_t, void *), void *data) {\n\
        static int (*next)(int (*)(struct dl_phdr_info *, size_t, void *), void *);\n\
        if (!next) next = dlsym(RTLD_NEXT, \"dl_iterate_phdr\");\n return next(see, data); }\n\
        int pthread_mutex_lock(pthread_mutex_t *lock) { static int (*next)(pthread_mutex_t *);\n\
        if (!next) next = dlsym(RTLD_NEXT, \"pthread_mutex_lock\");\n return next(lock); }\n\
        int nvrtcCompileProgram(void *program, int count, const char **options) {\n\
        int (*next)(void *, int, const char **) = dlsym(RTLD_NEXT, \"nvrtcCompileProgram\");\n\
        return next ? next(program, count, options) : -1; }\n";
    let (path, library) = (client.folder.join("front.c"), client.folder.join("front.so"));
    fs::write(&path, source).unwrap();
    cc(&["-shared", "-fPIC", "-w", "-o", library.to_str().unwrap(), path.to_str().unwrap(), "-ldl"]);
    for program in &programs()[1..] {
        let client = Client { program: program.clone(), ..Client::new(&[KERNEL, KERNEL]) };
        let plain = client.plain();
        let mut command = simulated();
        command.env("LD_PRELOAD", &library).arg("--record").arg(client.file()).arg("--");
        client.configure(&mut command);
        let output = command.output().unwrap();
        assert_eq!(text(&output.stdout), plain, "{}", text(&output.stderr));
    }
}

/// The file of the only result that a client has recorded.
fn kept_file(client: &Client) -> PathBuf {
    let files = fs::read_dir(images(&client.file())).unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<_> = files.collect();
    let [file] = &files[..] else { panic!("{files:?}") };
    file.clone()
}

#[test]
fn what_somebody_else_may_have_written_is_compiled_again() {
    let client = Client::new(&[KERNEL]);
    client.record();
    let file = kept_file(&client);
    let folder = images(&client.file());
    let again = |words: &str| {
        let said = client.is_same_with_preload();
        assert!(said.contains(words) && said.contains("compiled again"), "{words}: {said}");
        assert_eq!(client.compiled(), 1);
    };
    for (path, mode) in [(&file, 0o644), (&folder, 0o755)] {
        fs::set_permissions(path, Permissions::from_mode(0o777)).unwrap();
        again("others may write it");
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        // Only root gives files away.
        if chown(path, Some(65_534), None).is_ok() {
            again("it belongs to another user (number 65534)");
            chown(path, Some(0), None).unwrap();
        }
    }
    let whole = fs::read(&file).unwrap();
    for at in [0, 40, whole.len() / 2, whole.len() - 1] {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        fs::write(&file, &damaged).unwrap();
        again("it is not the one that was recorded");
    }
    fs::remove_file(&file).unwrap();
    again("No such file");
    fs::write(&file, &whole).unwrap();
    client.is_same_with_preload();
    assert_eq!(client.compiled(), 0, "it is used once it is as it was");
}

/// Another user has made a link in a folder of records where all may.
#[test]
fn results_do_not_go_where_another_user_says() {
    let client = Client::new(&[KERNEL]);
    let (records, elsewhere) = (client.folder.join("records"), client.folder.join("elsewhere"));
    fs::create_dir(&records).unwrap();
    fs::create_dir(&elsewhere).unwrap();
    fs::set_permissions(&records, Permissions::from_mode(0o1777)).unwrap();
    symlink(&elsewhere, records.join("images")).unwrap();
    // Only root gives links away.
    if lchown(records.join("images"), Some(65_534), None).is_ok() {
        let (output, _) = client.audited(&["--records", records.to_str().unwrap()]);
        assert_eq!(text(&output.stdout), client.plain());
        assert!(text(&output.stderr).contains("another user made it"), "{}", text(&output.stderr));
        assert_eq!(fs::read_dir(elsewhere).unwrap().count(), 0);
    }
}

#[test]
fn a_folder_that_the_next_run_would_not_trust_gets_no_results() {
    let client = Client::new(&[KERNEL]);
    fs::set_permissions(&client.folder, Permissions::from_mode(0o777)).unwrap();
    let (output, _) = client.record();
    let said = text(&output.stderr);
    assert!(said.contains("without results of NVRTC") && said.contains("others may write it"), "{said}");
    assert_eq!(text(&output.stdout), client.plain(), "{said}");
    assert!(!images(&client.file()).exists());
    assert_eq!(Preload::read(&client.file()).unwrap().compiled.len(), 0);
}

#[test]
fn a_folder_without_room_fails_nothing() {
    let client = Client::new(&[KERNEL]);
    let plain = client.plain();
    // Files of this process may have no more bytes than a record has.
    let script = client.folder.join("limited");
    fs::write(&script, "#!/bin/bash\nulimit -f 20\nexec \"$@\"\n").unwrap();
    fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
    let mut command = simulated();
    command.args(["--events", "16", "--record"]).arg(client.file()).arg("--").arg(&script);
    client.configure(&mut command);
    let output = command.output().unwrap();
    assert_eq!(text(&output.stdout), plain, "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("is not kept in"), "{}", text(&output.stderr));
}

#[test]
fn many_processes_that_are_killed_leave_whole_files() {
    let client = Client::new(&[KERNEL, "int a;", "int b;", "int c;"]);
    let script = client.folder.join("many");
    // Each is killed at another moment, but for the last ones.
    let lines = "#!/bin/bash\nfor number in $(seq 60); do timeout -s KILL 0.$(printf %03d $((number * 5))) \"$@\" >/dev/null 2>&1 & done; wait\n\"$@\"\n";
    fs::write(&script, lines).unwrap();
    fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
    let mut command = simulated();
    command.arg("--record").arg(client.file()).arg("--").arg(&script);
    client.configure(&mut command);
    let output = command.output().unwrap();
    assert_eq!(Preload::read(&client.file()).unwrap().compiled.len(), 4, "{}", text(&output.stderr));
    client.is_same_with_preload();
    assert_eq!(client.compiled(), 0);
}

#[test]
fn the_loader_is_asked_only_where_results_are_kept() {
    let client = Client::new(&[KERNEL]);
    let audits = |options: &[&str]| {
        let mut command = simulated();
        command.env("LD_AUDIT", "").args(options).args(["--", "sh", "-c", "echo $LD_AUDIT"]);
        text(&command.output().unwrap().stdout).to_owned()
    };
    let file = client.file();
    assert_eq!(audits(&[]), "");
    let value = audits(&["--record", file.to_str().unwrap()]);
    assert!(value.starts_with('/') && value.ends_with("/libkernel_registry_auditor.so"), "{value}");
    fs::write(&file, "kernel-registry preload 1\nstack 1024\n").unwrap();
    assert_eq!(audits(&["--preload", file.to_str().unwrap()]), "");
    let (output, report) = client.audited(&[]);
    assert_eq!((client.compiled(), events(&report, "compile").len()), (1, 0), "{}", text(&output.stderr));
}

#[test]
fn other_names_are_found_as_without_the_library() {
    let folder = scratch_folder();
    let source = "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <stdio.h>\n\
        int puts(const char *text) { int (*next)(const char *) = dlsym(RTLD_NEXT, \"puts\"); return next && next != puts ? next(text) : 9; }\n\
        int main(void) { int (*own)(const char *) = dlsym(RTLD_DEFAULT, \"puts\"); puts(\"found\"); char *none = dlsym(RTLD_DEFAULT, \"n\");\n\
        return own != puts || none || !dlerror() || dlsym(RTLD_DEFAULT, \"nvrtcNothing\") || dlsym(RTLD_DEFAULT, \"nvrtcCompileProgram\"); }\n";
    let (path, program) = (folder.join("next.c"), folder.join("next"));
    fs::write(&path, source).unwrap();
    cc(&["-rdynamic", "-w", "-o", program.to_str().unwrap(), path.to_str().unwrap(), "-ldl"]);
    let mut command = simulated();
    command.arg("--record").arg(folder.join("x.preload")).arg("--").arg(&program);
    let output = command.output().unwrap();
    assert_eq!(text(&output.stdout), "found", "{}", text(&output.stderr));
    assert!(!text(&output.stderr).contains("exit code"), "{}", text(&output.stderr));
}

#[test]
fn a_program_with_a_shared_address_sanitizer_starts() {
    let mut client = Client::new(&[KERNEL, KERNEL]);
    client.program = client.folder.join("sanitized");
    let program = client.program.to_str().unwrap();
    let source = format!("{SOURCES}/client.c");
    let compiler =
        Command::new("cc").args(["-fsanitize=address", "-o", program, &source, "-ldl", "-lpthread"]).output();
    if !compiler.unwrap().status.success() {
        eprintln!("left out: the C compiler has no AddressSanitizer");
        return;
    }
    let plain = client.plain();
    let (recorded, _) = client.record();
    assert_eq!((text(&recorded.stdout), client.compiled()), (&*plain, 2), "{}", text(&recorded.stderr));
}

#[test]
fn children_that_outlive_the_command_find_the_library() {
    let client = Client::new(&[]);
    let said = client.folder.join("said");
    let child = format!(
        "(while kill -0 $PPID; do sleep 0.1; done; sh -c 'echo $LD_AUDIT'; echo done) >{} 2>&1 &",
        said.display()
    );
    let mut command = simulated();
    command.arg("--record").arg(client.file()).args(["--", "sh", "-c", &child]);
    let output = command.output().unwrap();
    let said = || fs::read_to_string(&said).unwrap_or_default();
    for _ in 0..100 {
        if said().ends_with("done\n") {
            break;
        }
        thread::sleep(Duration::from_millis(100));
    }
    assert!(!said().contains("ld.so"), "{} {}", said(), text(&output.stderr));
    let lines = said();
    let library = lines.lines().find(|line| line.ends_with("libkernel_registry_auditor.so")).expect(&lines);
    let mode = Path::new(library).parent().unwrap().metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o755, "{library}");
}

//! Tests `kernel-audit dump`: with core dumps of a real GPU, and with a program in the place of cuda-gdb.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tests::{are_documented, cargo_kernels_command, fails, scratch_folder};

/// Returns the path of a core dump.
fn core(name: &str) -> PathBuf {
    let packed = Path::new("../kernel-registry-image/tests/dumps").join(name).with_extension("zst");
    let packed = fs::read(packed).expect("a dump");
    let mut unpacked = Vec::new();
    let mut decoder = ruzstd::decoding::StreamingDecoder::new(&*packed).expect("a header");
    decoder.read_to_end(&mut unpacked).expect("a whole file");
    tests::file("core", &unpacked)
}

fn dump() -> Command {
    let mut command = cargo_kernels_command();
    command.args(["audit", "dump"]);
    command
}

fn printed(command: &mut Command) -> String {
    let output = command.output().expect("the tool runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn a_core_dump_is_described() {
    for (name, expected) in [
        (
            "barrier",
            "GPU 0: NVIDIA H200 (sm_90)

  barrier_of_blocks: 140 blocks of 32 threads
    132 of 140 blocks are resident on 132 multiprocessors, none has ended, and 8 wait for room: if the resident ones wait for these, as in a barrier of the whole grid, the kernel never ends
    4092 threads at spins.cu:56 in barrier_of_blocks
     129 threads at spins.cu:52 in barrier_of_blocks
       3 threads at spins.cu:20 in now, inlined at :49 in barrier_of_blocks
",
        ),
        (
            "flag",
            "GPU 0: NVIDIA H200 (sm_90)

  waits_for_flag: 4 blocks of 64 threads
    all 4 blocks are resident
    128 threads at spins.cu:26 in wait_for, inlined at :35 in wait_until_set, called at :41 in waits_for_flag
    128 threads at spins.cu:26 in wait_for, inlined at :43 in waits_for_flag
",
        ),
        (
            "assert",
            "GPU 0: NVIDIA H200 (sm_90)

  asserts: 2 blocks of 64 threads
    all 2 blocks are resident
    FAULT: an assert that failed by thread (7,0,0) of block (0,0,0), at spins.cu:81 in asserts
    FAULT: an assert that failed by thread (7,0,0) of block (1,0,0), at spins.cu:81 in asserts
    2 threads at spins.cu:81 in asserts
",
        ),
    ] {
        assert_eq!(printed(dump().arg("--core").arg(core(name))), expected, "{name}");
    }
}

#[test]
fn the_json_is_documented() {
    let json = printed(dump().arg("--json").arg("--core").arg(core("assert")));
    let json: Value = serde_json::from_str(&json).expect("JSON");
    let kernel = &json["kernels"][0];
    let (place, fault) = (&kernel["places"][0], &kernel["faults"][0]);
    assert_eq!((&kernel["name"], &kernel["resident"]), (&"asserts".into(), &2.into()));
    assert_eq!(
        (&fault["exception"], &fault["frames"][0]["line"]),
        (&"an assert that failed".into(), &81.into())
    );
    are_documented(
        &[&json, &json["devices"][0], kernel, place, fault, &place["frames"][0]],
        include_str!("../../docs/dump-json.md"),
    );
}

#[test]
fn other_files_are_refused() {
    let said =
        fails(dump().arg("--core").arg(tests::file("core", b"no dump")).output().expect("the tool runs"), 6);
    assert!(said.contains("not a core dump of a GPU"), "{said}");
    let said = fails(dump().args(["--core", "missing"]).output().expect("the tool runs"), 3);
    assert!(said.contains("`missing`"), "{said}");
}

/// Loads the library that its argument names, and runs until its input ends. Started by root, it's another user's.
const PROGRAM: &str = "
import ctypes, os, sys
for library in sys.argv[1:]:
    ctypes.CDLL(library)
if os.getuid() == 0 and open('/proc/self/uid_map').read().split()[2] != '1':
    os.setgid(65534)
    os.setuid(65534)
ctypes.CDLL(None).prctl(0x59616d61, ctypes.c_long(-1), 0, 0, 0)
ctypes.CDLL(None).prctl(15, b'w\\xfcr', 0, 0, 0)
print('runs', flush=True)
sys.stdin.read()
print('ends', flush=True)
";

/// Returns a folder to which other users may write.
fn open_folder() -> PathBuf {
    let folder = scratch_folder();
    fs::set_permissions(&folder, Permissions::from_mode(0o777)).expect("our folder");
    folder
}

/// Returns the path of a library with the driver's name.
fn driver() -> PathBuf {
    let library = scratch_folder().join("libcuda.so.1");
    let built = Command::new("cc").args(["-shared", "-xc", "/dev/null", "-o"]).arg(&library).status();
    assert!(built.expect("cc runs").success());
    library
}

/// Shell code of a fake cuda-gdb: extracts the quoted path of the core file from the sixth argument.
const FILE: &str = r#"file=$(printf %s "$6" | sed 's/.*core-file "\(.*\)"$/\1/; s/\\\(.\)/\1/g')"#;

/// A program that runs until it's dropped.
struct Running(Child);

impl Running {
    /// Starts a program that has mapped a library with the driver's name, or not.
    fn new(has_driver: bool, temporary: &Path) -> Self {
        let mut python = Command::new("python3");
        python.arg(tests::file("program.py", PROGRAM.as_bytes())).args(has_driver.then(driver));
        Self::spawn(python.env("TMPDIR", temporary))
    }

    /// Starts a program that says so when it runs, and runs until its input ends.
    fn spawn(command: &mut Command) -> Self {
        let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut its = Running(started.expect("it starts"));
        assert_eq!(its.line(), "runs\n");
        its
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        BufReader::new(self.0.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("a line");
        line
    }

    fn number(&self) -> String {
        self.0.id().to_string()
    }

    fn signal(&self, name: &str) {
        assert!(Command::new("kill").args([name, &self.number()]).status().expect("kill runs").success());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns a folder with a program called `cuda-gdb`.
fn debugger(script: &str) -> PathBuf {
    let folder = scratch_folder();
    let file = folder.join("cuda-gdb");
    fs::write(&file, format!("#!/bin/sh\n{script}\n")).expect("a file");
    fs::set_permissions(&file, Permissions::from_mode(0o755)).expect("our file");
    folder
}

/// The debugger lets the process write the core dump, so the process's user owns the folder.
#[test]
fn a_process_is_joined_by_cuda_gdb() {
    let temporary = scratch_folder().join(r#"a "strange" \folder"#);
    fs::create_dir(&temporary).expect("a folder");
    fs::set_permissions(&temporary, Permissions::from_mode(0o777)).expect("our folder");
    let mut program = Running::new(true, &temporary);
    let folder = debugger(&format!(
        r#"[ "$1 $2 $3 $4 $5" = "-nx -batch -p {} -ex" ] && [ "${{10}}" = detach ] && [ "$TMPDIR" = "{}" ] || exit 1
{FILE}
[ "$(stat -c %u%a "${{file%/core}}")" = $(sed -n 's/^Uid:.*\t//p' /proc/$4/status)700 ] && cp {} "$file""#,
        program.number(),
        temporary.display().to_string().replace('\\', r"\\").replace('"', r#"\""#),
        core("flag").display()
    ));
    let text =
        printed(dump().arg(program.number()).env("PATH", format!("{}:/usr/bin:/bin", folder.display())));
    assert!(text.starts_with(&format!("process {}: ", program.number())), "{text}");
    assert!(text.contains("/program.py ") && text.contains("\n  waits_for_flag: 4 blocks"), "{text}");
    assert_eq!(fs::read_dir(&temporary).expect("a folder").count(), 0, "the core dump is removed");
    drop(program.0.stdin.take());
    assert_eq!(program.line(), "ends\n");
}

fn has_gdb() -> bool {
    let version = Command::new("gdb").arg("--version").stdout(Stdio::null()).status();
    let has = version.is_ok_and(|status| status.success());
    if !has {
        tests::left_out("there is no gdb", "REQUIRE_GDB");
    }
    has
}

/// Debian's gdb, in the place of cuda-gdb, reads the stacks, and a program in the place of py-spy Python's frames.
#[test]
fn threads_have_the_stacks_of_gdb_and_py_spy() {
    if !has_gdb() {
        return;
    }
    let temporary = open_folder();
    let program = Running::new(true, &temporary);
    let number = program.number();
    let folder = debugger(&format!(
        "{FILE}\ncp {} \"$file\"\nexec gdb -nx -batch -p $4 -ex \"$8\" -ex detach",
        core("flag").display()
    ));
    let look = |more: &[&str]| {
        let path = format!("{}:/usr/bin:/bin", folder.display());
        printed(dump().args(more).arg(&number).env("PATH", path))
    };
    let text = look(&[]);
    let (_, thread) = text.split_once(&format!("\nthread {number}")).expect("a thread");
    // It waits for its input, in the C library.
    assert!(thread.lines().nth(1).is_some_and(|line| line.ends_with("read")), "{text}");
    assert!(text.contains("\nPython's lines come from py-spy: `pip install py-spy`\n"), "{text}");

    let spied = serde_json::json!([{
        "pid": 1, "thread_id": 7, "thread_name": "MainThread", "os_thread_id": program.0.id(), "active": true,
        "frames": [{ "name": "<module>", "filename": "/srv/program.py", "line": 10, "module": null }],
    }]);
    let script = format!("#!/bin/sh\n[ \"$*\" = \"dump --json --pid {number}\" ] && echo '{spied}'\n");
    fs::write(folder.join("py-spy"), script).expect("a file");
    fs::set_permissions(folder.join("py-spy"), Permissions::from_mode(0o755)).expect("our file");
    let text = look(&[]);
    assert!(text.contains(&format!("\nthread {number} MainThread\n")), "{text}");
    assert!(text.ends_with("\n  program.py:10 <module>\n"), "{text}");
    let json: Value = serde_json::from_str(&look(&["--json"])).expect("JSON");
    let thread = &json["threads"][0];
    assert_eq!((&thread["number"], &thread["name"]), (&program.0.id().into(), &"MainThread".into()));
    let frames = thread["frames"].as_array().expect("functions");
    assert!(frames.len() > 1 && frames[0]["library"].is_string(), "{frames:?}");
    are_documented(&[thread, &frames[0]], include_str!("../../docs/dump-json.md"));
}

/// A container has folders of its own.
#[test]
fn a_process_in_another_mount_namespace_is_joined() {
    if !Command::new("unshare").args(["-rm", "true"]).status().is_ok_and(|status| status.success()) {
        return tests::left_out("a mount namespace needs `unshare -rm`", "REQUIRE_ROOT");
    }
    let (inside, script) = (scratch_folder(), tests::file("program.py", PROGRAM.as_bytes()));
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", r#"for its in "$TMPDIR" /var/tmp /dev/shm; do mount -t tmpfs none "$its" || exit; done; exec python3 "$0" "$1""#]);
    let program = Running::spawn(command.arg(script).arg(driver()).env("TMPDIR", &inside));
    let folder =
        debugger(&format!("{FILE}\n[ ! -e \"$file\" ] && cp {} /proc/$4/root$file", core("flag").display()));
    let text =
        printed(dump().arg(program.number()).env("PATH", format!("{}:/usr/bin:/bin", folder.display())));
    assert!(text.contains("\n  waits_for_flag: 4 blocks"), "{text}");
    assert_eq!(fs::read_dir(&inside).expect("a folder").count(), 0, "nothing is left outside");
}

#[test]
fn a_process_that_cannot_be_joined_is_refused_in_words() {
    let fails_for = |number: &str, debugger: &Path| {
        let path = format!("{}:/usr/bin:/bin", debugger.display());
        fails(
            dump().arg(number).env("PATH", path).env_remove("CUDA_HOME").output().expect("the tool runs"),
            1,
        )
    };
    let never = debugger("touch \"$0.ran\"; exit 1");
    let temporary = scratch_folder();
    let (with, without) = (Running::new(true, &temporary), Running::new(false, &temporary));
    let said = fails_for("4194304", &never);
    assert!(said.contains("there is no such process"), "{said}");
    let said = fails_for(&without.number(), &never);
    assert!(said.contains("it has not loaded the driver"), "{said}");
    with.signal("-STOP");
    let said = fails_for(&with.number(), &never);
    assert!(said.contains(&format!("it is stopped: `kill -CONT {}`", with.number())), "{said}");
    with.signal("-CONT");
    without.signal("-KILL");
    let ended = || fails_for(&without.number(), &never).contains("it has ended");
    assert!((0..50).any(|_| ended()), "a zombie");
    assert!(!never.join("cuda-gdb.ran").exists(), "cuda-gdb doesn't run");

    // cuda-gdb goes on after an error.
    let refuses = debugger(
        r#"echo "warning: of no use
ptrace: Operation not permitted.
You can't do that without a process to debug.
Python scripting is not supported in this copy of GDB.
The program is not being run." >&2; exit 1"#,
    );
    let said = fails_for(&with.number(), &refuses);
    let why = "cuda-gdb wrote no core dump: ptrace: Operation not permitted. You may not debug this process: run this as root";
    assert!(said.contains(why), "{said}");
    if !Path::new("/usr/local/cuda/bin/cuda-gdb").exists() {
        let said = fails_for(&with.number(), Path::new("/nowhere"));
        assert!(said.contains("neither in `PATH` nor in `CUDA_HOME`"), "{said}");
    }
}

fn wait_until(what: &str, is_so: &dyn Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < tests::limit(10), "{what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// A process is halted as long as a debugger has joined it.
#[test]
fn the_debugger_ends_with_the_command() {
    let temporary = open_folder();
    let program = Running::new(true, &temporary);
    let folder = debugger("echo $$ >\"$0.number\"; exec sleep 60");
    let mut command = dump();
    let path = format!("{}:/usr/bin:/bin", folder.display());
    let mut joins = command.arg(program.number()).env("PATH", path).spawn().expect("the tool runs");
    let number = folder.join("cuda-gdb.number");
    let debugger = || fs::read_to_string(&number).ok()?.trim().parse::<u32>().ok();
    wait_until("the debugger starts", &|| debugger().is_some());
    let debugger = PathBuf::from(format!("/proc/{}", debugger().expect("a number")));
    assert!(debugger.exists());
    assert!(Command::new("kill").arg(joins.id().to_string()).status().expect("kill runs").success());
    assert_eq!(joins.wait().expect("it ends").code(), Some(128 + 15));
    assert_eq!(fs::read_dir(&temporary).expect("a folder").count(), 0, "nothing is left");
    // Some containers have no process that reaps it. A zombie has no command line.
    let runs = || fs::read(debugger.join("cmdline")).is_ok_and(|line| !line.is_empty());
    wait_until("the debugger ends", &|| !runs());
}

/// A debugger halts a process for longer than a call may take.
#[test]
fn the_time_in_which_a_process_is_halted_is_no_hang() {
    let program = tests::file("spins.py", SPINS.as_bytes());
    let mut command = cargo_kernels_command();
    command.args(["audit", "--sim", "--hang-after", "0.3", "--on-hang", "abort", "--quiet", "python3"]);
    let audited = command.arg(&program).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut audited = Running(audited.spawn().expect("the tool runs"));
    let number = audited.line().trim().to_owned();
    let signal = |name: &str| {
        assert!(Command::new("kill").args([name, &number]).status().is_ok_and(|it| it.success()))
    };
    thread::sleep(Duration::from_millis(300));
    signal("-STOP");
    thread::sleep(Duration::from_secs(4));
    signal("-CONT");
    // The watching thread has looked before the call returns.
    thread::sleep(Duration::from_millis(300));
    drop(audited.0.stdin.take());
    assert_eq!(audited.line(), "ended\n");
}

/// A debugger that is terminated leaves the process stopped.
#[test]
fn a_process_goes_on_when_the_look_is_ended() {
    if !has_gdb() {
        return;
    }
    for signal in ["-TERM", "-INT", "-KILL"] {
        let mut program = Running::new(true, &open_folder());
        let folder = debugger(
            "exec gdb -nx -batch -p $4 -ex \"python import time; open('$0.joined', 'w'); time.sleep(60)\" -ex detach",
        );
        let mut command = dump();
        let path = format!("{}:/usr/bin:/bin", folder.display());
        let joins = command.arg(program.number()).env("PATH", path).stderr(Stdio::null()).spawn();
        let mut joins = Running(joins.expect("the tool runs"));
        let status = PathBuf::from(format!("/proc/{}/status", program.number()));
        let status = || {
            let status = fs::read(&status).expect("it runs");
            let status = String::from_utf8_lossy(&status).into_owned();
            let field = |name| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim_start);
            (field("TracerPid:").map(str::to_owned), field("State:").map(str::to_owned))
        };
        wait_until("gdb joins", &|| folder.join("cuda-gdb.joined").exists());
        joins.signal(signal);
        joins.0.wait().expect("it ends");
        wait_until("gdb leaves", &|| status().0.as_deref() == Some("0"));
        wait_until("it isn't stopped", &|| status().1.is_some_and(|state| !state.starts_with(['T', 't'])));
        drop(program.0.stdin.take());
        assert_eq!(program.line(), "ends\n");
    }
}

#[test]
fn a_process_that_ends_meanwhile_is_described_all_the_same() {
    let temporary = open_folder();
    let program = Running::new(true, &temporary);
    let script = format!("{FILE}\ncp {} \"$file\"; kill -KILL $4; sleep 0.2", core("flag").display());
    let path = format!("{}:/usr/bin:/bin", debugger(&script).display());
    let text = printed(dump().arg(program.number()).env("PATH", path));
    assert!(text.contains("\n  waits_for_flag: 4 blocks"), "{text}");
    assert_eq!(fs::read_dir(&temporary).expect("a folder").count(), 0, "nothing is left");
}

/// Launches a kernel that spins until a thread sets a word, and waits for it.
const SPINS: &str = r#"
import ctypes, os, select, sys, threading
cuda = ctypes.CDLL("libcuda.so.1")
def check(result): assert result == 0, result
PTX = b""".version 8.0
.target sm_75
.address_size 64
.visible .entry _Z14waits_for_flagPjS_y(.param .u64 flag) {
.reg .pred %p; .reg .b32 %r; .reg .b64 %a;
ld.param.u64 %a, [flag];
again: ld.volatile.global.u32 %r, [%a];
setp.eq.u32 %p, %r, 0;
@%p bra again;
ret; }
"""
context, module, kernel, stream, host = (ctypes.c_void_p() for _ in range(5))
check(cuda.cuInit(0))
check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
check(cuda.cuCtxSetCurrent(context))
check(cuda.cuStreamCreate(ctypes.byref(stream), 1))
check(cuda.cuMemHostAlloc(ctypes.byref(host), ctypes.c_size_t(4), 2))
word = ctypes.c_uint32.from_address(host.value)
word.value = 0
check(cuda.cuModuleLoadData(ctypes.byref(module), PTX))
check(cuda.cuModuleGetFunction(ctypes.byref(kernel), module, b"_Z14waits_for_flagPjS_y"))
argument = ctypes.c_uint64(host.value)
arguments = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.pointer(argument), ctypes.c_void_p))
check(cuda.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments, None))
def end():
    select.select([sys.stdin], [], [], 60)
    word.value = 1
threading.Thread(target=end).start()
print(os.getpid(), flush=True)
check(cuda.cuStreamSynchronize(stream))
print("ended", flush=True)
"#;

#[test]
fn a_process_behind_the_audit_says_which_call_waits_and_who_loaded_the_kernel() {
    let program = tests::file("spins.py", SPINS.as_bytes());
    let mut command = cargo_kernels_command();
    command.args(["audit", "--sim", "--hang-after", "0.3", "--quiet", "python3"]).arg(&program);
    let audited = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut audited = Running(audited.expect("the tool runs"));
    let number = audited.line().trim().to_owned();
    let folder = debugger(&format!("{FILE}\ncp {} \"$file\"", core("flag").display()));
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").expect("a path"));
    let look = || printed(dump().arg(&number).env("PATH", &path));
    let name = program.file_name().expect("a name").to_string_lossy();
    let call = format!("thread {number}: in `cuStreamSynchronize` for about");
    let caller = format!(", called by {name}:34 <module>");
    let found = (0..50).map(|_| look()).find(|text| text.contains(&call) && text.contains(&caller));
    let text = found.unwrap_or_else(look);
    assert!(text.contains(&call) && text.contains(&caller), "{text}");
    assert!(
        text.contains(&format!("\n  waits_for_flag: 4 blocks of 64 threads, loaded by {name}:25 <module>\n")),
        "{text}"
    );
    drop(audited.0.stdin.take());
    let mut said = String::new();
    audited.0.stderr.take().expect("a pipe").read_to_string(&mut said).expect("UTF-8");
    assert!(!said.contains(" dump "), "the simulated driver has no GPU: {said}");
}

/// Without `--sim`, the command takes the simulated driver for another.
#[test]
fn a_kernel_that_never_ends_is_looked_at_before_the_program_is_ended() {
    let program = tests::file("spins.py", SPINS.as_bytes());
    let run = |script: &str| {
        let (tool, folder) = (cargo_kernels_command(), debugger(script));
        let mut command = cargo_kernels_command();
        command.arg("sim").arg(tool.get_program()).args(tool.get_args());
        command.args(["audit", "--hang-after", "0.5", "--on-hang", "abort", "--quiet", "python3"]);
        let path = format!("{}:{}", folder.display(), std::env::var("PATH").expect("a path"));
        command.arg(&program).env("PATH", path).stdin(Stdio::piped());
        let started = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the tool runs");
        // The program's input ends when the test does.
        let mut running = Running(started);
        let (number, mut said) = (running.line().trim().to_owned(), String::new());
        running.0.stderr.take().expect("a pipe").read_to_string(&mut said).expect("UTF-8");
        let joined = fs::read_to_string(folder.join("cuda-gdb.number")).unwrap_or_default();
        assert_eq!(joined, format!("{number}\n").repeat(joined.lines().count()), "{said}");
        (said, joined.lines().count())
    };
    let noted = r#"echo $4 >>"$0.number""#;
    let (said, times) = run(&format!("{noted}\n{FILE}\ncp {} \"$file\"", core("flag").display()));
    let look = "\nkernel-audit: what the GPUs do\nprocess ";
    assert!(said.contains(look) && said.contains("\n  waits_for_flag: 4 blocks of 64 threads"), "{said}");
    assert_eq!(times, 1);
    let (said, times) = run(&format!("{noted}\necho ptrace: Operation not permitted. >&2"));
    assert!(said.contains("cuda-gdb wrote no core dump: ptrace: Operation not permitted."), "{said}");
    assert_eq!(times, 1);
}

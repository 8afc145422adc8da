//! Tests that the command is a parent process as a shell is: the program has the same signals, parent and children as without the
//! command.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tests::{cargo_kernels_command, left_out, scratch_folder};

use super::others::packed;
use super::{audit, has_python, python, simulated, text};

#[test]
fn signals_that_are_ignored_or_blocked_stay_so() {
    // Returns the ignored signals and the blocked signals of the program, as bits.
    let seen = |changes: fn() -> io::Result<()>| {
        let mut command = packed();
        // SAFETY: `changes` makes only calls that are allowed after a fork.
        unsafe { command.pre_exec(changes) };
        let output = command.args(["cat", "/proc/self/status"]).output().expect("the tool runs");
        let status = text(&output.stdout);
        ["SigIgn:", "SigBlk:"].map(|name| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a line");
            u64::from_str_radix(line.trim(), 16).expect("a number")
        })
    };
    let bit = |signal: i32| 1_u64 << (signal - 1);
    let [ignored, blocked] = seen(|| {
        // SAFETY: these calls fill in the set of signals, which is plain numbers, and change this process only.
        unsafe {
            let mut set = std::mem::zeroed();
            libc::sigaddset(&mut set, libc::SIGUSR2);
            libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
            for signal in [libc::SIGHUP, libc::SIGPIPE, libc::SIGCHLD] {
                libc::signal(signal, libc::SIG_IGN);
            }
        }
        Ok(())
    });
    let given = [libc::SIGHUP, libc::SIGPIPE, libc::SIGCHLD].map(bit).iter().sum::<u64>();
    let ours = given | bit(libc::SIGINT) | bit(libc::SIGTERM);
    assert_eq!(ignored & ours, given, "{ignored:x}");
    assert_eq!(blocked, bit(libc::SIGUSR2), "{blocked:x}");
    let [ignored, blocked] = seen(|| {
        // Tests can be run by a command that ignores signals, such as nohup.
        for signal in [libc::SIGHUP, libc::SIGPIPE, libc::SIGCHLD, libc::SIGINT, libc::SIGTERM] {
            // SAFETY: the call changes this process only.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        Ok(())
    });
    assert_eq!((ignored & ours, blocked), (0, 0));
}

/// `docker stop` and supervisors of services send a signal to the command alone.
#[test]
fn a_signal_to_the_command_alone_reaches_the_program() {
    for signal in ["INT", "TERM", "QUIT"] {
        let waits = "for i in 1 2 3 4 5 6 7 8 9 10; do sleep 1; done; echo nothing";
        let program = format!("trap 'echo got; exit 3' {signal}; kill -{signal} $PPID; {waits}");
        let (output, _) = audit(&[], &["sh", "-c", &program]);
        assert_eq!(
            (output.status.code(), text(&output.stdout)),
            (Some(3), "got"),
            "{signal}: {}",
            text(&output.stderr)
        );
    }
}

/// A terminal sends SIGINT to all processes of the foreground, so the command must not pass the signal on.
#[test]
fn ctrl_c_reaches_the_program_once() {
    needs_python!();
    let program = "
import signal, time
times = []
def handler(*_):
    times.append(time.time())
    print('got it', flush=True)
signal.signal(signal.SIGINT, handler)
print('press', flush=True)
end = time.time() + 30
while not times and time.time() < end: time.sleep(0.1)
# A second signal would come at once.
time.sleep(1)
";
    let terminal = "
import os, pty, sys
process, terminal = pty.fork()
if process == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
seen, pressed = b'', False
while True:
    try: data = os.read(terminal, 4096)
    except OSError: break
    if not data: break
    seen += data
    if b'press' in seen and not pressed:
        os.write(terminal, b'\\x03')
        pressed = True
os.waitpid(process, 0)
print(seen.count(b'got it'))
";
    let audit = simulated();
    let mut command = Command::new("python3");
    command.args(["-c", terminal]).arg(audit.get_program()).args(audit.get_args());
    let output = command.args(["python3", "-c", program]).output().expect("it runs");
    assert_eq!(text(&output.stdout), "1", "{}", text(&output.stderr));
}

#[test]
fn a_process_whose_parent_ended_is_no_child_of_the_command() {
    needs_python!();
    let program = "
import os, time
command = os.getppid()
reads, writes = os.pipe()
child = os.fork()
if child == 0:
    child = os.getpid()
    if os.fork() > 0: os._exit(0)
    end = time.time() + 20
    while os.getppid() == child and time.time() < end: time.sleep(0.01)
    os.write(writes, b'the command' if os.getppid() == command else b'another')
    os._exit(0)
os.waitpid(child, 0)
print(os.read(reads, 100).decode())
";
    let (output, _) = audit(&[], &["python3", "-c", program]);
    assert_eq!(text(&output.stdout), "another", "{}", text(&output.stderr));
}

/// In a container the command may be the first process, which becomes the parent of processes whose parent has ended.
#[test]
fn children_of_others_that_end_are_waited_for() {
    let own = Command::new("unshare").args(["--pid", "--fork", "--mount-proc", "true"]).status();
    if !has_python() || !own.is_ok_and(|status| status.success()) {
        return left_out("a first process needs `unshare`, as root, and python3", "REQUIRE_ROOT");
    }
    let program = "
import os, time
for _ in range(20):
    child = os.fork()
    if child == 0:
        os.fork()
        os._exit(0)
    os.waitpid(child, 0)
end, zombies = time.time() + 10, 1
while zombies > 0 and time.time() < end:
    time.sleep(0.05)
    numbers = [int(name) for name in os.listdir('/proc') if name.isdigit()]
    zombies = sum(open(f'/proc/{number}/stat').read().rsplit(')', 1)[1].split()[0] == 'Z' for number in numbers)
print(os.getppid(), zombies)
";
    let audit = simulated();
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--mount-proc"]).arg(audit.get_program()).args(audit.get_args());
    let output = command.args(["python3", "-c", program]).output().expect("it runs");
    assert_eq!(text(&output.stdout), "1 0", "{}", text(&output.stderr));
}

/// Waits until a condition is true.
fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < tests::limit(60), "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Returns a Python program that creates the file `begun`, and then waits for another file.
fn waits_for(folder: &Path) -> String {
    python(&format!(
        "
import time
open({begun:?}, 'w').close()
end = time.time() + 60
while not os.path.exists({goes_on:?}) and time.time() < end: time.sleep(0.02)
",
        begun = folder.join("begun"),
        goes_on = folder.join("go-on"),
    ))
}

#[test]
fn a_watch_waits_for_others_than_those_that_have_ended() {
    needs_python!();
    let (records, signs) = (scratch_folder(), scratch_folder());
    let run = |program: &str| {
        let mut command = simulated();
        command.arg("--records").arg(&records).args(["python3", "-c", program]).stderr(Stdio::null());
        command.spawn().expect("it runs")
    };
    assert!(run(&python("")).wait().expect("it ended").success());
    let mut watching = cargo_kernels_command();
    watching.args(["audit", "watch"]).arg(&records).stderr(Stdio::piped());
    let mut watching = watching.spawn().expect("it runs");
    let mut said = String::new();
    let mut stderr = BufReader::new(watching.stderr.take().expect("it is piped"));
    stderr.read_line(&mut said).expect("text");
    assert!(said.contains("`merge` reports on these"), "{said}");
    thread::sleep(Duration::from_millis(600));
    assert!(watching.try_wait().expect("it is ours").is_none(), "what ended before is not watched");

    let mut running = run(&waits_for(&signs));
    eventually("it begins", || signs.join("begun").exists());
    thread::sleep(Duration::from_millis(800));
    assert!(watching.try_wait().expect("it is ours").is_none(), "the other one runs");
    fs::write(signs.join("go-on"), "").expect("a file");
    assert!(running.wait().expect("it ended").success());
    assert!(watching.wait().expect("it ended").success(), "nothing hung");
}

/// `docker pause` or a debugger can stop a process for longer than a running process goes without a sign of life.
#[test]
fn a_process_that_is_stopped_has_not_ended() {
    needs_python!();
    let (records, signs) = (scratch_folder(), scratch_folder());
    let mut running = simulated();
    running.arg("--records").arg(&records).args(["python3", "-c", &waits_for(&signs)]).stderr(Stdio::null());
    let mut running = running.spawn().expect("it runs");
    eventually("it begins", || signs.join("begun").exists());
    let mut watching = cargo_kernels_command();
    let mut watching = watching.args(["audit", "watch"]).arg(&records).spawn().expect("it runs");
    thread::sleep(Duration::from_secs(2));
    let mut names = fs::read_dir(&records).expect("a folder").map(|entry| entry.expect("a file").file_name());
    let record = names.find_map(|name| name.into_string().ok().filter(|name| name.ends_with(".rec")));
    let record = record.expect("a record");
    let process = record.split('.').next().expect("a number");
    let send =
        |signal: &str| Command::new("kill").args([signal, process]).status().expect("it runs").success();
    assert!(send("-STOP"));
    thread::sleep(Duration::from_secs(12));
    let watched = watching.try_wait().expect("it is ours");
    fs::write(signs.join("go-on"), "").expect("a file");
    assert!(send("-CONT"));
    assert!(watched.is_none(), "it is stopped");
    assert!(running.wait().expect("it ended").success());
    assert!(watching.wait().expect("it ended").success(), "nothing hung");
}

#[test]
fn commands_that_share_a_folder_of_records_report_on_their_own() {
    needs_python!();
    let (records, signs) = (scratch_folder(), scratch_folder());
    let folder = records.to_str().expect("UTF-8");
    let clean = waits_for(&signs);
    let late = python("cuda.kernel_registry_audit_ready()\nassert launch(library, b'late') == 0");
    thread::scope(|scope| {
        let one = scope.spawn(|| audit(&["--records", folder], &["python3", "-c", &clean]));
        eventually("it begins", || signs.join("begun").exists());
        let (other, report) = audit(&["--records", folder], &["python3", "-c", &late]);
        assert_eq!(other.status.code(), Some(12), "{}", text(&other.stderr));
        assert_eq!(report["processes"].as_array().map(Vec::len), Some(1), "{report:#}");
        fs::write(signs.join("go-on"), "").expect("a file");
        let (one, report) = one.join().expect("it ended");
        assert!(one.status.success(), "{}", text(&one.stderr));
        assert_eq!(report["processes"].as_array().map(Vec::len), Some(1), "{report:#}");
    });
    let merged = cargo_kernels_command()
        .args(["audit", "merge", "--fail-on-findings", folder])
        .output()
        .expect("the tool runs");
    assert!(text(&merged.stdout).contains("AUDIT of process") && merged.status.code() == Some(12));
}

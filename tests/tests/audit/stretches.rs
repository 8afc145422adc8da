//! Tests `--first`: the report says where the time of a stretch went, and the program runs as without.

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::Value;
use tests::{are_documented, scratch_folder};

use super::neighbours::{DRIVER, PROGRAM, SHARED, beside_driver, compiled, said};
use super::{audit, has_open_python, python, text};

/// Spends so many milliseconds, by the clock.
const BURN: &str = r#"
#include <time.h>
static volatile unsigned long burnt;
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1e3 + t.tv_nsec / 1e6; }
__attribute__((noinline)) static void burn(double ms) {
    for (double end = now() + ms; now() < end;) for (int i = 0; i < 1000; i++) burnt += i;
}
"#;

/// Finds what the audit exports.
const MARKS: &str = r#"
static void ready(void) { ((void (*)(void))dlsym(dlopen("libcuda.so.1", RTLD_NOW), "kernel_registry_audit_ready"))(); }
static void mark(const char *name) {
    ((void (*)(const char *))dlsym(dlopen("libcuda.so.1", RTLD_NOW), "kernel_registry_audit_mark"))(name);
}
"#;

/// Audits a C program in front of a driver whose loads take long. Returns its output, what was said, and its stretches.
fn run(options: &[&str], source: &str, flags: &[&str]) -> (Output, String, Vec<Value>) {
    let json = scratch_folder().join("report.json");
    let path = json.to_str().expect("a path in UTF-8");
    let (mut command, folder) = beside_driver(&[options, &["--json", path]].concat());
    let loads = "int cuModuleLoadData(P *m, const void *d) {";
    // The audit's signal can come between the program's last instruction and the sleep, and interrupts that.
    let slow = DRIVER.replace(
        loads,
        &format!("{loads} struct timespec time = {{0, 200000000}}; while (nanosleep(&time, &time)) {{}}"),
    );
    compiled(&folder, "libcuda.so.1", &slow, &[&SHARED[..], &["-Wl,-soname,libcuda.so.1"]].concat());
    let heuristics = format!("{BURN}void find_heuristics(double ms) {{ burn(ms); burnt++; }}");
    compiled(&folder, "libheuristics.so", &heuristics, &SHARED);
    let slow_to_open = format!("{BURN}__attribute__((constructor)) static void init(void) {{ burn(200); }}");
    compiled(&folder, "libslow.so", &slow_to_open, &SHARED);
    let program = compiled(
        &folder,
        "program",
        &format!("{PROGRAM}{BURN}{MARKS}{source}"),
        &[flags, &["-ldl"]].concat(),
    );
    let (output, said) = said(command.arg(program));
    (output, said, stretches(&json))
}

fn stretches(json: &Path) -> Vec<Value> {
    let report: Value = serde_json::from_slice(&fs::read(json).expect("a report")).expect("JSON");
    let processes = report["processes"].as_array().expect("a list");
    processes.iter().flat_map(|process| process["stretches"].as_array().expect("a list").clone()).collect()
}

/// Returns the milliseconds that were spent on what has these words.
fn spent(stretch: &Value, what: &str, function: &str) -> f64 {
    let all = stretch["spent"].as_array().expect("a list").iter();
    let its = all.filter(|spent| {
        spent["what"] == what && spent["function"].as_str().is_some_and(|its| its.contains(function))
    });
    its.map(|spent| spent["took_ms"].as_f64().expect("a number")).sum()
}

#[test]
fn the_time_of_each_stretch_is_named() {
    let program = r#"
int main(void) {
    start();
    void (*find_heuristics)(double) = dlsym(dlopen("./libheuristics.so", RTLD_NOW), "find_heuristics");
    ready();
    mark("request");
    find_heuristics(200);
    dlopen("./libslow.so", RTLD_NOW);
    load();
    cuCtxSynchronize();
    mark("sleep");
    usleep(200000);
    mark("");
    burn(100);
    puts("done");
}"#;
    let (output, said, stretches) = run(&["--first", "10"], program, &["-rdynamic"]);
    assert_eq!(text(&output.stdout), "done", "{said}");
    let names: Vec<_> = stretches.iter().map(|stretch| stretch["name"].as_str().expect("a text")).collect();
    assert_eq!(names, ["ready", "request", "sleep"]);
    let [_, request, sleep] = &stretches[..] else { panic!("three: {said}") };
    for (stretch, what, function) in [
        (request, "code", "libheuristics.so find_heuristics"),
        (request, "opening libraries", "initializers of libslow.so"),
        (request, "compiling", "cuModuleLoadData"),
        (sleep, "no thread ran", ""),
    ] {
        // On a busy machine the thread does not always answer in time.
        let unknown =
            if what == "code" { spent(stretch, what, "") - spent(stretch, what, "find") } else { 0.0 };
        let spent = spent(stretch, what, function);
        assert!(spent > 100.0, "{what} {function}: {spent}: {said}");
        assert!((160.0..240.0).contains(&(spent + unknown)), "{what} {function}: {spent}, {unknown}: {said}");
    }
    assert!(said.contains("ms of `request` went, from "), "{said}");
    assert!(said.contains("compiling: cuModuleLoadData"), "{said}");

    are_documented(&[request, &request["spent"][0]], include_str!("../../../docs/audit-json.md"));

    // Without the option there are neither stretches nor marks.
    let (output, said, stretches) = run(&[], program, &[]);
    assert_eq!((text(&output.stdout), stretches.len()), ("done", 0), "{said}");
}

#[test]
fn a_wait_for_the_gpu_is_named() {
    let program = r#"
int main(void) { start(); mark("wait"); setenv("DRIVER_WAITS", "1", 1); cuCtxSynchronize(); puts("done"); }"#;
    let (output, said, stretches) = run(&["--first", "10"], program, &[]);
    assert_eq!(text(&output.stdout), "done", "{said}");
    let spent = spent(&stretches[0], "waiting for the GPU", "cuCtxSynchronize");
    assert!((900.0..1100.0).contains(&spent), "{spent}: {said}");
}

#[test]
fn functions_of_python_are_named() {
    needs_python!();
    let program = python(
        "
import hashlib, time
def until(seconds, work):
    end = time.monotonic() + seconds
    while time.monotonic() < end: work()
def hash_own_files():
    until(0.3, lambda: hashlib.sha256(b'x' * 100000).hexdigest())
def count():
    number, end = 0, time.monotonic() + 0.3
    while time.monotonic() < end: number += 1
def serve():
    hash_own_files()
    count()
cuda.kernel_registry_audit_ready()
serve()
",
    );
    let file = scratch_folder().join("serve.py");
    fs::write(&file, program).expect("the folder is there");
    let (output, report) = audit(&["--first", "5"], &["python3", file.to_str().expect("a path in UTF-8")]);
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    if !has_open_python() {
        return;
    }
    let stretch = &report["processes"][0]["stretches"][0];
    let counted = spent(stretch, "code", "serve.py count");
    let hashed = spent(stretch, "code", "serve.py hash_own_files") + spent(stretch, "code", "serve.py until");
    // Some of the time in a library's machine code has no caller that is known.
    assert!(
        (240.0..360.0).contains(&counted) && (150.0..360.0).contains(&hashed),
        "{counted} {hashed}: {said}"
    );
    assert!(said.contains("serve.py count  by serve.py:"), "{said}");
}

/// Threads that block all signals and take them with `sigwait`, that have a small stack for signals, or that handle the
/// signal; children that are forked, and programs that are executed, while threads are looked at.
#[test]
fn a_program_that_is_looked_at_goes_on_as_without() {
    let program = r#"
#include <errno.h>
static volatile int ended;
static int wrong;
static void *blocks(void *none) {
    sigset_t all;
    sigfillset(&all);
    struct timespec moment = {0, 1000000};
    while (!ended) { burn(3); int got = sigtimedwait(&all, 0, &moment); if (got > 0 && got != SIGCHLD) wrong = got; }
    return 0;
}
static void *has_small_stack(void *none) {
    static char small[8192];
    stack_t stack = {.ss_sp = small, .ss_size = sizeof small};
    sigaltstack(&stack, 0);
    memset(small, 7, sizeof small);
    while (!ended) burn(3);
    for (int i = 0; i < sizeof small; i++) if (small[i] != 7) wrong = 200;
    return 0;
}
static void *keeps_error(void *none) {
    while (!ended) { errno = 77; burn(1); if (errno != 77) wrong = 300; }
    return 0;
}
int main(int count, char **words) {
    alarm(60);
    int rounds = count > 1 ? atoi(words[1]) : 20;
    start();
    ready();
    burn(5);
    if (rounds > 0) {
        char next[9];
        sprintf(next, "%d", rounds - 1);
        execl(words[0], words[0], next, NULL);
    }
    pthread_t threads[3];
    /* The thread blocks all from its beginning: between a look at what it blocks and a signal it could begin to. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_create(&threads[0], 0, blocks, 0);
    pthread_sigmask(SIG_SETMASK, &before, 0);
    pthread_create(&threads[1], 0, has_small_stack, 0);
    pthread_create(&threads[2], 0, keeps_error, 0);
    for (int i = 0; i < 100; i++) {
        pid_t child = fork();
        if (child == 0) { burn(1); if (i % 2) { mark("child"); burn(2); exit(5); } _exit(5); }
        int status;
        if (waitpid(child, &status, 0) != child || status != 5 << 8) { printf("child %d: %x, %d\n", i, status, errno); return 1; }
    }
    ended = 1;
    for (int i = 0; i < 3; i++) pthread_join(threads[i], 0);
    printf("%d\n", wrong);
}"#;
    let (output, said, stretches) = run(&["--first", "30", "--events", "500"], program, &["-lpthread"]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), "0"), "{said}");
    assert!(stretches.iter().any(|stretch| stretch["looks"].as_u64() > Some(50)), "{said}");
}

/// While a thread waits for signals, it seems not to block them, and so it does from the end of its wait until a
/// processor is free for it. More threads than processors wait here, and each is new to the audit.
#[test]
fn a_thread_that_waits_for_signals_is_not_sent_one() {
    let program = r#"
static volatile int wrong;
static void *waits(void *none) {
    sigset_t all;
    sigfillset(&all);
    struct timespec moment = {0, 1000000};
    for (int i = 0; i < 20; i++) { int got = sigtimedwait(&all, 0, &moment); if (got > 0) wrong = got; burn(1); }
    return 0;
}
int main(void) {
    alarm(60);
    start();
    ready();
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, 0);
    for (int round = 0; round < 10; round++) {
        pthread_t threads[12];
        for (int i = 0; i < 12; i++) pthread_create(&threads[i], 0, waits, 0);
        for (int i = 0; i < 12; i++) pthread_join(threads[i], 0);
    }
    printf("%d\n", wrong);
}"#;
    let (output, said, _) = run(&["--first", "30"], program, &["-lpthread"]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), "0"), "{said}");
}

/// A program can use the audit's signal itself, also after the audit has begun to use it. A signal that was sent before has to arrive before,
/// so it's sent only to threads that take it at once. A few can still come late: a thread may lose its processor just then.
#[test]
fn a_program_that_handles_the_signal_gets_hardly_any_of_the_audits() {
    let program = r#"
static volatile int got, ended;
static void handle(int signal) { got++; }
static void *works(void *none) { while (!ended) burn(1); return 0; }
int main(void) {
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART}, before;
    pthread_t threads[4];
    start();
    mark("works");
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, works, 0);
    usleep(100000);
    int late = 0, audits = 0;
    for (int round = 0; round < 20; round++) {
        got = 0;
        sigaction(SIGURG, &action, &before);
        audits += before.sa_handler != SIG_DFL;
        usleep(20000);
        late += got;
        sigaction(SIGURG, &before, 0);
        usleep(20000);
    }
    ended = 1;
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    mark("");
    printf("%d %d\n", late, audits);
}"#;
    let (output, said, stretches) = run(&["--first", "30"], program, &["-rdynamic", "-lpthread"]);
    let (late, audits) = text(&output.stdout).split_once(' ').expect("two numbers");
    assert_eq!(audits, "20", "the audit uses the signal: {said}");
    assert!(late.parse::<u32>().expect("a number") <= 3, "{late}: {said}");
    assert!(spent(&stretches[0], "code", "program") > 0.0, "what works is named: {said}");
}

/// What is asked of the program takes less than 5 % of its time. Other programs on this machine disturb the measurement, so it is repeated.
#[test]
fn looking_costs_little() {
    let program = r#"
static double cpu(void) { struct timespec t; clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); return t.tv_sec * 1e3 + t.tv_nsec / 1e6; }
__attribute__((noinline)) static double work(int depth) {
    if (depth > 0) return work(depth - 1) + 0 * burnt;
    double begun = cpu();
    for (int i = 0; i < 30000000; i++) burnt += i;
    return cpu() - begun;
}
int main(void) {
    start();
    double least[2] = {1e9, 1e9};
    for (int round = 0; round < 30; round++) {
        if (round % 2) mark("looked at");
        double took = work(30);
        if (took < least[round % 2]) least[round % 2] = took;
        mark("");
    }
    printf("%.0f\n", 1000 * (least[1] / least[0] - 1));
}"#;
    let mut costs = Vec::new();
    for _ in 0..5 {
        let (output, said, stretches) = run(&["--first", "30"], program, &[]);
        let looks: u64 = stretches.iter().filter_map(|stretch| stretch["looks"].as_u64()).sum();
        assert!(stretches.len() == 15 && looks > 100, "{looks}: {said}");
        costs.push(text(&output.stdout).parse::<i32>().expect("a number"));
        if costs.last().is_some_and(|thousandths| *thousandths < 50) {
            return;
        }
    }
    panic!("thousandths: {costs:?}");
}

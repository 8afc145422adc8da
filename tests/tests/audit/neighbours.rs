//! Tests the hooks beside other code in a process: coroutines, allocators, libraries that use CUDA while they are initialized or that
//! replace `dlsym`, and threads that block signals. The driver here is a small C library, which has no threads and no locks.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tests::{cargo_kernels_command, limit, scratch_folder};

use super::text;

/// The C source of the driver.
pub(super) const DRIVER: &str = r#"
#include <stddef.h>
#include <stdlib.h>
#include <time.h>
typedef void *P;
static P current;
int cuInit(unsigned f) { return 0; }
int cuDriverGetVersion(int *v) { *v = 13000; return 0; }
int cuDeviceGetCount(int *n) { *n = 1; return 0; }
int cuDevicePrimaryCtxRetain(P *c, int d) { *c = (P)0x1000; return 0; }
int cuCtxSetCurrent(P c) { current = c; return 0; }
int cuCtxGetCurrent(P *c) { *c = current; return 0; }
int cuCtxPushCurrent_v2(P c) { current = c; return 0; }
int cuCtxPopCurrent_v2(P *c) { *c = current; return 0; }
int cuCtxGetDevice(int *d) { *d = 0; return 0; }
int cuCtxGetId(P c, unsigned long long *i) { *i = 1; return 0; }
int cuModuleGetLoadingMode(int *m) { *m = 2; return 0; }
int cuModuleLoadData(P *m, const void *d) { *m = (P)0x2000; return 0; }
int cuModuleGetFunction(P *f, P m, const char *n) { *f = (P)0x3000; return 0; }
int cuFuncIsLoaded(unsigned *s, P f) { *s = 0; return 0; }
int cuGetProcAddress_v2(const char *n, P *f, int v, unsigned long long g, int *s) { *f = (P)cuInit; return 0; }
int cuMemAlloc_v2(unsigned long long *p, size_t n) { *p = 0x4000; return 0; }
int cuCtxSynchronize(void) {
    const char *seconds = getenv("DRIVER_WAITS");
    struct timespec time = {seconds ? atoi(seconds) : 0, 0};
    while (nanosleep(&time, &time)) {}
    return 0;
}
"#;

/// The beginning of the C programs and libraries that use the driver.
pub(super) const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
typedef void *P;
static int (*cuInit)(int), (*cuDevicePrimaryCtxRetain)(P *, int), (*cuCtxSetCurrent)(P);
static int (*cuModuleLoadData)(P *, const char *), (*cuMemAlloc)(uint64_t *, size_t), (*cuCtxSynchronize)(void);
static P start(void) {
    P context, cuda = dlopen("libcuda.so.1", RTLD_NOW);
    cuInit = dlsym(cuda, "cuInit");
    cuDevicePrimaryCtxRetain = dlsym(cuda, "cuDevicePrimaryCtxRetain");
    cuCtxSetCurrent = dlsym(cuda, "cuCtxSetCurrent");
    cuModuleLoadData = dlsym(cuda, "cuModuleLoadData");
    cuMemAlloc = dlsym(cuda, "cuMemAlloc_v2");
    cuCtxSynchronize = dlsym(cuda, "cuCtxSynchronize");
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context)) exit(3);
    return context;
}
static void load(void) {
    P module;
    if (cuModuleLoadData(&module, ".version 7.0\n")) exit(4);
}
"#;

pub(super) fn compiled(folder: &Path, name: &str, source: &str, flags: &[&str]) -> PathBuf {
    let (path, file) = (folder.join(name), folder.join(format!("{name}.c")));
    fs::write(&file, source).expect("the folder is there");
    let mut cc = Command::new("cc");
    let built = cc.args(["-O0", "-w", "-o"]).arg(&path).arg(&file).args(flags).status();
    assert!(built.expect("cc is installed").success(), "{name}");
    path
}

pub(super) const SHARED: [&str; 2] = ["-shared", "-fPIC"];

/// Returns an audit command in front of the driver, and the folder of the compiled programs.
pub(super) fn beside_driver(options: &[&str]) -> (Command, PathBuf) {
    let folder = scratch_folder();
    compiled(&folder, "libcuda.so.1", DRIVER, &[&SHARED[..], &["-Wl,-soname,libcuda.so.1"]].concat());
    let mut command = cargo_kernels_command();
    command.args(["audit", "--offline", "--fail-on-findings"]).args(options).args([
        "--",
        "timeout",
        &limit(60).as_secs().to_string(),
    ]);
    command.env("LD_LIBRARY_PATH", &folder).current_dir(&folder);
    (command, folder)
}

/// Compiles a program that begins with [`PROGRAM`], and audits it.
pub(super) fn run(options: &[&str], source: &str, flags: &[&str], arguments: &[&str]) -> (Output, String) {
    let (mut command, folder) = beside_driver(options);
    let program = compiled(&folder, "program", &format!("{PROGRAM}{source}"), flags);
    said(command.arg(program).args(arguments))
}

pub(super) fn said(command: &mut Command) -> (Output, String) {
    let output = command.output().expect("the tool runs");
    let said = text(&output.stderr).to_owned();
    (output, said)
}

/// A coroutine's stack can be copied over another stack, so that frame pointers of outer functions are wrong.
#[test]
fn a_stack_with_a_wrong_frame_pointer_is_not_followed() {
    let program = "
static void **outer_frame;
static void inner(void) {
    void *before = *outer_frame;
    for (uintptr_t wrong = 16; wrong; wrong <<= 9) {
        *outer_frame = (void *)wrong;
        load();
    }
    *outer_frame = before;
}
static void outer(void) { outer_frame = __builtin_frame_address(0); inner(); }
static void first(void) { outer(); }
int main(void) { start(); first(); puts(\"done\"); }
";
    let (output, said) = run(&[], program, &["-fno-omit-frame-pointer"], &[]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), "done"), "{said}");
    assert!(said.contains("by program load"), "{said}");
}

#[test]
fn a_library_that_loads_while_it_is_initialized_does_not_hang() {
    let library = format!(
        "{PROGRAM}
static void *work(void *context) {{ cuCtxSetCurrent(context); load(); return 0; }}
__attribute__((constructor)) static void initialize(void) {{
    pthread_t thread;
    pthread_create(&thread, 0, work, start());
    pthread_join(thread, 0);
}}"
    );
    let program = "
int main(int count, char **arguments) {
    if (count > 2) { start(); load(); }
    puts(dlopen(arguments[1], RTLD_NOW) ? \"loaded\" : dlerror());
}";
    for first_calls in [&["./libloads.so"][..], &["./libloads.so", "before"]] {
        let (mut command, folder) = beside_driver(&[]);
        compiled(&folder, "libloads.so", &library, &SHARED);
        let program = compiled(&folder, "program", &format!("{PROGRAM}{program}"), &[]);
        let (output, said) = said(command.arg(program).args(first_calls));
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), "loaded"), "{said}");
    }
}

#[test]
fn a_hang_while_a_library_is_initialized_is_reported() {
    let library = format!(
        "{PROGRAM}
__attribute__((constructor)) static void initialize(void) {{ start(); cuCtxSynchronize(); }}"
    );
    let program = "int main(void) { dlopen(\"./libwaits.so\", RTLD_NOW); puts(\"went on\"); }";
    let (mut command, folder) = beside_driver(&["--hang-after", "0.3", "--on-hang", "abort"]);
    compiled(&folder, "libwaits.so", &library, &SHARED);
    let program = compiled(&folder, "program", &format!("{PROGRAM}{program}"), &[]);
    let (output, said) = said(command.arg(program).env("DRIVER_WAITS", "30"));
    assert_eq!((output.status.signal(), text(&output.stdout)), (Some(6), ""), "{said}");
    assert!(said.contains("  where   libwaits.so initialize\n"), "{said}");
}

/// A library that shares a GPU between processes replaces `dlsym`, and returns functions of its own that call the driver.
#[test]
fn a_library_that_stands_before_dlsym_is_not_called_by_the_hooks() {
    let layer = format!(
        "{PROGRAM}
static P (*real)(P, const char *);
static void find(void) {{
    if (!real) real = dlvsym(RTLD_NEXT, \"dlsym\", \"GLIBC_2.34\");
    for (int version = 17; !real && version <= 17; version++) real = dlvsym(RTLD_NEXT, \"dlsym\", \"GLIBC_2.17\");
    if (!real) real = dlvsym(RTLD_NEXT, \"dlsym\", \"GLIBC_2.2.5\");
}}
int cuMemAlloc_v2(P address, size_t bytes) {{
    static int depth;
    if (++depth > 100) _exit(99);
    int (*behind)(P, size_t) = (find(), real(dlopen(\"libcuda.so.1\", RTLD_NOW), \"cuMemAlloc_v2\"));
    int result = behind(address, bytes);
    depth--;
    return result;
}}
P dlsym(P library, const char *name) {{
    find();
    return strcmp(name, \"cuMemAlloc_v2\") ? real(library, name) : (P)cuMemAlloc_v2;
}}"
    );
    let program = "int main(void) { uint64_t p; start(); printf(\"%d\\n\", cuMemAlloc(&p, 64)); }";
    let (mut command, folder) = beside_driver(&[]);
    compiled(&folder, "liblayer.so", &layer, &SHARED);
    let program = compiled(&folder, "program", &format!("{PROGRAM}{program}"), &[]);
    let (output, said) = said(command.args(["env", "LD_PRELOAD=./liblayer.so"]).arg(program));
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), "0"), "{said}");
}

/// A test runner may start programs with few environment variables.
#[test]
fn a_program_without_the_variables_runs_and_is_watched() {
    let program = "int main(void) { start(); load(); puts(\"done\"); }";
    let (mut command, folder) = beside_driver(&[]);
    let program = compiled(&folder, "program", &format!("{PROGRAM}{program}"), &[]);
    let line = r#"exec env -i LD_LIBRARY_PATH="$LD_LIBRARY_PATH" "$0""#;
    let (output, said) = said(command.args(["sh", "-c", line]).arg(program));
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), "done"), "{said}");
    assert!(said.contains("1 x image loaded"), "{said}");
}

/// Programs that bring a C library of their own are started so.
#[test]
fn a_program_that_its_loader_starts_is_named_and_not_the_loader() {
    let maps = fs::read_to_string("/proc/self/maps").expect("Linux has it");
    let mut mapped = maps.lines().filter_map(|line| line.split_ascii_whitespace().nth(5));
    let loader = mapped.find(|path| path.contains("/ld-")).expect("this test has a loader");
    let program = "int main(void) { start(); load(); puts(\"done\"); }";
    let (mut command, folder) = beside_driver(&[]);
    let program = compiled(&folder, "program", &format!("{PROGRAM}{program}"), &[]);
    let (output, said) = said(command.arg(loader).arg(program));
    assert_eq!(text(&output.stdout), "done", "{said}");
    assert!(said.contains("  by program load"), "{said}");
}

#[test]
fn a_thread_that_blocks_all_signals_gets_none_of_the_audits() {
    if !super::has_python() {
        return tests::left_out("python3 is not installed", "REQUIRE_PYTHON");
    }
    let program = "
import ctypes, signal
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
cuda = ctypes.CDLL('libcuda.so.1')
cuda.cuInit(0)
cuda.cuCtxSynchronize()
print(signal.sigpending())
";
    let (mut command, _) = beside_driver(&["--hang-after", "0.2"]);
    let (output, said) = said(command.args(["python3", "-c", program]).env("DRIVER_WAITS", "2"));
    assert_eq!(text(&output.stdout), "set()", "{said}");
    assert!(said.contains("  calls   `cuCtxSynchronize`"), "{said}");
}

#[test]
fn a_program_that_may_write_no_file_is_not_ended() {
    if !super::has_python() {
        return tests::left_out("python3 is not installed", "REQUIRE_PYTHON");
    }
    let program = "
import ctypes, resource, signal
cuda = ctypes.CDLL('libcuda.so.1')
cuda.cuInit(0)
cuda.cuCtxSynchronize()
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
module = ctypes.c_void_p()
print(cuda.cuModuleLoadData(ctypes.byref(module), b'.version 7.0'), flush=True)
cuda.cuCtxSynchronize()
";
    let (mut command, _) = beside_driver(&["--hang-after", "0.2"]);
    let (output, said) = said(command.args(["python3", "-c", program]).env("DRIVER_WAITS", "1"));
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(12), "0"), "{said}");
    assert!(
        said.matches("  calls   `cuCtxSynchronize`").count() == 2 && said.contains("1 x image loaded"),
        "{said}"
    );
}

#[test]
fn the_stack_that_a_program_has_for_signals_is_its_own() {
    let program = "
int main(int count, char **arguments) {
    static unsigned char memory[1 << 16];
    stack_t stack = {.ss_sp = memory + (1 << 15), .ss_size = atoi(arguments[1])};
    memset(memory, 0x5a, sizeof memory);
    if (sigaltstack(&stack, 0)) return 2;
    start();
    cuCtxSynchronize();
    for (size_t i = 0; i < sizeof memory; i++) if (memory[i] != 0x5a) return 5;
    puts(\"untouched\");
}";
    for bytes in ["2048", "4096"] {
        let (mut command, folder) = beside_driver(&["--hang-after", "0.2"]);
        let program = compiled(&folder, "program", &format!("{PROGRAM}{program}"), &[]);
        let (output, said) = said(command.arg(program).arg(bytes).env("DRIVER_WAITS", "1"));
        assert_eq!(text(&output.stdout), "untouched", "{bytes}: {said}");
        assert!(
            said.contains("  calls   `cuCtxSynchronize`") && said.contains("  where   program main\n"),
            "{said}"
        );
    }
}

/// A program that calls `mlockall` and may lock little memory has no memory for a record.
#[test]
fn a_program_without_memory_for_a_record_runs_unwatched() {
    let program = "
#include <sys/resource.h>
int main(void) {
    long pages;
    P cuda = dlopen(\"libcuda.so.1\", RTLD_NOW);
    fscanf(fopen(\"/proc/self/statm\", \"r\"), \"%ld\", &pages);
    struct rlimit limit = {pages * sysconf(_SC_PAGESIZE) + (6 << 20), RLIM_INFINITY};
    if (setrlimit(RLIMIT_AS, &limit)) return 2;
    start();
    load();
    size_t bytes = 1;
    void (*ready)(void) = dlsym(cuda, \"kernel_registry_audit_ready\");
    int (*preload)(void) = dlsym(cuda, \"kernel_registry_audit_preload\");
    void (*record)(size_t *) = dlsym(cuda, \"kernel_registry_audit_record\");
    ready();
    record(&bytes);
    if (bytes || preload() != -1) return 5;
    puts(\"done\");
}";
    let (output, said) = run(&[], program, &[], &[]);
    // The program goes on, but the command fails, because it knows nothing of the program.
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), "done"), "{said}");
    assert!(said.contains("no memory for a record") && said.contains("is not watched"), "{said}");
}

/// A process of one thread may make calls such as `unshare`, and must still be able to after it asked for functions of the driver.
#[test]
fn asking_for_functions_starts_no_thread() {
    let program = "
#include <dirent.h>
static int threads(void) {
    int count = 0;
    DIR *folder = opendir(\"/proc/self/task\");
    for (struct dirent *entry; (entry = readdir(folder));) count += entry->d_name[0] != '.';
    return count;
}
int main(void) {
    P cuda = dlopen(\"libcuda.so.1\", RTLD_NOW), function;
    int (*ask)(const char *, P *, int, uint64_t, int *) = dlsym(cuda, \"cuGetProcAddress_v2\"), status;
    ask(\"cuInit\", &function, 12000, 0, &status);
    int before = threads();
    start();
    printf(\"%d, then %d\\n\", before, threads());
}";
    let (output, said) = run(&[], program, &[], &[]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), "1, then 2"), "{said}");
}

/// The hooks and the handler of the signal by which threads are looked at need some of a thread's stack.
#[test]
fn a_thread_with_the_smallest_stack_loads_and_is_looked_at() {
    let program = "
static volatile int ended;
static void *loads(void *none) { load(); uint64_t at; cuMemAlloc(&at, 8); cuCtxSynchronize(); return none; }
static void *works(void *none) { while (!ended) {} return none; }
int main(void) {
    pthread_t threads[2];
    pthread_attr_t small;
    start();
    ((void (*)(const char *))dlsym(dlopen(\"libcuda.so.1\", RTLD_NOW), \"kernel_registry_audit_mark\"))(\"works\");
    pthread_attr_init(&small);
    if (pthread_attr_setstacksize(&small, 16384)) return 5;
    pthread_create(&threads[0], &small, works, 0);
    pthread_create(&threads[1], &small, loads, 0);
    pthread_join(threads[1], 0);
    usleep(300000);
    ended = 1;
    pthread_join(threads[0], 0);
    puts(\"done\");
}
";
    let (output, said) = run(&["--first", "10"], program, &["-lpthread", "-ldl", "-rdynamic"], &[]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), "done"), "{said}");
    assert!(said.contains("program works"), "{said}");
}

//! Tests the hooks in programs that fork while another thread calls the driver, also beside libraries that lock something
//! of their own during a fork.

use std::process::Output;

use super::neighbours::{DRIVER, PROGRAM, SHARED, beside_driver, compiled, run, said};
use super::text;

#[test]
fn a_child_that_is_forked_while_a_thread_makes_the_first_calls_goes_on() {
    let program = "
static volatile int go;
static void *work(void *none) { while (!go) {} start(); load(); return 0; }
int main(void) {
    for (int delay = 0; delay < 4000; delay += 40) {
        pid_t process = fork();
        if (process == 0) {
            dlopen(\"libcuda.so.1\", RTLD_NOW);
            pthread_t thread;
            pthread_create(&thread, 0, work, 0);
            usleep(500);
            go = 1;
            for (volatile int i = 0; i < delay * 50; i++) {}
            pid_t child = fork();
            if (child == 0) { alarm(20); start(); load(); _exit(0); }
            int status;
            waitpid(child, &status, 0);
            pthread_join(thread, 0);
            _exit(WIFSIGNALED(status) ? 1 : WEXITSTATUS(status));
        }
        int status;
        waitpid(process, &status, 0);
        if (status) { printf(\"stuck after %d: %x\\n\", delay, status); return 1; }
    }
    puts(\"done\");
}";
    let (output, said) = run(&["--events", "1"], program, &[], &[]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), "done"), "{said}");
}

/// A program may say that it is ready in another thread than the first driver call's.
#[test]
fn a_thread_that_says_ready_beside_the_first_call_does_not_hang() {
    let program = "
static volatile int go;
static void *first(void *none) { while (!go) {} start(); return 0; }
int main(void) {
    for (int round = 0; round < 300; round++) {
        pid_t process = fork();
        if (process == 0) {
            alarm(20);
            void (*ready)(void) = dlsym(dlopen(\"libcuda.so.1\", RTLD_NOW), \"kernel_registry_audit_ready\");
            pthread_t thread;
            pthread_create(&thread, 0, first, 0);
            usleep(500);
            go = 1;
            for (volatile int i = 0; i < round % 30 * 500; i++) {}
            ready();
            pthread_join(thread, 0);
            _exit(0);
        }
        int status;
        waitpid(process, &status, 0);
        if (status) { printf(\"stuck in round %d: %x\\n\", round, status); return 1; }
    }
    puts(\"done\");
}";
    let (output, said) = run(&["--events", "1"], program, &[], &[]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), "done"), "{said}");
}

/// A library that forks as glibc before 2.36 did: it holds the lock of the list of fork handlers during the fork.
const OLDER_FORK: &str = "
static pthread_mutex_t list = PTHREAD_MUTEX_INITIALIZER;
int __register_atfork(P before, P in_parent, P in_child, P library) {
    int (*real)(P, P, P, P) = dlsym(RTLD_NEXT, \"__register_atfork\");
    pthread_mutex_lock(&list);
    int result = real(before, in_parent, in_child, library);
    pthread_mutex_unlock(&list);
    return result;
}
pid_t fork(void) {
    pid_t (*real)(void) = dlsym(RTLD_NEXT, \"fork\");
    pthread_mutex_lock(&list);
    pid_t process = real();
    pthread_mutex_unlock(&list);
    return process;
}";

/// An allocator with a lock that `fork` takes.
const ALLOCATOR: &str = "
extern P __libc_malloc(size_t), __libc_calloc(size_t, size_t), __libc_realloc(P, size_t), __libc_memalign(size_t, size_t);
extern void __libc_free(P);
static pthread_mutex_t heap = PTHREAD_MUTEX_INITIALIZER;
static void lock(void) { pthread_mutex_lock(&heap); }
static void unlock(void) { pthread_mutex_unlock(&heap); }
static P unlocked(P memory) { unlock(); return memory; }
__attribute__((constructor)) static void initialize(void) { pthread_atfork(lock, unlock, unlock); }
P malloc(size_t bytes) { lock(); return unlocked(__libc_malloc(bytes)); }
P calloc(size_t count, size_t bytes) { lock(); return unlocked(__libc_calloc(count, bytes)); }
P realloc(P memory, size_t bytes) { lock(); return unlocked(__libc_realloc(memory, bytes)); }
P memalign(size_t step, size_t bytes) { lock(); return unlocked(__libc_memalign(step, bytes)); }
int posix_memalign(P *memory, size_t step, size_t bytes) { *memory = memalign(step, bytes); return *memory ? 0 : 12; }
void free(P memory) { lock(); __libc_free(memory); unlock(); }";

/// Runs a program behind a library that stands before all others.
fn behind_library(library: &str, program: &str) -> (Output, String) {
    let (mut command, folder) = beside_driver(&["--events", "1"]);
    compiled(&folder, "libfirst.so", &format!("{PROGRAM}{library}"), &SHARED);
    // The program is linked with the driver, so that the hooks are initialized before `libfirst.so`.
    let driver = folder.join("libcuda.so.1");
    let linked = ["-Wl,--no-as-needed", driver.to_str().expect("a path in UTF-8")];
    let program = compiled(&folder, "program", &format!("{PROGRAM}{program}"), &linked);
    said(command.args(["env", "LD_PRELOAD=./libfirst.so"]).arg(program))
}

#[test]
fn a_fork_that_locks_something_else_first_does_not_hang() {
    let program = "
static volatile int ended;
static void *work(void *none) { start(); while (!ended) load(); return 0; }
int main(void) {
    alarm(20);
    pthread_t thread;
    pthread_create(&thread, 0, work, 0);
    for (int i = 0; i < 300; i++) {
        pid_t child = fork();
        if (child == 0) _exit(0);
        waitpid(child, 0, 0);
    }
    ended = 1;
    pthread_join(thread, 0);
    puts(\"done\");
}";
    for library in [OLDER_FORK, ALLOCATOR] {
        let (output, said) = behind_library(library, program);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), "done"), "{said}");
    }
}

/// The first call of the driver may come while another thread forks, and that fork may have locked the allocator before
/// the hooks know of it.
#[test]
fn a_first_call_during_a_fork_does_not_hang() {
    // Handlers are called from the last to the first: the allocator is locked before `slow` runs.
    const SLOW: &str = "
int forks, forking;
static void slow(void) { if (!forks++) { forking = 1; usleep(50000); } }
__attribute__((constructor(101))) static void add(void) { pthread_atfork(slow, 0, 0); }";
    let program = "
static int *forking;
static void (*ready)(void);
static void use(void) { ready(); start(); load(); }
static void *work(void *none) {
    while (!__atomic_load_n(forking, __ATOMIC_SEQ_CST)) {}
    use();
    return 0;
}
int main(void) {
    alarm(20);
    ready = dlsym(RTLD_DEFAULT, \"kernel_registry_audit_ready\");
    forking = dlsym(RTLD_DEFAULT, \"forking\");
    pthread_t thread;
    pthread_create(&thread, 0, work, 0);
    pid_t child = fork();
    if (child == 0) {
        alarm(10);
        use();
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    if (status) { printf(\"the child: %x\\n\", status); return 1; }
    pthread_join(thread, 0);
    load();
    puts(\"done\");
}";
    let (output, said) = behind_library(&format!("{ALLOCATOR}{SLOW}"), program);
    // The loads after ready are findings.
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(12), "done"), "{said}");
    let unwatched =
        said.matches("is not watched: it was forked during its parent's first call of the driver");
    assert_eq!(unwatched.count(), 1, "{said}");
}

#[test]
fn a_process_that_exits_while_a_thread_forks_ends_as_it_says() {
    let program = "
static P context;
static void *work(void *none) { cuCtxSetCurrent(context); for (;;) load(); }
static void *leave(void *none) { usleep(2000); exit(5); }
int main(void) {
    for (int round = 0; round < 60; round++) {
        pid_t process = fork();
        if (process == 0) {
            alarm(20);
            context = start();
            pthread_t thread;
            for (int i = 0; i < 4; i++) pthread_create(&thread, 0, work, 0);
            pthread_create(&thread, 0, leave, 0);
            for (;;) {
                pid_t child = fork();
                if (child == 0) _exit(0);
                waitpid(child, 0, 0);
            }
        }
        int status;
        waitpid(process, &status, 0);
        if (status != 5 << 8) { printf(\"round %d: %x\\n\", round, status); return 1; }
    }
    puts(\"done\");
}";
    // The driver's destructor still runs after the hooks have ended.
    let driver = format!("{DRIVER}\n__attribute__((destructor)) static void end(void) {{ usleep(20000); }}");
    let (mut command, folder) = beside_driver(&["--events", "10"]);
    compiled(&folder, "libcuda.so.1", &driver, &[&SHARED[..], &["-Wl,-soname,libcuda.so.1"]].concat());
    let program = compiled(&folder, "program", &format!("{PROGRAM}{program}"), &[]);
    let (output, said) = said(command.arg(program));
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), "done"), "{said}");
}

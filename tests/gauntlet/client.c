// A client of NVRTC for the gauntlet: `client WAY NVRTC [OPTION..]` does something that a cache in front of NVRTC could get wrong, and prints what it
// saw. Where LINKED is defined, the functions are linked and not looked up.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef void *Program;
#define FUNCTIONS(one)                                                                                                 \
    one(nvrtcCreateProgram, (Program *, const char *, const char *, int, const char **, const char **))               \
    one(nvrtcDestroyProgram, (Program *)) one(nvrtcCompileProgram, (Program, int, const char **))                     \
    one(nvrtcAddNameExpression, (Program, const char *))                                                               \
    one(nvrtcGetLoweredName, (Program, const char *, const char **))                                                   \
    one(nvrtcGetPTXSize, (Program, size_t *)) one(nvrtcGetPTX, (Program, char *))                                       \
    one(nvrtcGetCUBINSize, (Program, size_t *)) one(nvrtcGetCUBIN, (Program, char *))                                   \
    one(nvrtcGetLTOIRSize, (Program, size_t *)) one(nvrtcGetLTOIR, (Program, char *))                                   \
    one(nvrtcGetProgramLogSize, (Program, size_t *)) one(nvrtcGetProgramLog, (Program, char *))

#define DECLARE(name, types) int name types;
#define WEAK(name, types) __attribute__((weak)) int name types;
#define POINTER(name, types) int(*name) types;
typedef struct { FUNCTIONS(POINTER) } Nvrtc;
#ifdef LINKED
FUNCTIONS(DECLARE)
#define FIND(name, types) nvrtc.name = name;
#else
FUNCTIONS(WEAK)
#define FIND(name, types) nvrtc.name = (int(*) types)dlsym(library, #name);
#endif

static const char *text = "extern \"C\" __global__ void k(double *out) { out[0] = sin(0.7) + 1.5e-3; }\n"
                          "template <int N> __global__ void t(int *out) { *out = N; }\n";
static Nvrtc nvrtc;

static unsigned digest(const char *bytes, size_t length) {
    unsigned sum = 5381;
    for (size_t i = 0; i < length; i++) sum = sum * 33 + (unsigned char)bytes[i];
    return sum;
}

static void part(const char *kind, Program program, int (*size)(Program, size_t *), int (*get)(Program, char *)) {
    size_t length = 0;
    int answer = size(program, &length);
    char *bytes = calloc(1, length + 1);
    int got = answer || !length ? -1 : get(program, bytes);
    printf(" %s %d %zu %d %08x", kind, answer, length, got, digest(bytes, length));
    free(bytes);
}

static void parts(Program program) {
    part("PTX", program, nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX);
    part("CUBIN", program, nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN);
    part("LTOIR", program, nvrtc.nvrtcGetLTOIRSize, nvrtc.nvrtcGetLTOIR);
    part("log", program, nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog);
    const char *lowered = "none";
    int answer = nvrtc.nvrtcGetLoweredName(program, "t<3>", &lowered);
    printf(" lowered %d %s\n", answer, lowered);
}

static Program compiled(int count, const char **options) {
    Program program;
    int create = nvrtc.nvrtcCreateProgram(&program, text, getenv("NAME"), 0, NULL, NULL);
    int add = nvrtc.nvrtcAddNameExpression(program, "t<3>");
    printf("create %d add %d compile %d", create, add, nvrtc.nvrtcCompileProgram(program, count, options));
    return program;
}

static volatile int stop;
static void *reads(void *program) {
    while (!stop) {
        size_t length;
        nvrtc.nvrtcGetPTXSize(program, &length);
    }
    return NULL;
}

// Children are forked while another thread reads results.
static void forks(Program program) {
    pthread_t thread;
    size_t length, wrong = 0;
    nvrtc.nvrtcGetPTXSize(program, &length);
    pthread_create(&thread, NULL, reads, program);
    for (int i = 0; i < 200; i++) {
        int child = fork(), status = 0;
        if (!child) {
            size_t its = 0;
            alarm(10);
            nvrtc.nvrtcGetPTXSize(program, &its);
            _exit(its != length);
        }
        waitpid(child, &status, 0);
        wrong += status != 0;
    }
    stop = 1;
    pthread_join(thread, NULL);
    printf("of 200 children %zu are wrong\n", wrong);
}

// A cancellation is pending while NVRTC is called, which is no point where a thread ends.
static void *cancels(void *unused) {
    pthread_cancel(pthread_self());
    Program program = compiled(1, (const char *[]){"-arch=sm_80"});
    parts(program);
    nvrtc.nvrtcDestroyProgram(&program);
    fflush(stdout);
    return NULL;
}

static void looks_up(void) {
    const char *names[] = {"nvrtcVersion", "nvrtcCreateProgram", "nvrtcCompileProgram", "__nvrtcCPEx", "nvrtcNothing"};
    for (int i = 0; i < 5; i++) {
        void *found = dlsym(RTLD_DEFAULT, names[i]);
        const char *error = dlerror();
        printf("%s: %d %s", names[i], !!found, error ? error : "no error");
        void *next = dlsym(RTLD_NEXT, names[i]);
        error = dlerror();
        printf(", %d %s\n", !!next, error ? error : "no error");
    }
}

int main(int count, char **arguments) {
    const char *way = arguments[1], **options = (const char **)arguments + 3;
    count -= 3;
    if (!strcmp(way, "without")) {
        looks_up();
#ifndef LINKED
        printf("a weak reference is %s\n", nvrtcCreateProgram ? "there" : "null");
#endif
        return 0;
    }
#ifndef LINKED
    void *library = dlopen(arguments[2], RTLD_NOW | (strcmp(way, "global") ? RTLD_LOCAL : RTLD_GLOBAL));
    if (!library) return puts(dlerror()), 3;
#endif
    FUNCTIONS(FIND)
    if (!strcmp(way, "cancelled")) {
        pthread_t thread;
        // The first output allocates a buffer.
        puts("a thread is cancelled");
        pthread_create(&thread, NULL, cancels, NULL);
        pthread_join(thread, NULL);
    }
    Program program = compiled(count, options);
    parts(program);
    if (!strcmp(way, "global")) looks_up();
    if (!strcmp(way, "forks")) forks(program);
    if (!strcmp(way, "jail")) {
        if (chdir("/") || chroot(getenv("JAIL"))) return perror("chroot"), 3;
        text = "extern \"C\" __global__ void other(int *out) { *out = 2; }\ntemplate <int N> __global__ void t(int *out) { *out = N; }\n";
        parts(compiled(count, options));
    }
    if (!strcmp(way, "again")) {
        const char *other[] = {"-arch=compute_80"};
        printf("again %d", nvrtc.nvrtcCompileProgram(program, 1, other));
        parts(program);
    }
#ifndef LINKED
    if (!strcmp(way, "versions")) {
        // Some of the functions by their version.
        const char *name = strrchr(arguments[2], '/') + 1;
        int (*size)(Program, size_t *) = (int (*)(Program, size_t *))dlvsym(library, "nvrtcGetPTXSize", name);
        size_t length = 0;
        printf("by version %d %zu\n", size ? size(program, &length) : -1, length);
    }
    if (!strcmp(way, "closes")) {
        printf("destroy %d\n", nvrtc.nvrtcDestroyProgram(&program));
        printf("close %d\n", dlclose(library));
        library = dlopen(arguments[2], RTLD_NOW);
        FUNCTIONS(FIND)
        parts(compiled(count, options));
    }
    if (!strcmp(way, "two")) {
        library = dlopen(getenv("OTHER"), RTLD_NOW);
        if (!library) return puts(dlerror()), 3;
        FUNCTIONS(FIND)
        parts(compiled(count, options));
    }
#endif
    printf("destroy %d\n", nvrtc.nvrtcDestroyProgram(&program));
    return 0;
}

// Compiles texts with NVRTC, and prints all that it returns. `client LIBRARY WAY TEXT..` opens that library; where `LINKED` is defined, it is linked.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct Program Program;
#define FUNCTIONS(one)                                                                                                 \
    one(nvrtcCreateProgram, (Program **, const char *, const char *, int, const char **, const char **))               \
    one(__nvrtcCPEx,                                                                                                   \
        (Program **, const char *, const char *, int, const char **, const char **, int, const int *, void **))        \
    one(nvrtcDestroyProgram, (Program **)) one(nvrtcAddNameExpression, (Program *, const char *))                       \
    one(nvrtcCompileProgram, (Program *, int, const char **))                                                          \
    one(nvrtcSetFlowCallback, (Program *, int (*)(void *, void *), void *))                                            \
    one(nvrtcGetLoweredName, (Program *, const char *, const char **))                                                 \
    one(nvrtcGetPTXSize, (Program *, size_t *)) one(nvrtcGetPTX, (Program *, char *))                                   \
    one(nvrtcGetCUBINSize, (Program *, size_t *)) one(nvrtcGetCUBIN, (Program *, char *))                               \
    one(nvrtcGetProgramLogSize, (Program *, size_t *)) one(nvrtcGetProgramLog, (Program *, char *))

#define DECLARE(name, types) int name types;
#define POINTER(name, types) int(*name) types;
typedef struct { FUNCTIONS(POINTER) } Nvrtc;

#ifdef LINKED
FUNCTIONS(DECLARE)
#define FIND(name, types) nvrtc.name = name;
#else
#define FIND(name, types) nvrtc.name = dlsym(library, #name);
#endif

static Nvrtc open_library(const char *path) {
    Nvrtc nvrtc = {0};
#ifndef LINKED
    void *library = dlopen(path, RTLD_NOW);
    if (!library) fprintf(stderr, "%s\n", dlerror()), exit(3);
#endif
    FUNCTIONS(FIND)
    return nvrtc;
}

static void print(const char *kind, Nvrtc nvrtc, Program *program, int (*size)(Program *, size_t *), int (*get)(Program *, char *)) {
    size_t length = 0;
    int answer = size(program, &length);
    char *bytes = calloc(1, length + 1);
    printf("%s %d %zu", kind, answer, length);
    if (!answer && length) {
        printf(" %d ", get(program, bytes));
        for (size_t i = 0; i < length; i++) putchar(bytes[i] ? bytes[i] : '.');
    }
    putchar('\n');
    free(bytes);
}

// How the texts of programs are decoded: `into new memory`, `where they are`, `in one place` for all, or by their length, `without an end`.
// `not -w` fails once at that option. `kind 3` asks for what no NVRTC knows.
static const char *encoded;
static int decoded;

static char *flip(char *text) {
    for (char *at = text; *at; at++) *at ^= 0xa9;
    return text;
}

static char *encode(const char *text) {
    if (strcmp(encoded, "without an end")) return flip(strdup(text));
    // The next page can't be read.
    char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), with[4096];
    mprotect(page + 4096, 4096, PROT_NONE);
    int length = snprintf(with, sizeof with, "%04zu%s", strlen(text), text);
    return memcpy(page + 4096 - length, with, length);
}

static char *decode(const char *text, void *argument) {
    static char one[4096];
    static int failed;
    decoded++;
    if (argument != &decoded) return NULL;
    if (!strcmp(encoded, "without an end")) return strndup(text + 4, atoi(strndup(text, 4)));
    if (!strcmp(encoded, "where they are")) return flip((char *)text);
    if (!strcmp(encoded, "in one place")) return flip(strcpy(one, text));
    char *answer = flip(strdup(text));
    return !strcmp(encoded, "not -w") && !strcmp(answer, "-w") && !failed++ ? NULL : answer;
}

static int create(Nvrtc nvrtc, Program **program, const char *text, const char *name, const char **headers, const char **names) {
    if (!encoded) return nvrtc.nvrtcCreateProgram(program, text, name, 1, headers, names);
    const int kinds[] = {2, strcmp(encoded, "kind 3") ? 1 : 3};
    void *values[] = {&decoded, (void *)decode};
    *headers = encode(*headers);
    int answer = nvrtc.__nvrtcCPEx(program, encode(text), name, 1, headers, names, 2, kinds, values);
    memset(values, 0, sizeof values);
    return answer;
}

static void compile(Nvrtc nvrtc, const char *text, int forks) {
    const char *headers[] = {"int header;"}, *names[] = {"known.h"}, *lowered = "";
    const char *options[] = {"-arch=sm_90", getenv("OPTION")};
    const char *name = getenv("NAME");
    Program *program;
    int created = create(nvrtc, &program, text, name ? name : "a program", headers, names);
    printf("create %d\n", created);
    if (created) return;
    for (int i = 0; encoded && i < 2; i++) options[i] = options[i] ? encode(options[i]) : NULL;
    printf("add %d\n", nvrtc.nvrtcAddNameExpression(program, "k<int>"));
    int answer = nvrtc.nvrtcCompileProgram(program, 1 + !!options[1], options);
    printf("compile %d\n", answer);
    if (getenv("MISUSE")) printf("add %d\n", nvrtc.nvrtcAddNameExpression(program, "k<float>"));
    if (forks) {
        fflush(stdout);
        int child = fork(), status = 0;
        if (child) waitpid(child, &status, 0), printf("child %d\n", status);
    }
    printf("lowered %d", nvrtc.nvrtcGetLoweredName(program, "k<int>", &lowered));
    printf(" %s", lowered);
    if (getenv("MISUSE")) printf(", other %d", nvrtc.nvrtcGetLoweredName(program, "other", &lowered));
    putchar('\n');
    print("ptx", nvrtc, program, nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX);
    print("cubin", nvrtc, program, nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN);
    print("log", nvrtc, program, nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog);
    if (getenv("TWICE")) {
        if (encoded && !strcmp(encoded, "where they are")) flip((char *)options[0]);
        printf("compile again %d\n", nvrtc.nvrtcCompileProgram(program, 1, options));
        print("ptx", nvrtc, program, nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX);
    }
    printf("destroy %d\n", nvrtc.nvrtcDestroyProgram(&program));
    if (encoded) printf("decoded %d\n", decoded);
}

static Nvrtc shared;
static void *in_thread(void *text) {
    Program *program;
    shared.nvrtcCreateProgram(&program, text, NULL, 0, NULL, NULL);
    shared.nvrtcCompileProgram(program, 0, NULL);
    size_t length = 0;
    shared.nvrtcGetPTXSize(program, &length);
    shared.nvrtcDestroyProgram(&program);
    return (void *)length;
}

// A thread is cancelled while it compiles.
static void cancelled(char *text) {
    pthread_t thread;
    void *result;
    pthread_create(&thread, NULL, in_thread, text);
    usleep(300000);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    printf("cancelled %d\n", result == PTHREAD_CANCELED);
}

static int cancels(void *one, void *two) { return 1; }

// A thread is cancelled while it compiles, and then the same is compiled with a callback and without.
static int ends(char *text) {
    pthread_t thread;
    Program *program;
    const char *lowered = "none", *before;
    pthread_create(&thread, NULL, in_thread, text);
    usleep(20000);
    pthread_cancel(thread);
    pthread_join(thread, NULL);
    shared.nvrtcCreateProgram(&program, text, NULL, 0, NULL, NULL);
    shared.nvrtcAddNameExpression(program, "k");
    shared.nvrtcSetFlowCallback(program, cancels, NULL);
    printf("cancelled %d\n", shared.nvrtcCompileProgram(program, 0, NULL));
    shared.nvrtcSetFlowCallback(program, NULL, NULL);
    printf("compiled %d", shared.nvrtcCompileProgram(program, 0, NULL));
    printf(" %d", shared.nvrtcGetLoweredName(program, "other", &lowered));
    printf(" %s", lowered ? lowered : "null");
    printf(" %d", shared.nvrtcGetLoweredName(program, "k", &before));
    const char *options[] = {"-other"};
    printf(" %d", shared.nvrtcCompileProgram(program, 1, options));
    printf(" %s\n", before);
    return 0;
}

int main(int count, char **arguments) {
    encoded = getenv("ENCODED");
    shared = open_library(arguments[1]);
    if (!strcmp(arguments[2], "threads")) {
        pthread_t threads[8];
        void *length;
        for (int i = 0; i < 8; i++) pthread_create(&threads[i], NULL, in_thread, arguments[3]);
        for (int i = 0; i < 8; i++) pthread_join(threads[i], &length), printf("%zu\n", (size_t)length);
        return 0;
    }
    if (!strcmp(arguments[2], "cancelled")) return cancelled(arguments[3]), 0;
    if (!strcmp(arguments[2], "ends")) return ends(arguments[3]);
    if (!strcmp(arguments[2], "both")) compile(open_library(arguments[3]), arguments[4], 0);
    for (int i = strcmp(arguments[2], "both") ? 3 : 4; i < count; i++) compile(shared, arguments[i], !strcmp(arguments[2], "fork"));
    return 0;
}

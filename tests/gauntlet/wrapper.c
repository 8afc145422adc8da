// A library between a program and NVRTC that adds an option to each compilation, and one that counts compilations where PRELOADED is defined.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

int nvrtcCompileProgram(void *program, int count, const char **options) {
    static int (*next)(void *, int, const char **);
    if (!next) next = (int (*)(void *, int, const char **))dlsym(RTLD_NEXT, "nvrtcCompileProgram");
#ifdef PRELOADED
    fprintf(stderr, "the wrapper compiles with %d options\n", count);
    return next(program, count, options);
#else
    const char *more[16] = {"-DVALUE=42"};
    for (int i = 0; i < count && i < 15; i++) more[i + 1] = options[i];
    return next(program, count + 1, more);
#endif
}

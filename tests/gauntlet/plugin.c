// A plugin that finds the NVRTC that it needs by itself, and a host that loads it (HOST), which knows nothing of NVRTC.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

#ifdef HOST
int main(int count, char **arguments) {
    void *plugin = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    if (!plugin) return puts(dlerror()), 3;
    return ((int (*)(void))dlsym(plugin, "run"))();
}
#else
int nvrtcVersion(int *, int *);
int run(void) {
    const char *names[] = {"nvrtcVersion", "nvrtcCreateProgram", "nvrtcCompileProgram", "nvrtcGetPTX", "__nvrtcCPEx"};
    int major, minor;
    printf("version %d\n", nvrtcVersion(&major, &minor));
    for (int i = 0; i < 5; i++) printf("%s %s\n", names[i], dlsym(RTLD_DEFAULT, names[i]) ? "found" : "not found");
    return 0;
}
#endif

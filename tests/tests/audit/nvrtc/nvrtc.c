// A stand-in for NVRTC: what it makes of a program tells all that a result depends on. Each compilation adds a line to the file that `COUNT` names.
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct {
    char text[4096], name[256], names[8][256], lowered[8][256], ptx[8192], log[256];
    int count, compiled;
    int (*callback)(void *, void *);
} Program;

int nvrtcVersion(int *major, int *minor) {
    *major = MAJOR;
    *minor = 0;
    return 0;
}

const char *nvrtcGetErrorString(int answer) { return answer ? "failed" : "succeeded"; }

int nvrtcCreateProgram(Program **out, const char *text, const char *name, int count, const char **headers, const char **names) {
    Program *program = calloc(1, sizeof *program);
    snprintf(program->text, sizeof program->text, "%s", text);
    snprintf(program->name, sizeof program->name, "%s", name ? name : "default_program");
    for (int i = 0; i < count; i++) {
        strcat(program->text, headers[i]);
        strcat(program->text, names[i]);
    }
    *out = program;
    return 0;
}

int nvrtcDestroyProgram(Program **program) {
    memset(*program, 'x', sizeof **program);
    free(*program);
    *program = NULL;
    return 0;
}

int nvrtcAddNameExpression(Program *program, const char *name) {
    if (program->compiled) return 8;
    snprintf(program->names[program->count++], 256, "%s", name);
    return 0;
}

int nvrtcSetFlowCallback(Program *program, int (*callback)(void *, void *), void *payload) {
    program->callback = callback;
    return 0;
}

// Adds the file that a text includes, from the folder of the program's name or from one that an option names.
static void include(Program *program, const char *folder, const char *file) {
    char path[1024];
    struct stat status;
    snprintf(path, sizeof path, "%s%s", folder, file);
    if (stat(path, &status)) return;
    FILE *stream = fopen(path, "r");
    if (!stream) return;
    size_t length = strlen(program->text);
    length += fread(program->text + length, 1, sizeof program->text - length - 1, stream);
    program->text[length] = 0;
    fclose(stream);
}

static void include_all(Program *program, int count, const char **options) {
    char file[256], folder[512], *end;
    if (strstr(program->text, "writes a file")) fclose(fopen("/dev/null", "w"));
    if (strstr(program->text, "lists files")) closedir(opendir("/"));
    if (sscanf(program->text, "#include \"%255[^\"]\"", file) != 1) return;
    snprintf(folder, sizeof folder, "%s", program->name);
    end = strrchr(folder, '/');
    *(end ? end + 1 : folder) = 0;
    include(program, folder, file);
    for (int i = 0; i < count; i++)
        if (!strncmp(options[i], "-I", 2)) snprintf(folder, sizeof folder, "%s/", options[i] + 2), include(program, folder, file);
}

int nvrtcCompileProgram(Program *program, int count, const char **options) {
    // This is not seen.
    int file = syscall(SYS_openat, AT_FDCWD, getenv("COUNT"), O_WRONLY | O_APPEND | O_CREAT, 0644);
    if (write(file, "compiled\n", 9) != 9) return 11;
    close(file);
    usleep(50000);
    if (program->callback && program->callback(NULL, NULL)) return 16;
    include_all(program, count, options);
    if (strstr(program->text, "a warning")) snprintf(program->log, sizeof program->log, "a warning of %s\n", program->name);
    if (strstr(program->text, "error")) return 6;
    snprintf(program->ptx, sizeof program->ptx, "ptx %d of %s", MAJOR, program->text);
    for (int i = 0; i < count; i++) {
        strcat(program->ptx, " ");
        strcat(program->ptx, options[i]);
    }
    for (int i = 0; i < program->count; i++) snprintf(program->lowered[i], 256, "_Z%.200s", program->names[i]);
    program->compiled = 1;
    return 0;
}

int nvrtcGetLoweredName(Program *program, const char *name, const char **lowered) {
    if (!program->compiled) return 9;
    for (int i = 0; i < program->count; i++)
        if (!strcmp(program->names[i], name)) return *lowered = program->lowered[i], 0;
    return *lowered = NULL, 10;
}

#define RESULT(kind, bytes, length)                                                                                    \
    int nvrtcGet##kind##Size(Program *program, size_t *size) { return *size = (length), 0; }                           \
    int nvrtcGet##kind(Program *program, char *out) { return memcpy(out, bytes, length), 0; }

// Machine code has zeros in it.
RESULT(PTX, program->ptx, program->compiled ? strlen(program->ptx) + 1 : 0)
RESULT(CUBIN, program->ptx + 3, program->compiled ? 64 : 0)
RESULT(ProgramLog, program->log, strlen(program->log) + 1)
int nvrtcGetLTOIRSize(Program *program, size_t *size) { return 7; }
int nvrtcGetLTOIR(Program *program, char *out) { return 7; }

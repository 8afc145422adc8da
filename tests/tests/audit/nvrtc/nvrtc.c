// A stand-in for NVRTC: its results tell everything that they depend on. Each compilation adds a line to the file that `COUNT` names:
// `shadow` if it's told another working directory than the program has.
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

typedef struct {
    char text[4096], name[256], names[8][256], lowered[8][256], ptx[8192], log[256];
    int count, compiled, compilations;
    int (*callback)(void *, void *);
    char *(*decode)(const char *, void *);
    void *argument;
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

// As observed: the program's own function decodes headers and text here, which are copied at once, and the options later. No answer is freed.
int __nvrtcCPEx(Program **out, const char *text, const char *name, int count, const char **headers, const char **names, int further,
                const int *kinds, void **values) {
    char *(*decode)(const char *, void *) = NULL;
    void *argument = NULL;
    const char *decoded[8];
    for (int i = 0; i < further; i++) {
        if (kinds[i] == 1) decode = (char *(*)(const char *, void *))values[i];
        else if (kinds[i] == 2) argument = values[i];
        else return 3;
    }
    for (int i = 0; i < count; i++) decoded[i] = decode ? strdup(decode(headers[i], argument)) : headers[i];
    if (decode && !(text = decode(text, argument))) return 3;
    nvrtcCreateProgram(out, text, name, count, decoded, names);
    (*out)->decode = decode;
    (*out)->argument = argument;
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

static const char *at_load;

__attribute__((constructor)) static void load(void) { at_load = getenv("NVRTC_AT_LOAD"); }

// What NVRTC asks for in each compilation, and puts into some results.
static void tell(Program *program) {
    char more[1024], folder[512];
    time_t now = time(NULL);
    const char *pwd = getenv("PWD"), *variable = getenv("NVRTC_VARIABLE");
    if (!getcwd(folder, sizeof folder)) *folder = 0;
    more[0] = 0;
    if (strstr(program->text, "tells the time")) snprintf(more, sizeof more, " %s", ctime(&now));
    if (strstr(program->text, "tells the place")) snprintf(more, sizeof more, " %s %s", pwd ? pwd : "", folder);
    if (strstr(program->text, "tells its length")) snprintf(more, sizeof more, " %zu", strlen(program->name));
    if (strstr(program->text, "tells variables"))
        snprintf(more, sizeof more, " %s %s", at_load ? at_load : "", variable ? variable : "");
    if (strstr(program->text, "tells its history")) snprintf(more, sizeof more, " compilation %d", ++program->compilations);
    strcat(program->ptx, more);
}

int nvrtcCompileProgram(Program *program, int count, const char **options) {
    // This isn't seen, and tells the place.
    char folder[512];
    const char *line = getcwd(folder, sizeof folder) && !strncmp(folder, "/kernel-registry/", 17) ? "shadow\n" : "compiled\n";
    int file = syscall(SYS_openat, AT_FDCWD, getenv("COUNT"), O_WRONLY | O_APPEND | O_CREAT, 0644);
    if (write(file, line, strlen(line)) < 1) return 11;
    close(file);
    usleep(50000);
    const char *decoded[8];
    // All are decoded before one is read.
    for (int i = 0; program->decode && i < count; i++)
        if (!(decoded[i] = program->decode(options[i], program->argument))) return 5;
    if (program->decode) options = decoded;
    if (program->callback && program->callback(NULL, NULL)) return 16;
    include_all(program, count, options);
    if (strstr(program->text, "a warning")) snprintf(program->log, sizeof program->log, "a warning of %s\n", program->name);
    if (strstr(program->text, "error")) return 6;
    snprintf(program->ptx, sizeof program->ptx, "ptx %d of %s", MAJOR, program->text);
    for (int i = 0; i < count; i++) {
        if (!strcmp(options[i], "--no-cache")) continue;
        strcat(program->ptx, " ");
        strcat(program->ptx, options[i]);
    }
    tell(program);
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

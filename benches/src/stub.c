// A driver that does nothing, to show the cost of a launch above the driver. A real one takes a hundred times as
// long, and varies by more than that.

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef int Result;
typedef void *Handle;

// Handles must differ, and are never dereferenced.
static uintptr_t last = 0x1000;
static Handle handle(void) { return (Handle)(last += 64); }
static Handle context = (Handle)0x1000;
static __thread Handle current;

Result cuInit(unsigned flags) { return 0; }
Result cuDriverGetVersion(int *version) { *version = 13000; return 0; }
Result cuGetErrorName(int error, const char **text) { *text = "ERROR"; return 0; }
Result cuGetErrorString(int error, const char **text) { *text = "an error"; return 0; }

Result cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }
Result cuDeviceGetCount(int *count) { *count = 1; return 0; }
Result cuDeviceGetName(char *name, int size, int device) { strncpy(name, "stub", size); return 0; }
Result cuDeviceGetAttribute(int *value, int which, int device) {
    switch (which) {
    case 16: *value = 132; break;     // multiprocessors
    case 39: *value = 2048; break;    // threads of each
    case 75: *value = 9; break;       // compute capability
    case 97: *value = 232448; break;  // shared memory of a block
    case 115: *value = 1; break;      // memory pools
    default: *value = 0;
    }
    return 0;
}

Result cuDevicePrimaryCtxRetain(Handle *retained, int device) { *retained = context; return 0; }
Result cuDevicePrimaryCtxRelease_v2(int device) { return 0; }
Result cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) { *flags = 0; *active = 1; return 0; }
Result cuCtxGetCurrent(Handle *got) { *got = current; return 0; }
Result cuCtxSetCurrent(Handle made) { current = made; return 0; }
Result cuCtxGetDevice(int *device) { *device = 0; return 0; }
Result cuCtxGetId(Handle context, unsigned long long *id) { *id = 1; return 0; }
Result cuCtxGetLimit(size_t *value, int which) { *value = 65536; return 0; }
Result cuCtxSynchronize(void) { return 0; }
Result cuThreadExchangeStreamCaptureMode(int *mode) { *mode = 0; return 0; }

Result cuModuleGetLoadingMode(int *mode) { *mode = 2; return 0; }
Result cuModuleLoadData(Handle *module, Handle image) { *module = handle(); return 0; }
Result cuModuleLoadDataEx(Handle *module, Handle image, unsigned count, Handle options, Handle values) {
    *module = handle();
    return 0;
}
Result cuModuleUnload(Handle module) { return 0; }
Result cuModuleGetFunction(Handle *function, Handle module, const char *name) { *function = handle(); return 0; }
Result cuLibraryLoadData(Handle *library, Handle image, Handle a, Handle b, unsigned c, Handle d, Handle e, unsigned f) {
    *library = handle();
    return 0;
}
Result cuLibraryGetKernel(Handle *kernel, Handle library, const char *name) { *kernel = handle(); return 0; }
Result cuKernelGetFunction(Handle *function, Handle kernel) { *function = kernel; return 0; }
Result cuFuncSetAttribute(Handle function, int which, int value) { return 0; }
Result cuFuncGetAttribute(int *value, int which, Handle function) {
    switch (which) {
    case 0: *value = 1024; break;   // threads of a block
    case 8: *value = 49152; break;  // dynamic shared memory
    default: *value = 0;
    }
    return 0;
}

Result cuMemGetInfo_v2(size_t *free, size_t *total) { *free = *total = (size_t)1 << 37; return 0; }
Result cuMemFree_v2(uint64_t address) { return 0; }
// All memory is that of a pool (17) on device 0 (9).
Result cuPointerGetAttribute(void *value, int which, uint64_t address) {
    if (which == 17) *(uint64_t *)value = 1;
    else *(int *)value = 0;
    return 0;
}
Result cuMemAllocAsync(uint64_t *address, size_t size, Handle stream) { *address = (uint64_t)handle(); return 0; }
Result cuMemFreeAsync(uint64_t address, Handle stream) { return 0; }
Result cuMemsetD8Async(uint64_t address, unsigned char value, size_t size, Handle stream) { return 0; }

Result cuStreamCreate(Handle *stream, unsigned flags) { *stream = handle(); return 0; }
Result cuStreamGetFlags(Handle stream, unsigned *flags) { *flags = 1; return 0; }
Result cuStreamDestroy_v2(Handle stream) { return 0; }
Result cuStreamSynchronize(Handle stream) { return 0; }
Result cuStreamWaitEvent(Handle stream, Handle event, unsigned flags) { return 0; }
Result cuEventCreate(Handle *event, unsigned flags) { *event = handle(); return 0; }
Result cuEventRecord(Handle event, Handle stream) { return 0; }
Result cuEventDestroy_v2(Handle event) { return 0; }

Result cuLaunchKernel(Handle function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                      unsigned shared, Handle stream, Handle *args, Handle *extra) {
    return 0;
}
Result cuLaunchKernelEx(Handle config, Handle function, Handle *args, Handle *extra) { return 0; }

// Functions asked for by address, `cuFuncLoad` and `cuFuncIsLoaded`, do not exist.
Result cuGetProcAddress_v2(const char *name, Handle *address, int version, uint64_t flags, Handle status) {
    *address = NULL;
    return 500;
}

// A library that CUDA_INJECTION64_PATH injects. It appends a line for each lazy load that NVIDIA's CUPTI sees to the file that
// CUPTI_COUNTS names: what was loaded, the microseconds that the load took, and when the load began.
#include <cstdio>
#include <cstdlib>
#include <cupti.h>

static FILE *file;

static void CUPTIAPI request(uint8_t **buffer, size_t *size, size_t *most) {
    *size = 8 << 20;
    *buffer = static_cast<uint8_t *>(aligned_alloc(8, *size));
    *most = 0;
}

static void CUPTIAPI complete(CUcontext, uint32_t, uint8_t *buffer, size_t, size_t valid) {
    CUpti_Activity *record = nullptr;
    while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
        if (record->kind != CUPTI_ACTIVITY_KIND_OVERHEAD) continue;
        // These fields are the same in all versions of this record.
        auto *overhead = reinterpret_cast<CUpti_ActivityOverhead2 *>(record);
        unsigned kind = overhead->overheadKind >> 16;
        if (kind != 4 && kind != 5) continue;
        unsigned long long begun = overhead->start, ended = overhead->end;
        fprintf(file, "%s %llu %llu\n", kind == 5 ? "function" : "module", (ended - begun) / 1000, begun / 1000);
    }
    free(buffer);
}

static void finish() {
    cuptiActivityFlushAll(1);
    fprintf(file, "end 0\n");
    fclose(file);
}

extern "C" int InitializeInjection() {
    const char *path = getenv("CUPTI_COUNTS");
    file = path ? fopen(path, "a") : nullptr;
    if (!file) return 0;
    if (cuptiActivityEnable(CUPTI_ACTIVITY_KIND_OVERHEAD) != CUPTI_SUCCESS) return 0;
    if (cuptiActivityRegisterCallbacks(request, complete) != CUPTI_SUCCESS) return 0;
    atexit(finish);
    return 1;
}

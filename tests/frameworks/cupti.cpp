// Counts the lazy loads that NVIDIA's CUPTI sees, injected by CUDA_INJECTION64_PATH. Appends a line to the file that
// CUPTI_COUNTS names: functions loaded lazily, and modules loaded by the runtime API.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cupti.h>

static std::atomic<unsigned> functions, modules;

static void CUPTIAPI request(uint8_t **buffer, size_t *size, size_t *most) {
    *size = 8 << 20;
    *buffer = static_cast<uint8_t *>(aligned_alloc(8, *size));
    *most = 0;
}

static void CUPTIAPI complete(CUcontext, uint32_t, uint8_t *buffer, size_t, size_t valid) {
    CUpti_Activity *record = nullptr;
    while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
        if (record->kind != CUPTI_ACTIVITY_KIND_OVERHEAD) continue;
        // The first fields are the same in all versions of this record.
        switch (reinterpret_cast<CUpti_ActivityOverhead *>(record)->overheadKind >> 16) {
        case 5: functions++; break;
        case 4: modules++; break;
        }
    }
    free(buffer);
}

static void finish() {
    cuptiActivityFlushAll(1);
    const char *path = getenv("CUPTI_COUNTS");
    FILE *file = path ? fopen(path, "a") : nullptr;
    if (!file) return;
    fprintf(file, "%u %u\n", functions.load(), modules.load());
    fclose(file);
}

extern "C" int InitializeInjection() {
    if (cuptiActivityEnable(CUPTI_ACTIVITY_KIND_OVERHEAD) != CUPTI_SUCCESS) return 0;
    if (cuptiActivityRegisterCallbacks(request, complete) != CUPTI_SUCCESS) return 0;
    atexit(finish);
    return 1;
}

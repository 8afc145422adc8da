// A driver without a device, which says nothing: NVRTC itself asks the driver for a cache.
int cuInit(unsigned flags) { return 100; }
int cuDriverGetVersion(int *version) { return *version = 13000, 0; }
int cuGetProcAddress_v2(const char *name, void **found, int version, long flags, int *answer) { return *found = 0, 500; }
int cuGetExportTable(const void **table, const void *id) { return 500; }

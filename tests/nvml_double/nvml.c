/* libnvidia-ml.so.1, answering from a machine profile. Signatures as in nvml.h of CUDA 13; loaded by the real pynvml. */
#include "profile.h"

typedef int answer;
typedef struct { int index, mig; } device;
static int calls[64];
enum { OK = 0, UNINITIALIZED = 1, INVALID = 2, UNSUPPORTED = 3, NOT_FOUND = 6, SHORT = 7, LOST = 15, MISMATCH = 25, UNKNOWN = 999 };

static device devices[64], instances[64];

static answer code(const value *v) {
    static const struct { const char *word; answer code; } words[] = {
        {"Uninitialized", 1}, {"Invalid Argument", 2}, {"Not Supported", 3}, {"Insufficient Permissions", 4},
        {"Not Found", 6}, {"Driver Not Loaded", 9}, {"Timeout", 10}, {"Function Not Found", 13},
        {"Corrupted InfoROM", 14}, {"GPU is lost", 15}, {"GPU requires restart", 16}, {"Operating System blocked", 17},
        {"Driver/library version mismatch", 18}, {"Argument version mismatch", 25}, {"Deprecated", 26},
        {"Unknown Error", 999}};
    if (!v || v->kind != TEXT || strncmp(v->text, "ERR ", 4)) return OK;
    for (size_t i = 0; i < sizeof words / sizeof *words; ++i)
        if (!strcmp(v->text + 4, words[i].word)) return words[i].code;
    return atoi(v->text + 4) ? atoi(v->text + 4) : UNKNOWN;
}

/* What this call answers for this GPU; counts calls, so that a GPU can be lost in the middle, or a call can hang. */
static value *look(const device *d, const char *call, int a, int b, answer *refused) {
    char exact[160];
    value *v = NULL, *after;
    refresh();
    *refused = OK;
    if (!root) { *refused = UNINITIALIZED; return NULL; }
    if (!d) { *refused = INVALID; return NULL; }
    if (d->mig && strcmp(call, "nvmlDeviceGetUUID")) { *refused = UNSUPPORTED; return NULL; }
    after = of_gpu(d->index, "lost_after");
    if (after && ++calls[d->index] > after->number) { *refused = LOST; return NULL; }
    if ((*refused = code(of_gpu(d->index, "every call"))) != OK) return NULL;
    if (d->mig) snprintf(exact, sizeof exact, "%s[MIG]", call);
    else if (b >= 0) snprintf(exact, sizeof exact, "%s[%d,%d]", call, a, b);
    else snprintf(exact, sizeof exact, "%s[%d]", call, a);
    if (a >= 0 || d->mig) v = of_gpu(d->index, exact);
    if (!v) v = of_gpu(d->index, call);
    if (!v || v->kind == NOTHING) { *refused = UNSUPPORTED; return NULL; }
    if ((*refused = code(v)) != OK) return NULL;
    if (v->kind == TEXT && !strcmp(v->text, "HANG")) {
        pthread_mutex_unlock(&lock);
        for (;;) pause();
    }
    return v;
}

static answer number(const device *d, const char *call, int a, int b, int place, void *out, size_t size) {
    answer refused;
    pthread_mutex_lock(&lock);
    value *v = look(d, call, a, b, &refused);
    if (v && v->kind == LIST) v = item(v, place);
    if (v) {
        unsigned long long whole = v->number < 0 ? (unsigned long long)(long long)v->number : (unsigned long long)v->number;
        memcpy(out, &whole, size);
    }
    pthread_mutex_unlock(&lock);
    return v ? OK : refused ? refused : UNSUPPORTED;
}

static answer text(const device *d, const char *call, char *out, unsigned size) {
    answer refused;
    pthread_mutex_lock(&lock);
    value *v = look(d, call, -1, -1, &refused);
    if (v && v->kind == TEXT && strlen(v->text) < size) strcpy(out, v->text);
    else if (v) refused = v->kind == TEXT ? SHORT : UNSUPPORTED;
    pthread_mutex_unlock(&lock);
    return refused;
}

static answer part(const device *d, const char *call, int a, const char *name, void *out, size_t size) {
    answer refused;
    pthread_mutex_lock(&lock);
    value *v = look(d, call, a, -1, &refused), *inner = v ? member(v, name) : NULL;
    unsigned long long whole = inner ? (unsigned long long)inner->number : 0;
    if (v) memcpy(out, &whole, size);
    pthread_mutex_unlock(&lock);
    return refused;
}

#define UINT(name) answer name(device *d, unsigned *out) { return number(d, #name, -1, -1, 0, out, sizeof *out); }
#define UINT1(name) answer name(device *d, unsigned a, unsigned *out) { return number(d, #name, a, -1, 0, out, sizeof *out); }
#define ULONG(name) answer name(device *d, unsigned long long *out) { return number(d, #name, -1, -1, 0, out, sizeof *out); }
#define TWO(name) answer name(device *d, unsigned *a, unsigned *b) { \
    answer r = number(d, #name, -1, -1, 0, a, sizeof *a); return r ? r : number(d, #name, -1, -1, 1, b, sizeof *b); }
#define STRING(name) answer name(device *d, char *out, unsigned size) { return text(d, #name, out, size); }

UINT(nvmlDeviceGetArchitecture) UINT(nvmlDeviceGetBrand) UINT(nvmlDeviceGetComputeMode) UINT(nvmlDeviceGetMinorNumber)
UINT(nvmlDeviceGetCurrPcieLinkGeneration) UINT(nvmlDeviceGetCurrPcieLinkWidth) UINT(nvmlDeviceGetMaxPcieLinkGeneration)
UINT(nvmlDeviceGetMaxPcieLinkWidth) UINT(nvmlDeviceGetGpuMaxPcieLinkGeneration) UINT(nvmlDeviceGetEnforcedPowerLimit)
UINT(nvmlDeviceGetFanSpeed) UINT(nvmlDeviceGetMaxMigDeviceCount) UINT(nvmlDeviceGetMemoryBusWidth)
UINT(nvmlDeviceGetModuleId) UINT(nvmlDeviceGetNumaNodeId) UINT(nvmlDeviceGetPcieReplayCounter)
UINT(nvmlDeviceGetPersistenceMode) UINT(nvmlDeviceGetPowerManagementDefaultLimit) UINT(nvmlDeviceGetPowerManagementLimit)
UINT(nvmlDeviceGetPowerUsage) UINT(nvmlDeviceGetRetiredPagesPendingStatus) UINT(nvmlDeviceGetVirtualizationMode)
UINT(nvmlDeviceGetNumGpuCores) UINT(nvmlDeviceGetPerformanceState)
UINT1(nvmlDeviceGetApplicationsClock) UINT1(nvmlDeviceGetClockInfo) UINT1(nvmlDeviceGetDefaultApplicationsClock)
UINT1(nvmlDeviceGetMaxClockInfo) UINT1(nvmlDeviceGetNvLinkRemoteDeviceType) UINT1(nvmlDeviceGetNvLinkState)
UINT1(nvmlDeviceGetNvLinkVersion) UINT1(nvmlDeviceGetPcieThroughput) UINT1(nvmlDeviceGetTemperature)
UINT1(nvmlDeviceGetTemperatureThreshold)
ULONG(nvmlDeviceGetCurrentClocksEventReasons) ULONG(nvmlDeviceGetCurrentClocksThrottleReasons)
ULONG(nvmlDeviceGetTotalEnergyConsumption)
TWO(nvmlDeviceGetEccMode) TWO(nvmlDeviceGetMigMode) TWO(nvmlDeviceGetPowerManagementLimitConstraints)
STRING(nvmlDeviceGetBoardPartNumber) STRING(nvmlDeviceGetInforomImageVersion) STRING(nvmlDeviceGetName)
STRING(nvmlDeviceGetSerial) STRING(nvmlDeviceGetUUID) STRING(nvmlDeviceGetVbiosVersion)

answer nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    pthread_mutex_lock(&lock);
    refresh();
    answer refused = root ? code(member(member(root, "system"), "nvmlInit")) : UNKNOWN;
    for (int i = 0; i < 64; ++i) devices[i].index = instances[i].index = i, instances[i].mig = 1;
    value *v = member(member(root, "system"), "nvmlInit");
    pthread_mutex_unlock(&lock);
    if (v && v->kind == TEXT && !strcmp(v->text, "HANG")) for (;;) pause();
    return refused;
}
answer nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
answer nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(answer a) { (void)a; return "an error of the double"; }

static answer system_text(const char *call, char *out, unsigned size) {
    pthread_mutex_lock(&lock);
    value *v = member(member(root, "system"), call);
    answer refused = v ? code(v) : UNSUPPORTED;
    if (!refused && strlen(v->text) < size) strcpy(out, v->text);
    pthread_mutex_unlock(&lock);
    return refused;
}
answer nvmlSystemGetDriverVersion(char *out, unsigned size) { return system_text("nvmlSystemGetDriverVersion", out, size); }
answer nvmlSystemGetNVMLVersion(char *out, unsigned size) { return system_text("nvmlSystemGetNVMLVersion", out, size); }
answer nvmlSystemGetCudaDriverVersion_v2(int *out) {
    pthread_mutex_lock(&lock);
    value *v = member(member(root, "system"), "nvmlSystemGetCudaDriverVersion");
    answer refused = v ? code(v) : UNSUPPORTED;
    if (!refused) *out = (int)v->number;
    pthread_mutex_unlock(&lock);
    return refused;
}
answer nvmlSystemGetCudaDriverVersion(int *out) { return nvmlSystemGetCudaDriverVersion_v2(out); }

answer nvmlDeviceGetCount_v2(unsigned *out) {
    pthread_mutex_lock(&lock);
    refresh();
    *out = gpu_count();
    pthread_mutex_unlock(&lock);
    return OK;
}
answer nvmlDeviceGetHandleByIndex_v2(unsigned index, device **out) {
    pthread_mutex_lock(&lock);
    refresh();
    answer refused = (int)index < gpu_count() ? code(of_gpu(index, "nvmlDeviceGetHandleByIndex")) : INVALID;
    if (!refused) *out = &devices[index];
    pthread_mutex_unlock(&lock);
    return refused;
}
answer nvmlDeviceGetHandleByUUID(const char *uuid, device **out) {
    answer refused = NOT_FOUND;
    pthread_mutex_lock(&lock);
    refresh();
    for (int i = 0; i < gpu_count(); ++i) {
        value *v = of_gpu(i, "nvmlDeviceGetUUID");
        if (v && v->kind == TEXT && !strcmp(v->text, uuid)) {
            refused = code(of_gpu(i, "nvmlDeviceGetHandleByUUID"));
            if (!refused) *out = &devices[i];
        }
    }
    pthread_mutex_unlock(&lock);
    return refused;
}
answer nvmlDeviceGetMigDeviceHandleByIndex(device *d, unsigned index, device **out) {
    answer refused;
    pthread_mutex_lock(&lock);
    value *v = look(d, "nvmlDeviceGetUUID[MIG]", -1, -1, &refused);
    pthread_mutex_unlock(&lock);
    if (!v || index) return NOT_FOUND;
    *out = &instances[d->index];
    return OK;
}

answer nvmlDeviceGetCudaComputeCapability(device *d, int *major, int *minor) {
    answer r = number(d, "nvmlDeviceGetCudaComputeCapability", -1, -1, 0, major, sizeof *major);
    return r ? r : number(d, "nvmlDeviceGetCudaComputeCapability", -1, -1, 1, minor, sizeof *minor);
}
answer nvmlDeviceGetRemappedRows(device *d, unsigned *a, unsigned *b, unsigned *c, unsigned *e) {
    unsigned *outs[] = {a, b, c, e};
    for (int i = 0; i < 4; ++i) {
        answer r = number(d, "nvmlDeviceGetRemappedRows", -1, -1, i, outs[i], sizeof **outs);
        if (r) return r;
    }
    return OK;
}
answer nvmlDeviceValidateInforom(device *d) {
    unsigned any;
    answer r = number(d, "nvmlDeviceValidateInforom", -1, -1, 0, &any, sizeof any);
    return r;
}
answer nvmlDeviceGetMemoryInfo(device *d, unsigned long long *out) {
    static const char *names[] = {"total", "free", "used"};
    answer r = OK;
    for (int i = 0; i < 3 && !r; ++i) r = part(d, "nvmlDeviceGetMemoryInfo", -1, names[i], out + i, sizeof *out);
    return r;
}
struct memory { unsigned version; unsigned long long values[4]; };
answer nvmlDeviceGetMemoryInfo_v2(device *d, struct memory *out) {
    static const char *names[] = {"total", "reserved", "free", "used"};
    answer r = OK;
    for (int i = 0; i < 4 && !r; ++i) r = part(d, "nvmlDeviceGetMemoryInfo_v2", -1, names[i], out->values + i, 8);
    return r;
}
answer nvmlDeviceGetBAR1MemoryInfo(device *d, unsigned long long *out) {
    static const char *names[] = {"bar1Total", "bar1Free", "bar1Used"};
    answer r = OK;
    for (int i = 0; i < 3 && !r; ++i) r = part(d, "nvmlDeviceGetBAR1MemoryInfo", -1, names[i], out + i, sizeof *out);
    return r;
}
answer nvmlDeviceGetUtilizationRates(device *d, unsigned *out) {
    answer r = part(d, "nvmlDeviceGetUtilizationRates", -1, "gpu", out, sizeof *out);
    return r ? r : part(d, "nvmlDeviceGetUtilizationRates", -1, "memory", out + 1, sizeof *out);
}
answer nvmlDeviceGetViolationStatus(device *d, unsigned policy, unsigned long long *out) {
    answer r = part(d, "nvmlDeviceGetViolationStatus", policy, "referenceTime", out, sizeof *out);
    return r ? r : part(d, "nvmlDeviceGetViolationStatus", policy, "violationTime", out + 1, sizeof *out);
}
answer nvmlDeviceGetTotalEccErrors(device *d, unsigned kind, unsigned counter, unsigned long long *out) {
    return number(d, "nvmlDeviceGetTotalEccErrors", kind, counter, 0, out, sizeof *out);
}
answer nvmlDeviceGetNvLinkErrorCounter(device *d, unsigned link, unsigned counter, unsigned long long *out) {
    return number(d, "nvmlDeviceGetNvLinkErrorCounter", link, counter, 0, out, sizeof *out);
}
answer nvmlDeviceGetSramEccErrorStatus(device *d, char *out) { /* the version, eleven counts, the flag */
    return number(d, "nvmlDeviceGetSramEccErrorStatus", -1, -1, 0, out + 96, sizeof(unsigned));
}
answer nvmlDeviceGetMarginTemperature(device *d, unsigned *out) {
    return number(d, "nvmlDeviceGetMarginTemperature", -1, -1, 0, out + 1, sizeof *out); /* after the version */
}
answer nvmlDeviceGetRepairStatus(device *d, unsigned *out) {
    answer r = number(d, "nvmlDeviceGetRepairStatus", -1, -1, 0, out + 1, sizeof *out);
    return r ? r : number(d, "nvmlDeviceGetRepairStatus", -1, -1, 1, out + 2, sizeof *out);
}
answer nvmlDeviceGetUnrepairableMemoryFlag_v1(device *d, unsigned *out) {
    return number(d, "nvmlDeviceGetUnrepairableMemoryFlag_v1", -1, -1, 0, out + 1, sizeof *out);
}
answer nvmlDeviceGetRetiredPages(device *d, unsigned cause, unsigned *count, unsigned long long *pages) {
    answer refused;
    pthread_mutex_lock(&lock);
    value *v = look(d, "nvmlDeviceGetRetiredPages", cause, -1, &refused);
    unsigned room = *count;
    if (v) *count = length(v);
    for (unsigned i = 0; v && pages && i < *count && i < room; ++i) pages[i] = (unsigned long long)item(v, i)->number;
    pthread_mutex_unlock(&lock);
    return refused ? refused : !pages && *count ? SHORT : OK;
}
answer nvmlDeviceGetCpuAffinity(device *d, unsigned words, unsigned long *out) {
    answer refused;
    pthread_mutex_lock(&lock);
    value *v = look(d, "nvmlDeviceGetCpuAffinity", -1, -1, &refused);
    memset(out, 0, words * sizeof *out);
    for (value *cpu = v ? v->first : NULL; cpu; cpu = cpu->next) {
        unsigned n = (unsigned)cpu->number;
        if (n / 64 < words) out[n / 64] |= 1UL << n % 64;
    }
    pthread_mutex_unlock(&lock);
    return refused;
}

struct pci { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; };

static void address(const char *bus_id, struct pci *out) {
    snprintf(out->bus_id, sizeof out->bus_id, "%s", bus_id);
    snprintf(out->legacy, sizeof out->legacy, "%.15s", strlen(bus_id) > 12 ? bus_id + strlen(bus_id) - 12 : bus_id);
    sscanf(bus_id, "%x:%x:%x", &out->domain, &out->bus, &out->device);
}
answer nvmlDeviceGetPciInfo_v3(device *d, struct pci *out) {
    answer refused;
    memset(out, 0, sizeof *out);
    pthread_mutex_lock(&lock);
    value *v = look(d, "nvmlDeviceGetPciInfo", -1, -1, &refused);
    if (v) {
        address(member(v, "busId")->text, out);
        out->id = (unsigned)member(v, "pciDeviceId")->number;
        out->subsystem = (unsigned)member(v, "pciSubSystemId")->number;
    }
    pthread_mutex_unlock(&lock);
    return refused;
}
answer nvmlDeviceGetNvLinkRemotePciInfo_v2(device *d, unsigned link, struct pci *out) {
    answer refused;
    memset(out, 0, sizeof *out);
    pthread_mutex_lock(&lock);
    value *v = look(d, "nvmlDeviceGetNvLinkRemotePciInfo", link, -1, &refused);
    if (v) address(v->text, out);
    pthread_mutex_unlock(&lock);
    return refused;
}

struct process { unsigned pid; unsigned long long bytes; unsigned instance, compute; };

static answer processes(device *d, const char *call, unsigned *count, struct process *out) {
    answer refused;
    pthread_mutex_lock(&lock);
    value *v = look(d, call, -1, -1, &refused);
    unsigned room = *count, found = length(v);
    for (unsigned i = 0; v && out && i < found && i < room; ++i) {
        value *row = item(v, i), *bytes = member(row, "bytes");
        out[i].pid = (unsigned)member(row, "pid")->number;
        out[i].bytes = bytes && bytes->kind == NUMBER ? (unsigned long long)bytes->number : ~0ULL;
        out[i].instance = out[i].compute = ~0U;
    }
    pthread_mutex_unlock(&lock);
    if (refused) return refused;
    *count = found;
    return found > (out ? room : 0) ? SHORT : OK;
}
#define PROCESSES(kind) \
    answer nvmlDeviceGet##kind##RunningProcesses_v3(device *d, unsigned *n, struct process *out) { \
        return processes(d, "nvmlDeviceGet" #kind "RunningProcesses", n, out); } \
    answer nvmlDeviceGet##kind##RunningProcesses_v2(device *d, unsigned *n, struct process *out) { \
        return processes(d, "nvmlDeviceGet" #kind "RunningProcesses", n, out); }
PROCESSES(Compute) PROCESSES(Graphics) PROCESSES(MPSCompute)

struct field { unsigned id, scope; long long timestamp, latency; unsigned type; answer refused; unsigned long long whole; };

answer nvmlDeviceGetFieldValues(device *d, int count, struct field *rows) {
    answer refused = OK;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < count && !refused; ++i) {
        char name[32], any[16];
        value *fields = look(d, "fields", -1, -1, &refused), *v;
        if (refused == UNSUPPORTED) refused = OK;
        snprintf(name, sizeof name, "%u/%u", rows[i].id, rows[i].scope);
        snprintf(any, sizeof any, "%u", rows[i].id);
        v = member(fields, name);
        if (!v) v = member(fields, any);
        rows[i].refused = !v ? UNSUPPORTED : code(v);
        if (v && v->kind == NUMBER) {
            rows[i].whole = (unsigned long long)v->number;
            rows[i].type = v->number < 4294967296.0 ? 1 : 3;
        }
    }
    pthread_mutex_unlock(&lock);
    return refused;
}

static const char *fabric_numbers[] = {"status", "cliqueId", "state", "healthMask"};

static answer fabric(device *d, unsigned *numbers, int how_many) {
    answer r = OK;
    for (int i = 0; i < how_many && !r; ++i) r = part(d, "nvmlDeviceGetGpuFabricInfo", -1, fabric_numbers[i], numbers + i, 4);
    return r;
}
answer nvmlDeviceGetGpuFabricInfoV(device *d, unsigned *out) { /* version, UUID of 16 bytes, the numbers */
    return out[0] >> 24 > 3 ? MISMATCH : fabric(d, out + 5, 4);
}
answer nvmlDeviceGetGpuFabricInfo(device *d, unsigned *out) { return fabric(d, out + 4, 3); }

/* Pairs: "pairs": {"0-1": {call: value}}, lower index first, else "pair": {call: value}. */
static answer pair(device *a, device *b, const char *call, int place, unsigned *out) {
    answer refused;
    char name[16], directed[16];
    pthread_mutex_lock(&lock);
    look(a, "nvmlDeviceGetUUID", -1, -1, &refused);
    if (!refused) look(b, "nvmlDeviceGetUUID", -1, -1, &refused);
    if (!refused) {
        int low = a->index < b->index ? a->index : b->index, high = a->index + b->index - low;
        snprintf(name, sizeof name, "%d-%d", low, high);
        snprintf(directed, sizeof directed, "%d>%d", a->index, b->index);
        value *pairs = member(root, "pairs"), *v = member(member(pairs, directed), call);
        if (!v) v = member(member(pairs, name), call);
        if (!v) v = member(member(root, "pair"), call);
        if (v && v->kind == LIST) v = item(v, place);
        refused = v ? code(v) : UNSUPPORTED;
        if (!refused) *out = (unsigned)v->number;
    }
    pthread_mutex_unlock(&lock);
    return refused;
}
answer nvmlDeviceGetTopologyCommonAncestor(device *a, device *b, unsigned *out) {
    return pair(a, b, "nvmlDeviceGetTopologyCommonAncestor", 0, out);
}
answer nvmlDeviceGetP2PStatus(device *a, device *b, unsigned capability, unsigned *out) {
    return pair(a, b, "nvmlDeviceGetP2PStatus", capability, out);
}

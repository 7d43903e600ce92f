/* libcuda.so.1, answering the facts of the driver API from the same machine profile. It cannot compute. */
#include "profile.h"

static int initialized;

static int number_of(value *of, const char *name, int otherwise) {
    value *v = member(of, name);
    return v && v->kind == NUMBER ? (int)v->number : otherwise;
}

/* CUDA sees the GPUs of "cuda": {"visible": [0, 2]}, all by default, none where CUDA_VISIBLE_DEVICES is empty. */
static int visible(int place) {
    value *list = member(member(root, "cuda"), "visible");
    if (getenv("CUDA_VISIBLE_DEVICES") && !*getenv("CUDA_VISIBLE_DEVICES")) return -1;
    if (list) return item(list, place) ? (int)item(list, place)->number : -1;
    return place < gpu_count() ? place : -1;
}

#define ENTER int result = 0; pthread_mutex_lock(&lock); refresh();
#define LEAVE pthread_mutex_unlock(&lock); return result;

int cuDriverGetVersion(int *out) {
    ENTER
    *out = number_of(member(root, "system"), "nvmlSystemGetCudaDriverVersion", 12040);
    LEAVE
}
int cuInit(unsigned flags) {
    (void)flags;
    ENTER
    value *v = member(member(root, "cuda"), "cuInit");
    result = v && v->kind == NUMBER ? (int)v->number : visible(0) < 0 ? 100 : 0;
    initialized = !result;
    if (v && v->kind == TEXT) { pthread_mutex_unlock(&lock); for (;;) pause(); }
    LEAVE
}
static int primary_context;
int cuDevicePrimaryCtxRetain(void **out, int device) {
    ENTER
    result = initialized && visible(device) >= 0 ? 0 : 3;
    primary_context = !result;
    *out = &primary_context;
    LEAVE
}
int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) {
    ENTER
    (void)device;
    *flags = 0;
    *active = primary_context;
    LEAVE
}
int cuDeviceGetCount(int *out) {
    ENTER
    if (!initialized) result = 3;
    for (*out = 0; visible(*out) >= 0; ++*out) {}
    LEAVE
}
int cuDeviceGet(int *out, int ordinal) {
    ENTER
    result = visible(ordinal) < 0 ? 101 : 0;
    *out = ordinal;
    LEAVE
}
int cuDeviceGetName(char *out, int size, int device) {
    ENTER
    value *v = of_gpu(visible(device), "cuda name");
    if (!v) v = of_gpu(visible(device), "nvmlDeviceGetName");
    snprintf(out, size, "%s", v ? v->text : "");
    LEAVE
}
int cuDeviceGetPCIBusId(char *out, int size, int device) {
    ENTER
    value *v = member(of_gpu(visible(device), "nvmlDeviceGetPciInfo"), "busId");
    snprintf(out, size, "%s", v ? v->text + 4 : "");
    LEAVE
}
int cuDeviceTotalMem_v2(size_t *out, int device) {
    ENTER
    value *v = of_gpu(visible(device), "cuda memory");
    *out = v ? (size_t)v->number : 0;
    LEAVE
}
int cuDeviceGetUuid_v2(unsigned char *out, int device) {
    ENTER
    value *v = of_gpu(visible(device), "cuda uuid");
    if (!v) v = of_gpu(visible(device), "nvmlDeviceGetUUID");
    const char *at = v ? strchr(v->text, '-') : NULL;
    for (int i = 0; at && i < 16; ++i) {
        unsigned byte = 0;
        while (*at == '-') ++at;
        sscanf(at, "%2x", &byte);
        out[i] = byte;
        at += 2;
    }
    LEAVE
}
int cuDeviceGetAttribute(int *out, int attribute, int device) {
    ENTER
    char name[16];
    snprintf(name, sizeof name, "%d", attribute);
    value *v = member(of_gpu(visible(device), "cuda attributes"), name);
    if (v) *out = (int)v->number; else result = 1;
    LEAVE
}
int cuDeviceCanAccessPeer(int *out, int device, int peer) {
    ENTER
    char name[16];
    int a = visible(device), b = visible(peer);
    snprintf(name, sizeof name, "%d-%d", a < b ? a : b, a < b ? b : a);
    *out = number_of(member(member(root, "pairs"), name), "can access peer", number_of(member(root, "pair"), "can access peer", 0));
    LEAVE
}
int cuGetErrorName(int error, const char **out) {
    static const struct { int code; const char *name; } names[] = {
        {1, "CUDA_ERROR_INVALID_VALUE"}, {3, "CUDA_ERROR_NOT_INITIALIZED"}, {100, "CUDA_ERROR_NO_DEVICE"},
        {101, "CUDA_ERROR_INVALID_DEVICE"}, {802, "CUDA_ERROR_SYSTEM_NOT_READY"},
        {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"}, {999, "CUDA_ERROR_UNKNOWN"}};
    *out = "CUDA_ERROR_UNKNOWN";
    for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
        if (names[i].code == error) *out = names[i].name;
    return 0;
}

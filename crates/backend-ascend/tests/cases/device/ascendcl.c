/* A stand-in for CANN's libascendcl.so whose device is this host's memory.
 *
 * It keeps the rules that callers are held to: a context must be bound, kernels run only when their stream is waited for,
 * arguments must be memory that was allocated and not freed. In the folder that it is loaded from it writes `log`, a line
 * for each call with its code, and reads `control`:
 *
 *   fail CALL NTH CODE TEXT   the NTH call of CALL (0: each) fails
 *   nothing CALL              CALL succeeds and gives nothing
 *   soc NAME                  the chip's name; `soc -` for none
 *   devices N                 how many devices there are
 *   framework                 somebody in this process has begun the runtime and bound a context
 *
 * Kernels do what is in their names: `square` y = x * x, `add` z = x + y, `sum` y += x, `pick` z = x (the middle argument
 * is null). A workspace is overwritten.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX = 512, CONTEXT_NULL = 107002, LOOKUP = 507027, EXCEPTION = 507015, BAD = 107000 };

typedef struct { int32_t kind; union { uint32_t word; uint32_t words[4]; uint8_t byte; } value; } item;
typedef struct { item *items; size_t count; } items;
typedef struct { char *bytes; size_t length; } binary;
typedef struct { binary *of; char name[256]; } function;
typedef struct { function *of; size_t count; uint64_t values[128]; int is_final; } list;
typedef struct { int is_pending; list arguments; uint32_t blocks; } queue;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct { char name[64]; int count; } counted[MAX];
static struct { void *at; size_t size; } live[MAX];
static int is_begun;
static int device_context, framework_context;
static __thread void *context;
static __thread int has_looked;
static __thread char said[512];
static __thread list arguments;

static FILE *beside_us(const char *name, const char *mode) {
    char path[1024];
    Dl_info info;
    if (!dladdr(&lock, &info))
        return 0;
    const char *end = strrchr(info.dli_fname, '/');
    snprintf(path, sizeof path, "%.*s/%s", end ? (int)(end - info.dli_fname) : 0, info.dli_fname, name);
    return fopen(path, mode);
}

static void note(const char *format, ...) {
    FILE *file = beside_us("log", "a");
    va_list values;
    va_start(values, format);
    if (file) {
        vfprintf(file, format, values);
        fputc('\n', file);
        fclose(file);
    }
    va_end(values);
}

/* Finds the line of `control` that begins with `word` and, unless null, `name`; `rest` receives the remainder. */
static int setting(const char *word, const char *name, char *rest, size_t size) {
    FILE *file = beside_us("control", "r");
    char line[512], first[64], second[64];
    int found = 0;
    while (file && !found && fgets(line, sizeof line, file)) {
        int used = 0;
        line[strcspn(line, "\n")] = 0;
        if (name)
            found = sscanf(line, "%63s %63s%n", first, second, &used) == 2 && !strcmp(second, name);
        else
            found = sscanf(line, "%63s%n", first, &used) == 1;
        found = found && !strcmp(first, word);
        if (found)
            snprintf(rest, size, "%s", line + used + (line[used] == ' '));
    }
    if (file)
        fclose(file);
    return found;
}

static int nth(const char *call) {
    int at = 0;
    while (counted[at].count && strcmp(counted[at].name, call))
        at++;
    snprintf(counted[at].name, sizeof counted[at].name, "%s", call);
    return ++counted[at].count;
}

/* The code that the call ends with: of the setting, or `otherwise`. */
static int code_of(const char *call, int otherwise, const char *why) {
    char rest[512];
    int at = 0, code = 0, used = 0, number = nth(call);
    if (setting("fail", call, rest, sizeof rest) && sscanf(rest, "%d %d%n", &at, &code, &used) == 2
        && (at == 0 || at == number)) {
        snprintf(said, sizeof said, "%s", rest + used + (rest[used] == ' '));
        return code;
    }
    if (otherwise)
        snprintf(said, sizeof said, "%s", why);
    return otherwise;
}

static int nothing(const char *call) {
    char rest[512];
    return setting("nothing", call, rest, sizeof rest);
}

static int is_of_framework(void) {
    char rest[512];
    if (!setting("framework", 0, rest, sizeof rest))
        return 0;
    if (!has_looked)
        context = &framework_context;
    has_looked = 1;
    return 1;
}

static size_t size_of(const void *at) {
    for (int i = 0; i < MAX; i++)
        if (at && live[i].at == at)
            return live[i].size;
    return 0;
}

#ifndef WITHOUT_aclGetRecentErrMsg
const char *aclGetRecentErrMsg(void) {
    static __thread char copy[512];
    memcpy(copy, said, sizeof copy);
    said[0] = 0;
    return copy[0] ? copy : 0;
}
#endif

int aclInit(const char *config) {
    int code = code_of("aclInit", is_begun || is_of_framework() || config ? 100002 : 0, "begun before");
    is_begun |= !code;
    note("aclInit = %d", code);
    return code;
}

int aclFinalize(void) {
    int code = code_of("aclFinalize", is_begun ? 0 : 100001, "not begun");
    is_begun = 0;
    note("aclFinalize = %d", code);
    return code;
}

#ifndef WITHOUT_aclrtGetSocName
const char *aclrtGetSocName(void) {
    static char name[512];
    note("aclrtGetSocName");
    if (!setting("soc", 0, name, sizeof name))
        return "Ascend910B1";
    if (strcmp(name, "-"))
        return name;
    snprintf(said, sizeof said, "can not init soc version");
    return 0;
}
#endif

int aclrtGetDeviceCount(uint32_t *count) {
    char rest[512];
    int code = code_of("aclrtGetDeviceCount", 0, "");
    *count = setting("devices", 0, rest, sizeof rest) ? atoi(rest) : 1;
    note("aclrtGetDeviceCount = %d", code);
    return code;
}

int aclrtSetDevice(int32_t device) {
    int code = code_of("aclrtSetDevice", device ? 107001 : 0, "no such device");
    if (!code)
        context = &device_context;
    note("aclrtSetDevice %d = %d", device, code);
    return code;
}

int aclrtResetDevice(int32_t device) {
    int code = code_of("aclrtResetDevice", 0, "");
    note("aclrtResetDevice %d = %d", device, code);
    return code;
}

int aclrtGetCurrentContext(void **made) {
    is_of_framework();
    int code = code_of("aclrtGetCurrentContext", context ? 0 : CONTEXT_NULL, "no context");
    *made = context;
    note("aclrtGetCurrentContext = %d", code);
    return code;
}

int aclrtSetCurrentContext(void *to) {
    int code = code_of("aclrtSetCurrentContext", to ? 0 : BAD, "null");
    if (!code)
        context = to;
    note("aclrtSetCurrentContext %s = %d", to == &device_context ? "device" : "framework", code);
    return code;
}

static int bound(void) {
    return context == &device_context ? 0 : CONTEXT_NULL;
}

int aclrtMalloc(void **made, size_t size, int policy) {
    pthread_mutex_lock(&lock);
    int code = code_of("aclrtMalloc", !size || policy ? BAD : bound(), "size, policy or context");
    int at = 0;
    while (live[at].at)
        at++;
    *made = 0;
    if (!code && !nothing("aclrtMalloc")) {
        *made = live[at].at = memset(malloc(size), 0xa5, size);
        live[at].size = size;
    }
    note("aclrtMalloc %zu = %d", size, code);
    pthread_mutex_unlock(&lock);
    return code;
}

int aclrtFree(void *at) {
    pthread_mutex_lock(&lock);
    int code = code_of("aclrtFree", size_of(at) ? bound() : BAD, "no such memory, or no context");
    for (int i = 0; !code && i < MAX; i++)
        if (live[i].at == at)
            live[i].at = 0;
    if (!code)
        free(at);
    note("aclrtFree = %d", code);
    pthread_mutex_unlock(&lock);
    return code;
}

int aclrtMemcpy(void *to, size_t room, const void *from, size_t count, int kind) {
    pthread_mutex_lock(&lock);
    const void *memory = kind == 1 ? to : kind == 2 ? from : 0;
    int fits = count && count <= room && count <= size_of(memory) && (kind == 2 || room <= size_of(to));
    int code = code_of("aclrtMemcpy", fits ? bound() : BAD, "size, kind or context");
    if (!code)
        memcpy(to, from, count);
    note("aclrtMemcpy %s %zu = %d", kind == 1 ? "in" : "out", count, code);
    pthread_mutex_unlock(&lock);
    return code;
}

int aclrtMemset(void *at, size_t room, int32_t value, size_t count) {
    pthread_mutex_lock(&lock);
    int code = code_of("aclrtMemset", count <= room && room <= size_of(at) ? bound() : BAD, "size or context");
    if (!code)
        memset(at, value, count);
    note("aclrtMemset %d %zu = %d", value, count, code);
    pthread_mutex_unlock(&lock);
    return code;
}

int aclrtCreateStream(void **made) {
    pthread_mutex_lock(&lock);
    int code = code_of("aclrtCreateStream", bound(), "no context");
    *made = code ? 0 : calloc(1, sizeof(queue));
    note("aclrtCreateStream = %d", code);
    pthread_mutex_unlock(&lock);
    return code;
}

int aclrtDestroyStream(void *stream) {
    pthread_mutex_lock(&lock);
    int code = code_of("aclrtDestroyStream", bound(), "no context");
    free(stream);
    note("aclrtDestroyStream = %d", code);
    pthread_mutex_unlock(&lock);
    return code;
}

__attribute__((unused)) static int load(const char *call, const void *bytes, size_t length, const items *options, void **made, int otherwise) {
    int is_magic = options && options->count == 1 && options->items[0].kind == 2;
    int code = code_of(call, otherwise ? otherwise : !is_magic || !length ? BAD : bound(), "options, bytes or context");
    *made = 0;
    if (!code && !nothing(call)) {
        binary *loaded = malloc(sizeof *loaded);
        loaded->bytes = memcpy(malloc(length), bytes, length);
        loaded->length = length;
        *made = loaded;
    }
    note("%s %zu magic %x = %d", call, length, is_magic ? options->items[0].value.word : 0, code);
    return code;
}

#ifndef WITHOUT_aclrtBinaryLoadFromData
int aclrtBinaryLoadFromData(const void *bytes, size_t length, const items *options, void **made) {
    pthread_mutex_lock(&lock);
    int code = load("aclrtBinaryLoadFromData", bytes, length, options, made, 0);
    pthread_mutex_unlock(&lock);
    return code;
}
#endif

#ifndef WITHOUT_aclrtBinaryLoadFromFile
int aclrtBinaryLoadFromFile(const char *path, items *options, void **made) {
    static char bytes[1 << 20];
    pthread_mutex_lock(&lock);
    char json[512];
    FILE *file = *path == '/' ? fopen(path, "r") : 0;
    size_t length = file ? fread(bytes, 1, sizeof bytes, file) : 0;
    snprintf(json, sizeof json, "%.*sjson", (int)strlen(path) - 1, path);
    FILE *beside = fopen(json, "r");
    note("file %s, %s", path, beside ? "with json" : "without json");
    int code = load("aclrtBinaryLoadFromFile", bytes, length, options, made, file ? 0 : 107009);
    if (file)
        fclose(file);
    if (beside)
        fclose(beside);
    pthread_mutex_unlock(&lock);
    return code;
}
#endif

int aclrtBinaryUnLoad(void *handle) {
    pthread_mutex_lock(&lock);
    int code = code_of("aclrtBinaryUnLoad", handle ? bound() : BAD, "handle or context");
    free(((binary *)handle)->bytes);
    free(handle);
    note("aclrtBinaryUnLoad = %d", code);
    pthread_mutex_unlock(&lock);
    return code;
}

int aclrtBinaryGetFunction(void *handle, const char *name, void **made) {
    static char text[300];
    pthread_mutex_lock(&lock);
    binary *loaded = handle;
    int is_there = !!memmem(loaded->bytes, loaded->length, name, strlen(name) + 1);
    snprintf(text, sizeof text, "no kernel %s", name);
    int code = code_of("aclrtBinaryGetFunction", is_there ? 0 : LOOKUP, text);
    *made = 0;
    if (!code) {
        function *found = malloc(sizeof *found);
        found->of = loaded;
        snprintf(found->name, sizeof found->name, "%s", name);
        *made = found;
    }
    note("aclrtBinaryGetFunction %s = %d", name, code);
    pthread_mutex_unlock(&lock);
    return code;
}

int aclrtKernelArgsInit(void *handle, void **made) {
    pthread_mutex_lock(&lock);
    int code = code_of("aclrtKernelArgsInit", handle ? 0 : BAD, "null");
    memset(&arguments, 0, sizeof arguments);
    arguments.of = handle;
    *made = &arguments;
    note("aclrtKernelArgsInit = %d", code);
    pthread_mutex_unlock(&lock);
    return code;
}

int aclrtKernelArgsAppend(void *handle, void *value, size_t size, void **made) {
    pthread_mutex_lock(&lock);
    list *to = handle;
    int fits = to == &arguments && size == 8 && to->count < 128 && made;
    int code = code_of("aclrtKernelArgsAppend", fits ? 0 : BAD, "list or size");
    if (!code)
        memcpy(&to->values[to->count++], value, 8);
    note("aclrtKernelArgsAppend %zu = %d", size, code);
    pthread_mutex_unlock(&lock);
    return code;
}

int aclrtKernelArgsFinalize(void *handle) {
    pthread_mutex_lock(&lock);
    int code = code_of("aclrtKernelArgsFinalize", handle == &arguments ? 0 : BAD, "list");
    ((list *)handle)->is_final = 1;
    note("aclrtKernelArgsFinalize = %d", code);
    pthread_mutex_unlock(&lock);
    return code;
}

#ifndef WITHOUT_aclrtLaunchKernelWithConfig
int aclrtLaunchKernelWithConfig(void *kernel, uint32_t blocks, void *stream, items *config, void *handle, void *reserve) {
    pthread_mutex_lock(&lock);
    list *given = handle;
    queue *to = stream;
    int mode = config && config->count == 1 && config->items[0].kind == 1 ? config->items[0].value.byte : 0;
    int fits = given->is_final && given->of == kernel && to && !reserve;
    int code = code_of("aclrtLaunchKernelWithConfig", fits ? bound() : BAD, "list, stream or context");
    if (!code) {
        to->is_pending = 1;
        to->arguments = *given;
        to->blocks = blocks;
    }
    note("aclrtLaunchKernelWithConfig blocks %u mode %d arguments %zu = %d", blocks, mode, given->count, code);
    pthread_mutex_unlock(&lock);
    return code;
}
#endif

/* Runs what is in the queue. */
static int run(queue *queue) {
    list *given = &queue->arguments;
    const char *name = given->of ? given->of->name : "";
    float *at[128];
    for (size_t i = 0; i < given->count; i++) {
        at[i] = (float *)(uintptr_t)given->values[i];
        if (at[i] ? !size_of(at[i]) : !strstr(name, "pick"))
            return EXCEPTION;
    }
    size_t tensors = strstr(name, "add") || strstr(name, "pick") ? 3 : 2;
    if (given->count < tensors)
        return EXCEPTION;
    float *to = at[tensors - 1];
    for (size_t i = 0; i < size_of(to) / sizeof(float); i++) {
        if (strstr(name, "square"))
            to[i] = at[0][i] * at[0][i];
        else if (strstr(name, "add"))
            to[i] = at[0][i] + at[1][i];
        else if (strstr(name, "sum"))
            to[i] += at[0][i];
        else
            to[i] = at[0][i];
    }
    for (size_t i = tensors; i < given->count; i++)
        memset(at[i], 0xee, size_of(at[i]));
    return 0;
}

int aclrtSynchronizeStream(void *stream) {
    pthread_mutex_lock(&lock);
    queue *of = stream;
    int code = code_of("aclrtSynchronizeStream", of->is_pending ? run(of) : 0, "the kernel met a bad address");
    of->is_pending = 0;
    note("aclrtSynchronizeStream = %d", code);
    pthread_mutex_unlock(&lock);
    return code;
}

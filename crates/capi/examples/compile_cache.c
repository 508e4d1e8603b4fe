/*
 * A compiler that takes 300 ms, and a cache around it: whatever number of threads and processes need a kernel, one compiles.
 *
 *     compile_cache STORE LOG [THREADS]
 *
 * Each compile appends a line to LOG.
 */
#define _POSIX_C_SOURCE 200809L

#include <opkeep.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char SOURCE[] = "kernel add(x, y) { x + y }";
static const char VERSION[] = "compiler 1.0";

static opkeep_target target;
static const char *log_path;

/* "Compiles" the source to a text in `object`. Returns 0 if it succeeds. */
static int compile(char *object, size_t size) {
    FILE *log = fopen(log_path, "a");
    if (log == NULL || fputs("compiled\n", log) < 0 || fclose(log) != 0) {
        return -1;
    }
    nanosleep(&(struct timespec){.tv_nsec = 300 * 1000 * 1000}, NULL);
    snprintf(object, size, "object of %s", SOURCE);
    return 0;
}

/* Everything that can change the kernel: the source, and the compiler. `part` must exist as long as the key. */
static int make_key(opkeep_key *key, opkeep_part *part) {
    *part = (opkeep_part){.name = "compiler", .note = VERSION};
    *key = (opkeep_key){.size = sizeof *key, .toolchain = part, .toolchain_count = 1};
    /* The digest of the compiler's file would be better: opkeep_digest_file. */
    if (opkeep_digest(VERSION, strlen(VERSION), part->digest) != OPKEEP_CODE_OK) {
        return -1;
    }
    return opkeep_digest(SOURCE, strlen(SOURCE), key->digest) == OPKEEP_CODE_OK ? 0 : -1;
}

/* Makes the files, and publishes them. */
static int build(opkeep_ticket ticket, char *object, size_t size) {
    if (compile(object, size) != 0) {
        /* It may succeed next time, so there is no reason for the waiters to fail. */
        opkeep_abandon(ticket, NULL);
        return -1;
    }
    opkeep_file files[] = {
        {.name = "add.bin", .data = object, .size = strlen(object)},
        {.name = "add.json", .data = "{\"name\": \"add\"}", .size = 15},
    };
    opkeep_group group = {
        .size = sizeof group,
        .files = files,
        .file_count = 2,
        .kernel = "add",
        .object = "add.bin",
        .metadata = "add.json",
    };
    /* The kernel can be used even if the store cannot keep it. */
    return opkeep_publish(ticket, &group, NULL) == OPKEEP_CODE_OK ? 0 : -1;
}

/* Gets the kernel: the stored one, or a new one. */
static int get_kernel(char *object, size_t size) {
    opkeep_key key;
    opkeep_part part;
    opkeep_hit hit;
    opkeep_ticket ticket;
    opkeep_file file;
    int result = -1;
    if (make_key(&key, &part) != 0) {
        return -1;
    }
    switch (opkeep_get_or_begin(target, &key, NULL, &hit, &ticket)) {
    case OPKEEP_OUTCOME_HIT:
        if (opkeep_hit_find(hit, "add.bin", &file) == OPKEEP_CODE_OK && file.size < size) {
            memcpy(object, file.data, file.size);
            object[file.size] = '\0';
            result = 0;
        }
        break;
    case OPKEEP_OUTCOME_BEGIN:
    case OPKEEP_OUTCOME_UNSHARED:
        result = build(ticket, object, size);
        break;
    default:
        break;
    }
    if (result != 0) {
        fprintf(stderr, "no kernel: %s\n", opkeep_last_message());
    }
    opkeep_hit_release(hit);
    opkeep_ticket_release(ticket);
    return result;
}

static void *run(void *unused) {
    (void)unused;
    char object[128];
    if (get_kernel(object, sizeof object) != 0) {
        return "failed";
    }
    printf("%s\n", object);
    return NULL;
}

int main(int argc, char **argv) {
    if (argc < 3 || opkeep_abi() != OPKEEP_ABI) {
        fprintf(stderr, "usage: %s STORE LOG [THREADS]\n", argv[0]);
        return 2;
    }
    log_path = argv[2];
    opkeep_options options = {.size = sizeof options, .directory = argv[1], .framework = "example"};
    opkeep_cache cache;
    if (opkeep_open(&options, &cache) != OPKEEP_CODE_OK ||
        opkeep_target_open(cache, "example-1", &target) != OPKEEP_CODE_OK) {
        fprintf(stderr, "%s\n", opkeep_last_message());
        return 1;
    }
    pthread_t threads[64];
    int count = argc > 3 ? atoi(argv[3]) : 1;
    int failures = 0;
    count = count < 1 ? 1 : count > 64 ? 64 : count;
    for (int i = 0; i < count; i++) {
        if (pthread_create(&threads[i], NULL, run, NULL) != 0) {
            return 1;
        }
    }
    for (int i = 0; i < count; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        failures += failed != NULL;
    }
    opkeep_warning warning;
    while (opkeep_next_warning(cache, &warning) == OPKEEP_CODE_OK) {
        fprintf(stderr, "warning: %s\n", warning.text);
    }
    opkeep_target_close(target);
    opkeep_close(cache);
    return failures == 0 ? 0 : 1;
}

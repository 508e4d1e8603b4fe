/* All functions on all threads at the same time, with handles that other threads release: threads STORE. */
#include "check.h"

#include <pthread.h>

enum { THREADS = 8, ROUNDS = 60 };

static opkeep_cache cache;
static opkeep_target target;
static opkeep_cancel cancel;
/* A handle that all threads use, and one of them releases. */
static opkeep_hit shared;

static void *run(void *number) {
    char name[32];
    for (int round = 0; round < ROUNDS; round++) {
        opkeep_ticket ticket;
        opkeep_file file;
        opkeep_hit hit;
        opkeep_warning warning;
        snprintf(name, sizeof name, "kernel %d", round);
        opkeep_outcome outcome = request(target, name, 0, &ticket);
        CHECK(outcome == OPKEEP_OUTCOME_HIT || outcome == OPKEEP_OUTCOME_BEGIN);
        if (outcome == OPKEEP_OUTCOME_BEGIN) {
            CHECK(publish(ticket, name) == OPKEEP_CODE_OK);
        }
        CHECK(opkeep_ticket_release(ticket) == OPKEEP_CODE_OK);
        opkeep_key key = key_of(name);
        CHECK(opkeep_get(target, &key, &hit) == OPKEEP_OUTCOME_HIT);
        CHECK(opkeep_hit_find(hit, "file", &file) == OPKEEP_CODE_OK);
        CHECK(file.size == strlen(name) && memcmp(file.data, name, file.size) == 0);
        CHECK(opkeep_hit_release(hit) == OPKEEP_CODE_OK);
        FAILS(opkeep_hit_release(hit), OPKEEP_CODE_HANDLE, "released before");
        CHECK(opkeep_next_warning(cache, &warning) == OPKEEP_CODE_NOT_FOUND);
        if (round == ROUNDS / 2) {
            /* One of the threads releases it; for the others it is no handle any more. */
            opkeep_code code = opkeep_hit_release(shared);
            CHECK(code == OPKEEP_CODE_OK || code == OPKEEP_CODE_HANDLE);
        }
        size_t count = opkeep_hit_count(shared);
        CHECK(count == 1 || (count == 0 && round >= ROUNDS / 2 - 1) || round < ROUNDS / 2);
    }
    (void)number;
    return NULL;
}

static void *wait_for_the_kernel(void *unused) {
    (void)unused;
    opkeep_key key = key_of("cancelled");
    opkeep_request request = {.size = sizeof request, .cancel = cancel};
    opkeep_hit hit;
    opkeep_ticket ticket;
    CHECK(opkeep_get_or_begin(target, &key, &request, &hit, &ticket) == OPKEEP_OUTCOME_CANCELLED);
    CHECK(opkeep_last_code() == OPKEEP_CODE_CANCELLED && strstr(opkeep_last_message(), "cancelled") != NULL);
    CHECK(hit.id == 0 && ticket.id == 0);
    return NULL;
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    cache = open_cache(argv[1]);
    target = open_target(cache);
    CHECK(opkeep_cancel_new(&cancel) == OPKEEP_CODE_OK);

    opkeep_ticket ticket;
    CHECK(request(target, "shared", 0, &ticket) == OPKEEP_OUTCOME_BEGIN);
    CHECK(publish(ticket, "shared") == OPKEEP_CODE_OK && opkeep_ticket_release(ticket) == OPKEEP_CODE_OK);
    opkeep_key key = key_of("shared");
    CHECK(opkeep_get(target, &key, &shared) == OPKEEP_OUTCOME_HIT);

    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&threads[i], NULL, run, NULL) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }

    /* A wait is cancelled by another thread; so are later ones with the same token. */
    CHECK(request(target, "cancelled", 0, &ticket) == OPKEEP_OUTCOME_BEGIN);
    CHECK(pthread_create(&threads[0], NULL, wait_for_the_kernel, NULL) == 0);
    CHECK(opkeep_cancel_request(cancel) == OPKEEP_CODE_OK);
    CHECK(pthread_join(threads[0], NULL) == 0);
    CHECK(opkeep_cancel_release(cancel) == OPKEEP_CODE_OK);
    FAILS(opkeep_cancel_request(cancel), OPKEEP_CODE_HANDLE, "`cancel` was released before");
    CHECK(opkeep_ticket_release(ticket) == OPKEEP_CODE_OK);
    CHECK(opkeep_target_close(target) == OPKEEP_CODE_OK && opkeep_close(cache) == OPKEEP_CODE_OK);
    return 0;
}

/* Threads and processes that end while they use the library: exit late|waiting STORE. */
#include "check.h"

#include <pthread.h>

static opkeep_cache cache;
static opkeep_target target;
static pthread_key_t at_end_of_thread;

/* All that keeps something for the calling thread, whose own places may have ended. */
static void use_everything(const char *name) {
    opkeep_ticket ticket;
    opkeep_warning warning;
    opkeep_cache unusable;
    opkeep_cancel cancel;
    const char *rules;
    FAILS(opkeep_digest("x", 1, NULL), OPKEEP_CODE_ARGUMENT, "opkeep_digest: `digest` is a null pointer");
    FAILS(opkeep_close((opkeep_cache){UINT64_MAX}), OPKEEP_CODE_HANDLE, "opkeep_close: `cache` is no handle");
    CHECK(opkeep_rules(OPKEEP_FORMAT_CUBIN, "sm_90", "target-1", &rules) == OPKEEP_CODE_OK);
    CHECK(strstr(rules, "target-1") != NULL);
    unusable = open_cache("/dev/null/store");
    CHECK(opkeep_next_warning(unusable, &warning) == OPKEEP_CODE_OK && strstr(warning.text, "/dev/null") != NULL);
    CHECK(opkeep_close(unusable) == OPKEEP_CODE_OK);
    CHECK(opkeep_cancel_new(&cancel) == OPKEEP_CODE_OK && opkeep_cancel_release(cancel) == OPKEEP_CODE_OK);
    CHECK(request(target, name, 0, &ticket) == OPKEEP_OUTCOME_BEGIN);
    CHECK(publish(ticket, "data") == OPKEEP_CODE_OK && opkeep_ticket_release(ticket) == OPKEEP_CODE_OK);
    CHECK(request(target, name, 0, &ticket) == OPKEEP_OUTCOME_HIT);
}

static void at_exit(void) {
    use_everything("at exit");
    CHECK(opkeep_target_close(target) == OPKEEP_CODE_OK && opkeep_close(cache) == OPKEEP_CODE_OK);
}

static void end_thread(void *name) { use_everything(name); }

static void *use_and_end(void *name) {
    use_everything("in the thread");
    CHECK(pthread_setspecific(at_end_of_thread, name) == 0);
    return NULL;
}

static void *begin_and_end(void *ticket) {
    CHECK(request(target, "of an ended thread", 0, ticket) == OPKEEP_OUTCOME_BEGIN);
    return NULL;
}

static void *wait_for_ever(void *name) {
    opkeep_ticket ticket;
    opkeep_key key = key_of(name);
    opkeep_hit hit;
    /* A thread that comes late finds the target closed. */
    CHECK(opkeep_get_or_begin(target, &key, NULL, &hit, &ticket) == OPKEEP_OUTCOME_ERROR);
    CHECK(opkeep_last_code() == OPKEEP_CODE_HANDLE);
    pause();
    return NULL;
}

/* `exit` while threads wait, and while the library's own thread renews a ticket. */
static void exit_while_threads_wait(void) {
    opkeep_ticket ticket;
    pthread_t thread;
    CHECK(request(target, "waited for", 0, &ticket) == OPKEEP_OUTCOME_BEGIN);
    for (int i = 0; i < 4; i++) {
        CHECK(pthread_create(&thread, NULL, wait_for_ever, "waited for") == 0);
    }
    exit(0);
}

int main(int argc, char **argv) {
    opkeep_ticket ticket;
    pthread_t thread;
    CHECK(argc == 3);
    CHECK(atexit(at_exit) == 0);
    cache = open_cache(argv[2]);
    target = open_target(cache);
    if (strcmp(argv[1], "waiting") == 0) {
        exit_while_threads_wait();
    }
    use_everything("in main");

    /* A ticket outlives the thread that got it. */
    CHECK(pthread_create(&thread, NULL, begin_and_end, &ticket) == 0 && pthread_join(thread, NULL) == 0);
    opkeep_ticket other;
    CHECK(request(target, "of an ended thread", OPKEEP_NO_WAIT, &other) == OPKEEP_OUTCOME_UNSHARED);
    CHECK(opkeep_ticket_release(other) == OPKEEP_CODE_OK);
    CHECK(publish(ticket, "data") == OPKEEP_CODE_OK && opkeep_ticket_release(ticket) == OPKEEP_CODE_OK);

    /* A destructor runs after the thread's own places have ended. */
    CHECK(pthread_key_create(&at_end_of_thread, end_thread) == 0);
    CHECK(pthread_create(&thread, NULL, use_and_end, "at the end of the thread") == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    return 0;
}

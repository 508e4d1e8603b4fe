/* Forked processes: fork child|killed|stale|threads STORE. */
#include "check.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>

static opkeep_cache cache;
static opkeep_target target;

/* Runs `body` in a child that exits as programs do, and checks that it succeeds. */
static void in_child(void (*body)(opkeep_ticket), opkeep_ticket ticket) {
    int status;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        alarm(30);
        body(ticket);
        exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void only_exit(opkeep_ticket ticket) { (void)ticket; }

static void end_the_ticket_of_the_parent(opkeep_ticket ticket) {
    opkeep_key key = key_of("counted");
    opkeep_hit hit;
    FAILS(publish(ticket, "of the child"), OPKEEP_CODE_FORKED, "process");
    FAILS(opkeep_abandon(ticket, "failed"), OPKEEP_CODE_FORKED, "process");
    CHECK(opkeep_ticket_release(ticket) == OPKEEP_CODE_OK);
    /* A hit of the child, whose count it writes with the last release; it writes none of the parent's. */
    CHECK(opkeep_get(target, &key, &hit) == OPKEEP_OUTCOME_HIT && opkeep_hit_release(hit) == OPKEEP_CODE_OK);
    CHECK(opkeep_target_close(target) == OPKEEP_CODE_OK && opkeep_close(cache) == OPKEEP_CODE_OK);
}

static void see_that_the_ticket_is_held(opkeep_ticket ticket) {
    opkeep_ticket own;
    (void)ticket;
    CHECK(request(target, "kernel", OPKEEP_NO_WAIT, &own) == OPKEEP_OUTCOME_UNSHARED);
    CHECK(strstr(opkeep_last_message(), "does not wait") != NULL);
}

static void see_the_hit_and_publish(opkeep_ticket ticket) {
    (void)ticket;
    CHECK(request(target, "kernel", 0, &ticket) == OPKEEP_OUTCOME_HIT);
    CHECK(request(target, "kernel of the child", 0, &ticket) == OPKEEP_OUTCOME_BEGIN);
    CHECK(publish(ticket, "data") == OPKEEP_CODE_OK);
    CHECK(opkeep_ticket_release(ticket) == OPKEEP_CODE_OK);
}

/* What children do, the parent's ticket stays; and they use what they inherit. */
static void child(void) {
    opkeep_ticket ticket, other;
    CHECK(request(target, "counted", 0, &ticket) == OPKEEP_OUTCOME_BEGIN);
    CHECK(publish(ticket, "data") == OPKEEP_CODE_OK && opkeep_ticket_release(ticket) == OPKEEP_CODE_OK);
    /* Together with one hit of a child and the last one, six, which the test of this program finds in the store. */
    for (int i = 0; i < 4; i++) {
        CHECK(request(target, "counted", 0, &ticket) == OPKEEP_OUTCOME_HIT);
    }
    CHECK(request(target, "kernel", 0, &ticket) == OPKEEP_OUTCOME_BEGIN);
    in_child(only_exit, ticket);
    in_child(see_that_the_ticket_is_held, ticket);
    in_child(end_the_ticket_of_the_parent, ticket);
    in_child(see_that_the_ticket_is_held, ticket);
    CHECK(publish(ticket, "data") == OPKEEP_CODE_OK);
    CHECK(opkeep_ticket_release(ticket) == OPKEEP_CODE_OK);
    in_child(see_the_hit_and_publish, ticket);
    CHECK(request(target, "kernel of the child", 0, &other) == OPKEEP_OUTCOME_HIT);
    CHECK(opkeep_target_close(target) == OPKEEP_CODE_OK && opkeep_close(cache) == OPKEEP_CODE_OK);
}

/* A process with a ticket is killed, and its forked worker lives on: a waiter gets the ticket. */
static void killed(void) {
    int pipes[2];
    pid_t worker;
    opkeep_ticket ticket;
    CHECK(pipe(pipes) == 0);
    pid_t holder = fork();
    CHECK(holder >= 0);
    if (holder == 0) {
        CHECK(request(target, "kernel", 0, &ticket) == OPKEEP_OUTCOME_BEGIN);
        worker = fork();
        CHECK(worker >= 0);
        if (worker != 0) {
            CHECK(write(pipes[1], &worker, sizeof worker) == sizeof worker);
        }
        alarm(60);
        pause();
        _exit(1);
    }
    CHECK(read(pipes[0], &worker, sizeof worker) == sizeof worker);
    CHECK(request(target, "kernel", OPKEEP_NO_WAIT, &ticket) == OPKEEP_OUTCOME_UNSHARED);
    CHECK(opkeep_ticket_release(ticket) == OPKEEP_CODE_OK);

    struct timespec before, after;
    CHECK(kill(holder, SIGKILL) == 0 && waitpid(holder, NULL, 0) == holder);
    clock_gettime(CLOCK_MONOTONIC, &before);
    /* A stale holder would be noticed after 30 seconds, longer than this request waits. */
    opkeep_outcome outcome = request(target, "kernel", 0, &ticket);
    clock_gettime(CLOCK_MONOTONIC, &after);
    CHECK(kill(worker, 0) == 0 && kill(worker, SIGKILL) == 0);
    CHECK(outcome == OPKEEP_OUTCOME_BEGIN);
    CHECK(after.tv_sec - before.tv_sec <= 10);
    CHECK(publish(ticket, "data") == OPKEEP_CODE_OK && opkeep_ticket_release(ticket) == OPKEEP_CODE_OK);
}

/* A holder that is stopped gives no heartbeat, and one that holds its ticket for too long loses it: a waiter makes the files. */
static void stale(const char *name, uint64_t hold_limit_ms) {
    int pipes[2];
    char begun = 0;
    opkeep_hit hit;
    opkeep_ticket ticket;
    opkeep_key key = key_of(name);
    CHECK(pipe(pipes) == 0);
    pid_t holder = fork();
    CHECK(holder >= 0);
    if (holder == 0) {
        opkeep_request held = {.size = sizeof held, .hold_limit_ms = hold_limit_ms};
        CHECK(opkeep_get_or_begin(target, &key, &held, &hit, &ticket) == OPKEEP_OUTCOME_BEGIN);
        CHECK(write(pipes[1], &begun, 1) == 1);
        alarm(60);
        pause();
        _exit(1);
    }
    CHECK(read(pipes[0], &begun, 1) == 1);
    CHECK(hold_limit_ms != 0 || kill(holder, SIGSTOP) == 0);
    /* Without these times, a holder is stale after 30 seconds, and may hold its ticket for an hour. */
    opkeep_request waits = {.size = sizeof waits, .timeout_ms = 20000, .stale_after_ms = 1500};
    opkeep_outcome outcome = opkeep_get_or_begin(target, &key, &waits, &hit, &ticket);
    if (hold_limit_ms != 0) {
        /* At its limit, the holder's lock is released. */
        CHECK(outcome == OPKEEP_OUTCOME_BEGIN);
    } else {
        CHECK(outcome == OPKEEP_OUTCOME_UNSHARED && strstr(opkeep_last_message(), "no heartbeat") != NULL);
    }
    CHECK(hit.id == 0);
    CHECK(publish(ticket, "data") == OPKEEP_CODE_OK && opkeep_ticket_release(ticket) == OPKEEP_CODE_OK);
    CHECK(request(target, name, 0, &ticket) == OPKEEP_OUTCOME_HIT);
    CHECK(kill(holder, SIGKILL) == 0 && waitpid(holder, NULL, 0) == holder);
}

static atomic_int stopped;

/* Takes all locks all the time: those of the handles, of the cache and of its target. */
static void *use_handles(void *unused) {
    opkeep_warning warning;
    opkeep_key key = key_of("kernel");
    opkeep_hit hit;
    (void)unused;
    while (!stopped) {
        opkeep_cancel cancel;
        CHECK(opkeep_get(target, &key, &hit) == OPKEEP_OUTCOME_HIT && opkeep_hit_release(hit) == OPKEEP_CODE_OK);
        CHECK(opkeep_cancel_new(&cancel) == OPKEEP_CODE_OK);
        CHECK(opkeep_next_warning(cache, &warning) == OPKEEP_CODE_NOT_FOUND);
        CHECK(opkeep_cancel_release(cancel) == OPKEEP_CODE_OK);
    }
    return NULL;
}

static void begin_and_publish(opkeep_ticket ticket) {
    char name[32];
    snprintf(name, sizeof name, "of %d", (int)getpid());
    CHECK(request(target, name, 0, &ticket) == OPKEEP_OUTCOME_BEGIN);
    CHECK(publish(ticket, "data") == OPKEEP_CODE_OK && opkeep_ticket_release(ticket) == OPKEEP_CODE_OK);
    CHECK(opkeep_target_close(target) == OPKEEP_CODE_OK && opkeep_close(cache) == OPKEEP_CODE_OK);
}

/* A child never waits for a lock that a thread holds which it does not have. */
static void threads(void) {
    pthread_t users[4];
    opkeep_ticket ticket;
    CHECK(request(target, "kernel", 0, &ticket) == OPKEEP_OUTCOME_BEGIN);
    CHECK(publish(ticket, "data") == OPKEEP_CODE_OK && opkeep_ticket_release(ticket) == OPKEEP_CODE_OK);
    for (int i = 0; i < 4; i++) {
        CHECK(pthread_create(&users[i], NULL, use_handles, NULL) == 0);
    }
    for (int i = 0; i < 60; i++) {
        in_child(begin_and_publish, (opkeep_ticket){0});
    }
    stopped = 1;
    for (int i = 0; i < 4; i++) {
        CHECK(pthread_join(users[i], NULL) == 0);
    }
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    cache = open_cache(argv[2]);
    target = open_target(cache);
    if (strcmp(argv[1], "child") == 0) {
        child();
    } else if (strcmp(argv[1], "killed") == 0) {
        killed();
    } else if (strcmp(argv[1], "stale") == 0) {
        stale("stopped", 0);
        stale("held for too long", 300);
    } else {
        threads();
    }
    return 0;
}

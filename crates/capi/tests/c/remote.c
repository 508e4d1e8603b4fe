/* Hosts that share a cache: remote SECRET PUBLIC STORE. A host is a store of its own; the engine is a directory. */
#include "check.h"

#include <sys/stat.h>
#include <sys/wait.h>

static char url[4200];
static const char *base;

/* The path of the directory `name`, which is created. */
static const char *directory(const char *name) {
    /* Each call has a buffer of its own for a while: options point to it. */
    static char paths[8][4100];
    static size_t next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", base, name);
    mkdir(path, 0700);
    return path;
}

static opkeep_options options_of(const char *host) {
    return (opkeep_options){.size = sizeof(opkeep_options), .directory = directory(host), .framework = "test",
                            .remote = url};
}

static opkeep_cache open_with(const opkeep_options *options) {
    opkeep_cache cache;
    CHECK(opkeep_open(options, &cache) == OPKEEP_CODE_OK);
    return cache;
}

static opkeep_cache open_host(const char *host) {
    const opkeep_options options = options_of(host);
    return open_with(&options);
}

static void keep(opkeep_ticket ticket, uint32_t flags) {
    const opkeep_file file = {.name = "file", .data = "data", .size = 4};
    const opkeep_group group = {.size = sizeof group, .files = &file, .file_count = 1, .flags = flags};
    int written = 0;
    CHECK(opkeep_publish(ticket, &group, &written) == OPKEEP_CODE_OK && written == 1);
    CHECK(opkeep_ticket_release(ticket) == OPKEEP_CODE_OK);
}

/* Makes the files of `text` on a host, and shares them. */
static void share(const opkeep_options *options, const char *text, uint32_t request_flags, uint32_t flags) {
    opkeep_cache cache = open_with(options);
    opkeep_target target = open_target(cache);
    opkeep_ticket ticket;
    CHECK(request(target, text, request_flags, &ticket) == OPKEEP_OUTCOME_BEGIN);
    keep(ticket, flags);
    size_t left = 7;
    CHECK(opkeep_finish_uploads(cache, 20000, &left) == OPKEEP_CODE_OK && left == 0);
    CHECK(opkeep_target_close(target) == OPKEEP_CODE_OK && opkeep_close(cache) == OPKEEP_CODE_OK);
}

/* 0: the files are not there; 1: they are in the store; 2: they came from the remote cache. */
static int found(opkeep_cache cache, const char *text) {
    opkeep_target target = open_target(cache);
    opkeep_key key = key_of(text);
    opkeep_hit hit;
    int result = 0;
    if (opkeep_get(target, &key, &hit) == OPKEEP_OUTCOME_HIT) {
        opkeep_info info = {.size = sizeof info};
        CHECK(opkeep_hit_info(hit, &info) == OPKEEP_CODE_OK);
        result = 1 + info.from_remote;
    }
    CHECK(opkeep_hit_release(hit) == OPKEEP_CODE_OK && opkeep_target_close(target) == OPKEEP_CODE_OK);
    return result;
}

static void files_are_shared(void) {
    const opkeep_options one = options_of("one");
    share(&one, "shared", 0, 0);
    opkeep_cache other = open_host("other");
    CHECK(found(other, "shared") == 2 && found(other, "shared") == 1 && found(other, "missing") == 0);
    CHECK(opkeep_close(other) == OPKEEP_CODE_OK);
}

static void files_for_one_machine_stay_there(void) {
    const opkeep_options one = options_of("one");
    share(&one, "launcher", OPKEEP_STAYS_HERE, 0);
    share(&one, "other launcher", 0, OPKEEP_LOCAL);
    opkeep_cache other = open_host("other");
    CHECK(found(other, "launcher") == 0 && found(other, "other launcher") == 0);
    CHECK(opkeep_close(other) == OPKEEP_CODE_OK);
}

static void many_keys(void) {
    opkeep_cache cache = open_host("many");
    opkeep_target target = open_target(cache);
    const opkeep_key keys[] = {key_of("shared"), key_of("new 1"), key_of("new 2"), key_of("shared")};
    const opkeep_key *pointers[] = {&keys[0], &keys[1], &keys[2], &keys[3]};
    opkeep_answer answers[4];
    CHECK(opkeep_get_or_begin_many(target, pointers, 4, 1, NULL, answers) == OPKEEP_CODE_OK);
    const opkeep_outcome expected[] = {OPKEEP_OUTCOME_HIT, OPKEEP_OUTCOME_BEGIN, OPKEEP_OUTCOME_PENDING,
                                       OPKEEP_OUTCOME_HIT};
    for (size_t i = 0; i < 4; i++) {
        CHECK(answers[i].outcome == expected[i]);
        CHECK((answers[i].hit.id != 0) == (expected[i] == OPKEEP_OUTCOME_HIT));
        CHECK((answers[i].ticket.id != 0) == (expected[i] == OPKEEP_OUTCOME_BEGIN));
        CHECK(opkeep_hit_release(answers[i].hit) == OPKEEP_CODE_OK);
    }
    keep(answers[1].ticket, 0);
    CHECK(opkeep_get_or_begin_many(target, NULL, 0, 1, NULL, NULL) == OPKEEP_CODE_OK);
    FAILS(opkeep_get_or_begin_many(target, NULL, 1, 1, NULL, answers), OPKEEP_CODE_ARGUMENT, "`keys` is a null pointer");
    FAILS(opkeep_get_or_begin_many(target, pointers, 1, 1, NULL, NULL), OPKEEP_CODE_ARGUMENT, "`answers` is a null pointer");
    pointers[1] = NULL;
    FAILS(opkeep_get_or_begin_many(target, pointers, 2, 1, NULL, answers), OPKEEP_CODE_ARGUMENT, "`key` is a null pointer");
    CHECK(answers[0].outcome == OPKEEP_OUTCOME_ERROR && answers[0].hit.id == 0);
    CHECK(opkeep_target_close(target) == OPKEEP_CODE_OK && opkeep_close(cache) == OPKEEP_CODE_OK);
}

static void settings_from_the_environment(void) {
    opkeep_options options = options_of("environment");
    options.remote = NULL;
    CHECK(setenv("PRODUCT_REMOTE", url, 1) == 0);
    opkeep_cache without = open_with(&options);
    CHECK(found(without, "shared") == 0 && opkeep_close(without) == OPKEEP_CODE_OK);
    options.environment = "PRODUCT";
    opkeep_cache with = open_with(&options);
    CHECK(found(with, "shared") == 2 && opkeep_close(with) == OPKEEP_CODE_OK);

    opkeep_cache opened;
    CHECK(setenv("PRODUCT_REMOTE", "redis://user:passw0rd@host:port", 1) == 0);
    CHECK(opkeep_open(&options, &opened) == OPKEEP_CODE_ARGUMENT && opened.id == 0);
    CHECK(strstr(opkeep_last_message(), "opkeep_open: PRODUCT_REMOTE: the `redis://` URL") != NULL);
    CHECK(strstr(opkeep_last_message(), "passw0rd") == NULL);
    CHECK(setenv("PRODUCT_REMOTE_MODE", "off", 1) == 0);
    opkeep_cache off = open_with(&options);
    CHECK(opkeep_close(off) == OPKEEP_CODE_OK);
    unsetenv("PRODUCT_REMOTE");
    unsetenv("PRODUCT_REMOTE_MODE");
}

static void wrong_settings(const char *secret) {
    opkeep_cache opened;
    opkeep_options options = options_of("wrong");
    options.remote_mode = "all";
    FAILS(opkeep_open(&options, &opened), OPKEEP_CODE_ARGUMENT, "`options->remote_mode` is `all`: expected off");
    options = options_of("wrong");
    options.remote_namespace = "a/b";
    FAILS(opkeep_open(&options, &opened), OPKEEP_CODE_ARGUMENT, "`options->remote_namespace` is `a/b`");
    options = options_of("wrong");
    options.trusted_keys = "";
    FAILS(opkeep_open(&options, &opened), OPKEEP_CODE_ARGUMENT, "`options->trusted_keys`: there is no key");
    options = options_of("wrong");
    options.sign_key = "/nowhere";
    CHECK(opkeep_open(&options, &opened) == OPKEEP_CODE_IO && opened.id == 0);
    options = options_of("wrong");
    options.trusted_keys = secret;
    CHECK(opkeep_open(&options, &opened) == OPKEEP_CODE_ARGUMENT);
    options = options_of("wrong");
    options.environment = "";
    FAILS(opkeep_open(&options, &opened), OPKEEP_CODE_ARGUMENT, "`options->environment` is empty");
    /* A program that was compiled for the first version of the struct. */
    options = options_of("old");
    options.size = offsetof(opkeep_options, remote);
    opkeep_cache old = open_with(&options);
    CHECK(found(old, "shared") == 0 && opkeep_close(old) == OPKEEP_CODE_OK);
}

static void only_what_a_trusted_key_signed(const char *secret, const char *public) {
    char host_key[4200];
    opkeep_options signs = options_of("signs");
    signs.sign_key = secret;
    share(&signs, "signed", 0, 0);
    opkeep_options trusts = options_of("trusts");
    trusts.trusted_keys = public;
    snprintf(host_key, sizeof host_key, "%s/host-key", base);
    trusts.host_key_file = host_key;
    opkeep_cache cache = open_with(&trusts);
    CHECK(found(cache, "signed") == 2 && found(cache, "shared") == 0);
    opkeep_target target = open_target(cache);
    opkeep_ticket ticket;
    CHECK(request(target, "shared", 0, &ticket) == OPKEEP_OUTCOME_BEGIN);
    keep(ticket, 0);
    CHECK(found(cache, "shared") == 1);
    CHECK(opkeep_target_close(target) == OPKEEP_CODE_OK && opkeep_close(cache) == OPKEEP_CODE_OK);
    /* The next process recognizes what this host made. */
    cache = open_with(&trusts);
    CHECK(found(cache, "shared") == 1 && opkeep_close(cache) == OPKEEP_CODE_OK);
}

static void an_engine_that_is_gone(void) {
    opkeep_options options = options_of("alone");
    options.remote = "file:///nowhere/at/all";
    options.close_limit_ms = 100;
    opkeep_cache cache = open_with(&options);
    opkeep_target target = open_target(cache);
    for (int i = 0; i < 8; i++) {
        char text[32];
        opkeep_ticket ticket;
        snprintf(text, sizeof text, "kernel %d", i);
        CHECK(request(target, text, 0, &ticket) == OPKEEP_OUTCOME_BEGIN);
        keep(ticket, 0);
        CHECK(found(cache, text) == 1);
    }
    size_t left = 0, warnings = 0;
    CHECK(opkeep_finish_uploads(cache, 5000, &left) == OPKEEP_CODE_OK && left == 8);
    opkeep_warning warning;
    for (; opkeep_next_warning(cache, &warning) == OPKEEP_CODE_OK; warnings++) {
        CHECK(warning.kind == OPKEEP_WARNING_KIND_REMOTE);
    }
    CHECK(warnings == 1);
    CHECK(opkeep_target_close(target) == OPKEEP_CODE_OK && opkeep_close(cache) == OPKEEP_CODE_OK);
}

/* A child has connections and threads of its own. */
static void forked_children(void) {
    opkeep_cache cache = open_host("parent");
    CHECK(found(cache, "shared") == 2);
    for (int i = 0; i < 4; i++) {
        const pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            char text[32];
            opkeep_ticket ticket;
            opkeep_target target = open_target(cache);
            snprintf(text, sizeof text, "child %d", i);
            CHECK(request(target, text, 0, &ticket) == OPKEEP_OUTCOME_BEGIN);
            keep(ticket, 0);
            CHECK(opkeep_target_close(target) == OPKEEP_CODE_OK && opkeep_close(cache) == OPKEEP_CODE_OK);
            _exit(0);
        }
        int status = 1;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    opkeep_cache other = open_host("after");
    CHECK(found(other, "child 0") == 2 && found(other, "child 3") == 2);
    CHECK(opkeep_close(other) == OPKEEP_CODE_OK && opkeep_close(cache) == OPKEEP_CODE_OK);
}

int main(int argc, char **argv) {
    CHECK(argc == 4);
    base = argv[3];
    CHECK(mkdir(base, 0700) == 0);
    snprintf(url, sizeof url, "file://%s", directory("engine"));
    files_are_shared();
    files_for_one_machine_stay_there();
    many_keys();
    settings_from_the_environment();
    wrong_settings(argv[1]);
    only_what_a_trusted_key_signed(argv[1], argv[2]);
    an_engine_that_is_gone();
    forked_children();
    return 0;
}

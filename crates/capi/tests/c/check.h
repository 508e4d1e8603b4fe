/* What the test programs share. A check that fails ends the program with its line. */
#ifndef CHECK_H
#define CHECK_H

#define _GNU_SOURCE

#include <opkeep.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: %s; last error %d: %s\n", __FILE__, __LINE__, #condition, (int)opkeep_last_code(), \
                    opkeep_last_message());                                                                            \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)

/* Whether the last message is one for `call`: if the call was wrong, it begins with the name of the function. */
static inline int names_function(const char *call) {
    const opkeep_code code = opkeep_last_code();
    const size_t length = strcspn(call, "(");
    const char *message = opkeep_last_message();
    const int is_wrong_call = code == OPKEEP_CODE_ARGUMENT || code == OPKEEP_CODE_HANDLE;
    /* Functions of the tests call others. */
    if (!is_wrong_call || strncmp(call, "opkeep_", 7) != 0) {
        return 1;
    }
    return strncmp(message, call, length) == 0 && strncmp(message + length, ": `", 3) == 0;
}

/* The call has the code, and so has the last error, whose message contains `text`. */
#define FAILS(call, expected, text)                                                                                    \
    do {                                                                                                               \
        CHECK((call) == (expected));                                                                                   \
        CHECK(opkeep_last_code() == (expected));                                                                       \
        CHECK(strstr(opkeep_last_message(), (text)) != NULL);                                                          \
        CHECK(names_function(#call));                                                                                  \
    } while (0)

/* The request is an error with the code, and gives no handle. */
#define NO_REQUEST(call, expected, text)                                                                               \
    do {                                                                                                               \
        CHECK((call) == OPKEEP_OUTCOME_ERROR);                                                                         \
        CHECK(opkeep_last_code() == (expected));                                                                       \
        CHECK(strstr(opkeep_last_message(), (text)) != NULL);                                                          \
        CHECK(names_function(#call));                                                                                  \
    } while (0)

static inline opkeep_cache open_cache(const char *directory) {
    opkeep_options options = {.size = sizeof options, .directory = directory, .framework = "test"};
    opkeep_cache cache;
    CHECK(opkeep_open(&options, &cache) == OPKEEP_CODE_OK);
    return cache;
}

static inline opkeep_target open_target(opkeep_cache cache) {
    opkeep_target target;
    CHECK(opkeep_target_open(cache, "target-1", &target) == OPKEEP_CODE_OK);
    return target;
}

static inline opkeep_key key_of(const char *text) {
    opkeep_key key = {.size = sizeof key};
    CHECK(opkeep_digest(text, strlen(text), key.digest) == OPKEEP_CODE_OK);
    return key;
}

/* Requests the files of `text`, with a ticket in `ticket`. */
static inline opkeep_outcome request(opkeep_target target, const char *text, uint32_t flags, opkeep_ticket *ticket) {
    opkeep_key key = key_of(text);
    opkeep_request request = {.size = sizeof request, .timeout_ms = 20000, .flags = flags};
    opkeep_hit hit;
    opkeep_outcome outcome = opkeep_get_or_begin(target, &key, &request, &hit, ticket);
    CHECK(opkeep_hit_release(hit) == OPKEEP_CODE_OK);
    return outcome;
}

static inline opkeep_code publish(opkeep_ticket ticket, const char *data) {
    opkeep_file file = {.name = "file", .data = data, .size = strlen(data)};
    opkeep_group group = {.size = sizeof group, .files = &file, .file_count = 1};
    return opkeep_publish(ticket, &group, NULL);
}

#endif

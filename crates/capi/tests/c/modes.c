/* What each mode does with files that are stored, that are not, and without a store: modes STORE. */
#include "check.h"

static const char OLD[] = "of an earlier run";
static const char NEW[] = "of this run";

/* Opens the target of a store in a mode; none if that is the error STORE. */
static opkeep_target open_mode(const char *store, uint32_t mode) {
    opkeep_options options = {.size = sizeof options, .directory = store, .framework = "test", .mode = mode};
    opkeep_cache cache;
    if (opkeep_open(&options, &cache) != OPKEEP_CODE_OK) {
        CHECK(opkeep_last_code() == OPKEEP_CODE_STORE && cache.id == 0);
        return (opkeep_target){0};
    }
    opkeep_target target = open_target(cache);
    CHECK(opkeep_close(cache) == OPKEEP_CODE_OK);
    return target;
}

/* Whether a hit has the bytes. It is released. */
static int has(opkeep_hit hit, const char *bytes) {
    opkeep_file file = {0};
    CHECK(opkeep_hit_find(hit, "file", &file) == OPKEEP_CODE_OK);
    const int is_same = file.size == strlen(bytes) && memcmp(file.data, bytes, file.size) == 0;
    CHECK(opkeep_hit_release(hit) == OPKEEP_CODE_OK);
    return is_same;
}

/* What `opkeep_get` finds: the bytes, or null for a miss. */
static void finds(opkeep_target target, const char *bytes) {
    opkeep_key key = key_of("kernel");
    opkeep_hit hit;
    const opkeep_outcome outcome = opkeep_get(target, &key, &hit);
    CHECK(outcome == (bytes == NULL ? OPKEEP_OUTCOME_MISS : OPKEEP_OUTCOME_HIT));
    CHECK(bytes == NULL || has(hit, bytes));
}

/* The results of a request: its outcome, or the code of its error, and what is found before and afterwards. */
struct behavior {
    const char *before;
    opkeep_outcome outcome;
    int written;
    const char *after;
    const char *stored;
};

static void behaves(const char *store, uint32_t mode, struct behavior expected) {
    opkeep_target target = open_mode(store, mode);
    CHECK(target.id != 0);
    finds(target, expected.before);
    opkeep_key key = key_of("kernel");
    opkeep_hit hit;
    opkeep_ticket ticket;
    const opkeep_outcome outcome = opkeep_get_or_begin(target, &key, NULL, &hit, &ticket);
    CHECK(outcome == expected.outcome);
    CHECK(outcome != OPKEEP_OUTCOME_ERROR || opkeep_last_code() == OPKEEP_CODE_NOT_CACHED);
    CHECK(outcome != OPKEEP_OUTCOME_HIT || has(hit, expected.before));
    opkeep_file file = {.name = "file", .data = NEW, .size = strlen(NEW)};
    opkeep_group group = {.size = sizeof group, .files = &file, .file_count = 1};
    int written = 0;
    if (ticket.id != 0) {
        CHECK(opkeep_publish(ticket, &group, &written) == OPKEEP_CODE_OK);
        CHECK(opkeep_ticket_release(ticket) == OPKEEP_CODE_OK);
    }
    CHECK(written == expected.written);
    finds(target, expected.after);
    opkeep_target other = open_mode(store, OPKEEP_MODE_ENABLE);
    finds(other, expected.stored);
    CHECK(opkeep_put(target, &key, &group, &written) == OPKEEP_CODE_OK);
    CHECK(written == (mode == OPKEEP_MODE_ENABLE || mode == OPKEEP_MODE_FORCE));
    finds(other, written ? NEW : expected.stored);
    CHECK(opkeep_target_close(target) == OPKEEP_CODE_OK && opkeep_target_close(other) == OPKEEP_CODE_OK);
}

static const struct behavior STORED[] = {
    [OPKEEP_MODE_ENABLE] = {OLD, OPKEEP_OUTCOME_HIT, 0, OLD, OLD},
    [OPKEEP_MODE_FORCE] = {NULL, OPKEEP_OUTCOME_BEGIN, 1, NEW, NEW},
    [OPKEEP_MODE_DISABLE] = {NULL, OPKEEP_OUTCOME_UNSHARED, 0, NULL, OLD},
    [OPKEEP_MODE_READ_ONLY] = {OLD, OPKEEP_OUTCOME_HIT, 0, OLD, OLD},
    [OPKEEP_MODE_REQUIRE] = {OLD, OPKEEP_OUTCOME_HIT, 0, OLD, OLD},
};

static const struct behavior NOT_STORED[] = {
    [OPKEEP_MODE_ENABLE] = {NULL, OPKEEP_OUTCOME_BEGIN, 1, NEW, NEW},
    [OPKEEP_MODE_FORCE] = {NULL, OPKEEP_OUTCOME_BEGIN, 1, NEW, NEW},
    [OPKEEP_MODE_DISABLE] = {NULL, OPKEEP_OUTCOME_UNSHARED, 0, NULL, NULL},
    [OPKEEP_MODE_READ_ONLY] = {NULL, OPKEEP_OUTCOME_UNSHARED, 0, NULL, NULL},
    [OPKEEP_MODE_REQUIRE] = {NULL, OPKEEP_OUTCOME_ERROR, 0, NULL, NULL},
};

int main(int argc, char **argv) {
    CHECK(argc == 2);
    char store[4200];
    for (uint32_t mode = OPKEEP_MODE_ENABLE; mode <= OPKEEP_MODE_REQUIRE; mode++) {
        CHECK(snprintf(store, sizeof store, "%s-%u", argv[1], mode) < (int)sizeof store);
        opkeep_target target = open_mode(store, mode);
        const int needs_store = mode == OPKEEP_MODE_READ_ONLY || mode == OPKEEP_MODE_REQUIRE;
        CHECK((target.id == 0) == needs_store);
        CHECK((access(store, F_OK) == 0) == (mode == OPKEEP_MODE_ENABLE || mode == OPKEEP_MODE_FORCE));
        CHECK(opkeep_target_close(target) == OPKEEP_CODE_OK);

        CHECK(opkeep_target_close(open_mode(store, OPKEEP_MODE_ENABLE)) == OPKEEP_CODE_OK);
        behaves(store, mode, NOT_STORED[mode]);

        opkeep_target earlier = open_mode(store, OPKEEP_MODE_ENABLE);
        opkeep_key key = key_of("kernel");
        opkeep_file file = {.name = "file", .data = OLD, .size = strlen(OLD)};
        opkeep_group group = {.size = sizeof group, .files = &file, .file_count = 1};
        CHECK(opkeep_put(earlier, &key, &group, NULL) == OPKEEP_CODE_OK);
        CHECK(opkeep_target_close(earlier) == OPKEEP_CODE_OK);
        behaves(store, mode, STORED[mode]);
    }
    return 0;
}

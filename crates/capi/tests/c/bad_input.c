/* What a caller can do wrong: each is an error with its code, and nothing is lost: bad_input STORE. */
#include "check.h"

#include <pthread.h>

static opkeep_cache cache;
static opkeep_target target;

static const uint64_t NO_HANDLES[] = {0, 999999, UINT64_MAX};

/* Longer than names may be. */
static char long_text[300];

static void open_with_wrong_options(const char *store) {
    const opkeep_options good = {.size = sizeof good, .directory = store, .framework = "test"};
    opkeep_options options = good;
    opkeep_cache opened = {77};
    FAILS(opkeep_open(NULL, &opened), OPKEEP_CODE_ARGUMENT, "`options` is a null pointer");
    CHECK(opened.id == 0);
    FAILS(opkeep_open(&good, NULL), OPKEEP_CODE_ARGUMENT, "`cache` is a null pointer");
    const size_t first = offsetof(opkeep_options, remote);
    const size_t sizes[] = {0, 1, first - 8, 4097, SIZE_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        options.size = sizes[i];
        FAILS(opkeep_open(&options, &opened), OPKEEP_CODE_ARGUMENT, "`options->size` is");
    }
    /* The struct of a later version, which sets no new field, or one. */
    struct {
        opkeep_options options;
        const char *later;
    } later = {good, NULL};
    later.options.size = sizeof later;
    CHECK(opkeep_open(&later.options, &opened) == OPKEEP_CODE_OK && opkeep_close(opened) == OPKEEP_CODE_OK);
    later.later = store;
    FAILS(opkeep_open(&later.options, &opened), OPKEEP_CODE_ARGUMENT, "this version of the library does not have");

    options = good;
    options.mode = 5;
    FAILS(opkeep_open(&options, &opened), OPKEEP_CODE_ARGUMENT, "`options->mode` is 5");
    options = good;
    options.directory = NULL;
    FAILS(opkeep_open(&options, &opened), OPKEEP_CODE_ARGUMENT, "`options->directory` is a null pointer");
    options.directory = "";
    FAILS(opkeep_open(&options, &opened), OPKEEP_CODE_ARGUMENT, "`options->directory` is empty");
    options = good;
    options.framework = NULL;
    FAILS(opkeep_open(&options, &opened), OPKEEP_CODE_ARGUMENT, "`options->framework` is a null pointer");
    options.framework = "\xff";
    FAILS(opkeep_open(&options, &opened), OPKEEP_CODE_ARGUMENT, "`options->framework` is not UTF-8");
    FAILS(opkeep_target_open(cache, "\xff", &(opkeep_target){0}), OPKEEP_CODE_ARGUMENT, "`name` is not UTF-8");
    FAILS(opkeep_target_open(cache, NULL, &(opkeep_target){0}), OPKEEP_CODE_ARGUMENT, "`name` is a null pointer");
    FAILS(opkeep_target_open(cache, "target-1", NULL), OPKEEP_CODE_ARGUMENT, "`target` is a null pointer");
    const char *names[] = {"", ".x", "a/b", "a b", "..", "a\n", long_text};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        options.framework = names[i];
        FAILS(opkeep_open(&options, &opened), OPKEEP_CODE_NAME, "framework");
        opkeep_target unopened;
        FAILS(opkeep_target_open(cache, names[i], &unopened), OPKEEP_CODE_NAME, "target");
        CHECK(unopened.id == 0);
    }
    CHECK(opened.id == 0);
}

/* Reports show these texts, each in one line. */
static void publish_long_texts(void) {
    static char longest[4097], longer[4098];
    memset(longest, 'a', sizeof longest - 1);
    memset(longer, 'a', sizeof longer - 1);
    opkeep_key key = key_of("long");
    opkeep_part part = {.name = "cc"};
    opkeep_file file = {.name = "file", .data = "data", .size = 4};
    opkeep_group group = {.size = sizeof group, .files = &file, .file_count = 1};
    const char **texts[] = {&key.name, &part.name, &part.note, &group.kernel, &group.framework_version};
    const char *arguments[] = {"`key->name`", "`key->toolchain[0].name`", "`key->toolchain[0].note`", "`group->kernel`",
                               "`group->framework_version`"};
    key.toolchain = &part;
    key.toolchain_count = 1;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const char *before = *texts[i];
        *texts[i] = longer;
        char message[100];
        snprintf(message, sizeof message, "%s has 4097 bytes, more than 4096", arguments[i]);
        FAILS(opkeep_put(target, &key, &group, NULL), OPKEEP_CODE_ARGUMENT, message);
        *texts[i] = longest;
        CHECK(opkeep_put(target, &key, &group, NULL) == OPKEEP_CODE_OK);
        *texts[i] = before;
    }
    key.toolchain_count = 257;
    FAILS(opkeep_put(target, &key, &group, NULL), OPKEEP_CODE_ARGUMENT, "`key->toolchain_count` is 257");
    key.toolchain_count = 1;
    group.rules = "{\"version\":1,\"target\":\"target-1\",\"format\":{\"opaque\":{\"starts_with\":[],"
                  "\"max_bytes\":9}},\"metadata\":\"none\"}";
    FAILS(opkeep_put(target, &key, &group, NULL), OPKEEP_CODE_ARGUMENT, "`group->object`");
}

/* The modes that do not write, and a store that cannot be used. */
static void use_modes(const char *store) {
    opkeep_options options = {.size = sizeof options, .framework = "test", .mode = OPKEEP_MODE_DISABLE};
    opkeep_cache opened;
    opkeep_ticket ticket;
    opkeep_warning warning;
    int written = 7;
    CHECK(opkeep_open(&options, &opened) == OPKEEP_CODE_OK);
    CHECK(request(open_target(opened), "unshared", 0, &ticket) == OPKEEP_OUTCOME_UNSHARED);
    CHECK(opkeep_last_code() == OPKEEP_CODE_UNSHARED);
    opkeep_file file = {.name = "file", .data = "data", .size = 4};
    opkeep_group group = {.size = sizeof group, .files = &file, .file_count = 1};
    CHECK(opkeep_publish(ticket, &group, &written) == OPKEEP_CODE_OK && written == 0);
    CHECK(opkeep_ticket_release(ticket) == OPKEEP_CODE_OK && opkeep_close(opened) == OPKEEP_CODE_OK);

    options.mode = OPKEEP_MODE_REQUIRE;
    options.directory = store;
    CHECK(opkeep_open(&options, &opened) == OPKEEP_CODE_OK);
    CHECK(request(open_target(opened), "not cached", 0, &ticket) == OPKEEP_OUTCOME_ERROR);
    CHECK(opkeep_last_code() == OPKEEP_CODE_NOT_CACHED && ticket.id == 0);
    CHECK(opkeep_close(opened) == OPKEEP_CODE_OK);

    options.mode = OPKEEP_MODE_ENABLE;
    options.directory = "/dev/null/store";
    CHECK(opkeep_open(&options, &opened) == OPKEEP_CODE_OK);
    CHECK(opkeep_next_warning(opened, &warning) == OPKEEP_CODE_OK);
    CHECK(warning.kind == OPKEEP_WARNING_KIND_STORE && strstr(warning.text, "/dev/null/store") != NULL);
    CHECK(warning.dropped == 0);
    FAILS(opkeep_next_warning(opened, &warning), OPKEEP_CODE_NOT_FOUND, "no further warning");
    FAILS(opkeep_next_warning(opened, NULL), OPKEEP_CODE_ARGUMENT, "`warning` is a null pointer");
    CHECK(opkeep_close(opened) == OPKEEP_CODE_OK);
    options.mode = OPKEEP_MODE_REQUIRE;
    FAILS(opkeep_open(&options, &opened), OPKEEP_CODE_STORE, "/dev/null/store");
}

static void use_handles_that_are_none(void) {
    opkeep_key key = key_of("kernel");
    opkeep_hit hit;
    opkeep_ticket ticket;
    opkeep_file file;
    opkeep_finding finding;
    opkeep_warning warning;
    opkeep_info info = {.size = sizeof info};
    for (size_t i = 0; i < 3; i++) {
        const uint64_t id = NO_HANDLES[i];
        const char *text = id == 0 ? "` is unset: its `id` is 0" : "` is no handle: ";
        FAILS(opkeep_target_open((opkeep_cache){id}, "target-1", &(opkeep_target){0}), OPKEEP_CODE_HANDLE, text);
        FAILS(opkeep_next_warning((opkeep_cache){id}, &warning), OPKEEP_CODE_HANDLE, text);
        NO_REQUEST(opkeep_get((opkeep_target){id}, &key, &hit), OPKEEP_CODE_HANDLE, text);
        CHECK(hit.id == 0);
        NO_REQUEST(opkeep_get_or_begin((opkeep_target){id}, &key, NULL, &hit, &ticket), OPKEEP_CODE_HANDLE, text);
        CHECK(hit.id == 0 && ticket.id == 0);
        FAILS(publish((opkeep_ticket){id}, "data"), OPKEEP_CODE_HANDLE, text);
        FAILS(opkeep_abandon((opkeep_ticket){id}, NULL), OPKEEP_CODE_HANDLE, text);
        FAILS(opkeep_put((opkeep_target){id}, &key, NULL, NULL), OPKEEP_CODE_HANDLE, text);
        CHECK(opkeep_hit_count((opkeep_hit){id}) == 0 && opkeep_last_code() == OPKEEP_CODE_HANDLE);
        FAILS(opkeep_hit_file((opkeep_hit){id}, 0, &file), OPKEEP_CODE_HANDLE, text);
        FAILS(opkeep_hit_find((opkeep_hit){id}, "file", &file), OPKEEP_CODE_HANDLE, text);
        FAILS(opkeep_hit_info((opkeep_hit){id}, &info), OPKEEP_CODE_HANDLE, text);
        FAILS(opkeep_cancel_request((opkeep_cancel){id}), OPKEEP_CODE_HANDLE, text);
        FAILS(opkeep_report_counts((opkeep_report){id}, NULL, NULL), OPKEEP_CODE_HANDLE, text);
        FAILS(opkeep_report_finding((opkeep_report){id}, 0, &finding), OPKEEP_CODE_HANDLE, text);
        /* To release no handle is no error. */
        const opkeep_code released = id == 0 ? OPKEEP_CODE_OK : OPKEEP_CODE_HANDLE;
        CHECK(opkeep_close((opkeep_cache){id}) == released);
        CHECK(opkeep_target_close((opkeep_target){id}) == released);
        CHECK(opkeep_hit_release((opkeep_hit){id}) == released);
        CHECK(opkeep_ticket_release((opkeep_ticket){id}) == released);
        CHECK(opkeep_cancel_release((opkeep_cancel){id}) == released);
        CHECK(opkeep_report_release((opkeep_report){id}) == released);
    }
    /* A handle of another kind. */
    FAILS(opkeep_hit_release((opkeep_hit){cache.id}), OPKEEP_CODE_HANDLE, "`hit` is a handle of another kind, `cache`");
    FAILS(opkeep_ticket_release((opkeep_ticket){cache.id}), OPKEEP_CODE_HANDLE, "another kind, `cache`");
    FAILS(opkeep_report_release((opkeep_report){cache.id}), OPKEEP_CODE_HANDLE, "another kind, `cache`");
    FAILS(opkeep_cancel_release((opkeep_cancel){cache.id}), OPKEEP_CODE_HANDLE, "another kind, `cache`");
    FAILS(opkeep_target_close((opkeep_target){cache.id}), OPKEEP_CODE_HANDLE, "another kind, `cache`");
    FAILS(opkeep_close((opkeep_cache){target.id}), OPKEEP_CODE_HANDLE, "another kind, `target`");
    FAILS(opkeep_target_open((opkeep_cache){target.id}, "target-1", &(opkeep_target){0}), OPKEEP_CODE_HANDLE,
          "`cache` is a handle of another kind, `target`");
}

static void request_wrongly(void) {
    opkeep_key key = key_of("kernel");
    opkeep_hit hit;
    opkeep_ticket ticket;
    opkeep_request request = {.size = sizeof request};
#define REFUSED(key, request, code, text)                                                                              \
    NO_REQUEST(opkeep_get_or_begin(target, key, request, &hit, &ticket), code, text);                                  \
    CHECK(hit.id == 0 && ticket.id == 0)
    REFUSED(NULL, NULL, OPKEEP_CODE_ARGUMENT, "`key` is a null pointer");
    NO_REQUEST(opkeep_get_or_begin(target, &key, NULL, NULL, &ticket), OPKEEP_CODE_ARGUMENT, "`hit` is a null pointer");
    NO_REQUEST(opkeep_get_or_begin(target, &key, NULL, &hit, NULL), OPKEEP_CODE_ARGUMENT, "`ticket` is a null pointer");
    NO_REQUEST(opkeep_get(target, &key, NULL), OPKEEP_CODE_ARGUMENT, "`hit` is a null pointer");
    NO_REQUEST(opkeep_get(target, NULL, &hit), OPKEEP_CODE_ARGUMENT, "`key` is a null pointer");
    FAILS(opkeep_cancel_new(NULL), OPKEEP_CODE_ARGUMENT, "`cancel` is a null pointer");
    key.size = 3;
    REFUSED(&key, NULL, OPKEEP_CODE_ARGUMENT, "`key->size` is 3, expected");
    key = key_of("kernel");
    key.toolchain_count = 1;
    REFUSED(&key, NULL, OPKEEP_CODE_ARGUMENT, "`key->toolchain` is a null pointer");
    opkeep_part part = {.note = "x"};
    key.toolchain = &part;
    REFUSED(&key, NULL, OPKEEP_CODE_ARGUMENT, "`key->toolchain[0].name` is a null pointer");
    key.toolchain = (const opkeep_part *)((const char *)&part + 1);
    REFUSED(&key, NULL, OPKEEP_CODE_ARGUMENT, "`key->toolchain` is not aligned");
    key = key_of("kernel");
    request.flags = 6;
    REFUSED(&key, &request, OPKEEP_CODE_ARGUMENT, "`request->flags` is 0x6");
    request.flags = 0;
    request.cancel.id = 999999;
    REFUSED(&key, &request, OPKEEP_CODE_HANDLE, "`cancel` is no handle");
    request.cancel.id = 0;
    request.rules = "{}";
    REFUSED(&key, &request, OPKEEP_CODE_RULES, "`request->rules`: the rules are not valid: missing field `version`");
    request.rules = "{\"version\":1,\"target\":\"target-1\",\"format\":{\"opaque\":{\"starts_with\":[46],\"max_bytes\":\"9\"}},"
                    "\"metadata\":\"none\"}";
    REFUSED(&key, &request, OPKEEP_CODE_RULES,
            "in the field `format.opaque.max_bytes`: invalid type: string \"9\", expected u64");
    request.size = 8;
    REFUSED(&key, &request, OPKEEP_CODE_ARGUMENT, "`request->size` is 8, expected");
}

static const char RULES[] =
    "{\"version\":1,\"target\":\"target-1\",\"format\":{\"opaque\":{\"starts_with\":[46,118],\"max_bytes\":9}},"
    "\"metadata\":\"none\"}";

static void refuse_groups(void) {
    opkeep_ticket ticket;
    CHECK(request(target, "kernel", 0, &ticket) == OPKEEP_OUTCOME_BEGIN);
    opkeep_file files[61];
    char names[61][8];
    for (int i = 0; i < 61; i++) {
        snprintf(names[i], sizeof names[i], "f%d", i);
        files[i] = (opkeep_file){.name = names[i], .data = "data", .size = 4};
    }
    const opkeep_group good = {.size = sizeof good, .files = files, .file_count = 2};
    opkeep_group group = good;
    FAILS(opkeep_publish(ticket, NULL, NULL), OPKEEP_CODE_ARGUMENT, "`group` is a null pointer");
    group.size = 4;
    FAILS(opkeep_publish(ticket, &group, NULL), OPKEEP_CODE_ARGUMENT, "`group->size` is 4, expected");
    group = good;
    group.flags = 8;
    FAILS(opkeep_publish(ticket, &group, NULL), OPKEEP_CODE_ARGUMENT, "`group->flags` is 0x8");
    group = good;
    group.file_count = 0;
    FAILS(opkeep_publish(ticket, &group, NULL), OPKEEP_CODE_GROUP, "at least one file");
    group.files = NULL;
    group.file_count = 1;
    FAILS(opkeep_publish(ticket, &group, NULL), OPKEEP_CODE_ARGUMENT, "`group->files` is a null pointer");
    group = good;
    group.file_count = 61;
    FAILS(opkeep_publish(ticket, &group, NULL), OPKEEP_CODE_GROUP, "61");
    group.file_count = SIZE_MAX;
    FAILS(opkeep_publish(ticket, &group, NULL), OPKEEP_CODE_GROUP, "at most");
    group = good;
    group.files = (const opkeep_file *)((const char *)files + 1);
    FAILS(opkeep_publish(ticket, &group, NULL), OPKEEP_CODE_ARGUMENT, "`group->files` is not aligned");
    group.files = files;
    const char *wrong[] = {"", ".", "..", "a/b", "/a", "a b", "a\n", long_text};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        files[1].name = wrong[i];
        FAILS(opkeep_publish(ticket, &good, NULL), OPKEEP_CODE_NAME, "cannot be the name of a file");
    }
    files[1].name = NULL;
    FAILS(opkeep_publish(ticket, &good, NULL), OPKEEP_CODE_ARGUMENT, "`group->files[1].name` is a null pointer");
    files[1].name = "\xc3";
    FAILS(opkeep_publish(ticket, &good, NULL), OPKEEP_CODE_ARGUMENT, "`group->files[1].name` is not UTF-8");
    files[1].name = names[0];
    FAILS(opkeep_publish(ticket, &good, NULL), OPKEEP_CODE_GROUP, "two files");
    files[1].name = names[1];
    files[1].size = 0;
    FAILS(opkeep_publish(ticket, &good, NULL), OPKEEP_CODE_GROUP, "is empty");
    files[1].data = NULL;
    FAILS(opkeep_publish(ticket, &good, NULL), OPKEEP_CODE_GROUP, "is empty");
    files[1].size = 4;
    FAILS(opkeep_publish(ticket, &good, NULL), OPKEEP_CODE_ARGUMENT, "`group->files[1].data` is a null pointer");
    files[1].size = SIZE_MAX;
    files[1].data = "data";
    FAILS(opkeep_publish(ticket, &good, NULL), OPKEEP_CODE_ARGUMENT, "`group->files[1].data` is not aligned, or");
    char *gib = calloc(1, (size_t)1 << 30);
    CHECK(gib != NULL);
    files[1].data = gib;
    files[1].size = (size_t)1 << 30;
    FAILS(opkeep_publish(ticket, &good, NULL), OPKEEP_CODE_GROUP, "more than an entry may have");
    /* The largest group has 1023 MiB: it is refused for another reason. The first file has 4 bytes. */
    files[1].size = ((size_t)1023 << 20) - 3;
    FAILS(opkeep_publish(ticket, &good, NULL), OPKEEP_CODE_GROUP, "more than an entry may have");
    files[1].size -= 1;
    group = good;
    group.object = "other";
    FAILS(opkeep_publish(ticket, &group, NULL), OPKEEP_CODE_GROUP, "`other`");
    free(gib);
    files[1] = files[2];
    group = good;
    group.object = "other";
    FAILS(opkeep_publish(ticket, &group, NULL), OPKEEP_CODE_GROUP, "`other`");
    group.object = NULL;
    group.rules = "no rules";
    FAILS(opkeep_publish(ticket, &group, NULL), OPKEEP_CODE_RULES, "`group->rules`: the rules are not valid: expected");
    group.rules = RULES;
    FAILS(opkeep_publish(ticket, &group, NULL), OPKEEP_CODE_ARGUMENT, "object");
    group.object = "f0";
    FAILS(opkeep_publish(ticket, &group, NULL), OPKEEP_CODE_KERNEL, "OPV");
    FAILS(opkeep_abandon(ticket, "\xff"), OPKEEP_CODE_ARGUMENT, "`reason` is not UTF-8");
    opkeep_key key = key_of("kernel");
    FAILS(opkeep_put(target, NULL, &good, NULL), OPKEEP_CODE_ARGUMENT, "`key` is a null pointer");
    FAILS(opkeep_put(target, &key, NULL, NULL), OPKEEP_CODE_ARGUMENT, "`group` is a null pointer");
    int unaligned[2];
    FAILS(opkeep_publish(ticket, &good, (int *)((char *)unaligned + 1)), OPKEEP_CODE_ARGUMENT, "`written` is not aligned");

    /* After all that, the ticket is held as before. */
    group = good;
    group.kernel = "add";
    group.framework_version = "2.1";
    group.object = "f0";
    group.compile_time_us = 1234;
    int written = 0;
    CHECK(opkeep_publish(ticket, &group, &written) == OPKEEP_CODE_OK && written == 1);
    FAILS(opkeep_publish(ticket, &group, NULL), OPKEEP_CODE_TICKET_ENDED, "has ended");
    CHECK(opkeep_abandon(ticket, "too late") == OPKEEP_CODE_OK);
    CHECK(opkeep_ticket_release(ticket) == OPKEEP_CODE_OK);
    FAILS(opkeep_ticket_release(ticket), OPKEEP_CODE_HANDLE, "released before");
    FAILS(opkeep_publish(ticket, &group, NULL), OPKEEP_CODE_HANDLE, "released before");
    /* Publish after abandon; the ticket of an abandoned request can be taken again. */
    CHECK(request(target, "abandoned", 0, &ticket) == OPKEEP_OUTCOME_BEGIN);
    CHECK(opkeep_abandon(ticket, NULL) == OPKEEP_CODE_OK && opkeep_abandon(ticket, "again") == OPKEEP_CODE_OK);
    FAILS(opkeep_publish(ticket, &group, NULL), OPKEEP_CODE_TICKET_ENDED, "has ended");
    opkeep_ticket other;
    CHECK(request(target, "abandoned", 0, &other) == OPKEEP_OUTCOME_BEGIN);
    CHECK(opkeep_ticket_release(ticket) == OPKEEP_CODE_OK && publish(other, "data") == OPKEEP_CODE_OK);
    CHECK(opkeep_ticket_release(other) == OPKEEP_CODE_OK);
}

static void use_a_hit(void) {
    opkeep_key key = key_of("kernel");
    opkeep_hit hit;
    opkeep_file file, again;
    opkeep_info info = {.size = sizeof info};
    CHECK(opkeep_get(target, &key, &hit) == OPKEEP_OUTCOME_HIT);
    CHECK(opkeep_hit_count(hit) == 2);
    CHECK(opkeep_hit_file(hit, 0, &file) == OPKEEP_CODE_OK && opkeep_hit_find(hit, "f0", &again) == OPKEEP_CODE_OK);
    CHECK(file.data == again.data && file.name == again.name && file.size == 4);
    FAILS(opkeep_hit_file(hit, 2, &file), OPKEEP_CODE_NOT_FOUND, "no file 2");
    CHECK(file.name == NULL && file.data == NULL && file.size == 0);
    FAILS(opkeep_hit_find(hit, "f9", &file), OPKEEP_CODE_NOT_FOUND, "`f9`");
    FAILS(opkeep_hit_find(hit, NULL, &file), OPKEEP_CODE_ARGUMENT, "`name` is a null pointer");
    FAILS(opkeep_hit_find(hit, "f0", NULL), OPKEEP_CODE_ARGUMENT, "`found` is a null pointer");
    FAILS(opkeep_hit_file(hit, 0, NULL), OPKEEP_CODE_ARGUMENT, "`found` is a null pointer");
    FAILS(opkeep_hit_info(hit, NULL), OPKEEP_CODE_ARGUMENT, "`info` is a null pointer");
    CHECK(opkeep_hit_info(hit, &info) == OPKEEP_CODE_OK && info.size == sizeof info);
    CHECK(strcmp(info.framework, "test") == 0 && strcmp(info.framework_version, "2.1") == 0);
    CHECK(strcmp(info.target, "target-1") == 0 && strcmp(info.kernel, "add") == 0);
    CHECK(strcmp(info.object, "f0") == 0 && info.metadata == NULL && info.compile_time_us == 1234);
    /* A caller with a later header: the fields that this library does not have are zero. */
    struct {
        opkeep_info info;
        char later[24];
    } later;
    memset(&later, 0xff, sizeof later);
    later.info.size = sizeof later;
    CHECK(opkeep_hit_info(hit, &later.info) == OPKEEP_CODE_OK && strcmp(later.info.kernel, "add") == 0);
    for (size_t index = 0; index < sizeof later.later; ++index) {
        CHECK(later.later[index] == 0);
    }
    /* A caller with the first header, whose struct says nothing of the remote cache: what lies behind it stays. */
    CHECK(sizeof(void *) != 8 || offsetof(opkeep_info, from_remote) == 104);
    info.size = offsetof(opkeep_info, from_remote);
    info.waited = info.from_remote = 77;
    CHECK(opkeep_hit_info(hit, &info) == OPKEEP_CODE_OK && info.waited == 0 && info.from_remote == 77);
    info.size = 9;
    FAILS(opkeep_hit_info(hit, &info), OPKEEP_CODE_ARGUMENT, "`info->size` is 9, expected");
    /* A hit outlives its target and its cache. */
    opkeep_target other = open_target(cache);
    CHECK(opkeep_target_close(other) == OPKEEP_CODE_OK);
    CHECK(opkeep_get(other, &key, &(opkeep_hit){0}) == OPKEEP_OUTCOME_ERROR);
    CHECK(memcmp(again.data, "data", 4) == 0);
    CHECK(opkeep_hit_release(hit) == OPKEEP_CODE_OK);
    FAILS(opkeep_hit_find(hit, "f0", &file), OPKEEP_CODE_HANDLE, "released before");
}

static void verify_wrongly(void) {
    const opkeep_pair text = {.size = sizeof text, .target = "cpu-x86_64", .object = "text", .object_size = 4};
    opkeep_pair pair = text;
    opkeep_report report;
    opkeep_finding finding;
    size_t findings, errors;
    CHECK(opkeep_verify(&pair, &report) == OPKEEP_CODE_OK);
    CHECK(opkeep_report_counts(report, &findings, &errors) == OPKEEP_CODE_OK && errors > 0 && findings >= errors);
    CHECK(opkeep_report_finding(report, 0, &finding) == OPKEEP_CODE_OK);
    CHECK(finding.severity == OPKEEP_SEVERITY_ERROR && strncmp(finding.code, "OPV", 3) == 0);
    CHECK(strncmp(finding.text, finding.code, strlen(finding.code)) == 0);
    FAILS(opkeep_report_finding(report, findings, &finding), OPKEEP_CODE_NOT_FOUND, "no finding");
    FAILS(opkeep_report_finding(report, 0, NULL), OPKEEP_CODE_ARGUMENT, "`finding` is a null pointer");
    CHECK(opkeep_report_release(report) == OPKEEP_CODE_OK);
    FAILS(opkeep_report_release(report), OPKEEP_CODE_HANDLE, "`report` was released before");

    pair.rules = RULES;
    pair.target = NULL;
    pair.object = ".version";
    pair.object_size = 8;
    CHECK(opkeep_verify(&pair, &report) == OPKEEP_CODE_OK);
    CHECK(opkeep_report_counts(report, NULL, &errors) == OPKEEP_CODE_OK && errors == 0);
    CHECK(opkeep_report_release(report) == OPKEEP_CODE_OK);

    pair = text;
    pair.target = "unknown";
    FAILS(opkeep_verify(&pair, &report), OPKEEP_CODE_RULES, "`unknown`");
    pair.target = NULL;
    FAILS(opkeep_verify(&pair, &report), OPKEEP_CODE_ARGUMENT, "`pair->target` is a null pointer");
    pair = text;
    pair.object = NULL;
    FAILS(opkeep_verify(&pair, &report), OPKEEP_CODE_ARGUMENT, "`pair->object` is a null pointer");
    FAILS(opkeep_verify(NULL, &report), OPKEEP_CODE_ARGUMENT, "`pair` is a null pointer");
    FAILS(opkeep_verify(&text, NULL), OPKEEP_CODE_ARGUMENT, "`report` is a null pointer");
    CHECK(report.id == 0);
}

static void use_rules(void) {
    const char *rules = "unset";
    FAILS(opkeep_rules(3, "sm_90", "target-1", &rules), OPKEEP_CODE_ARGUMENT, "`format` is 3");
    CHECK(rules == NULL);
    FAILS(opkeep_rules(OPKEEP_FORMAT_CUBIN, NULL, "target-1", &rules), OPKEEP_CODE_ARGUMENT, "`architecture` is a null pointer");
    FAILS(opkeep_rules(OPKEEP_FORMAT_CUBIN, "sm_90", NULL, &rules), OPKEEP_CODE_ARGUMENT, "`target` is a null pointer");
    FAILS(opkeep_rules(OPKEEP_FORMAT_CUBIN, "sm_90", "target-1", NULL), OPKEEP_CODE_ARGUMENT, "`rules` is a null pointer");
    FAILS(opkeep_rules(OPKEEP_FORMAT_CANN, "unknown", "target-1", &rules), OPKEEP_CODE_RULES, "`unknown`");
    CHECK(opkeep_rules(OPKEEP_FORMAT_CANN, "Ascend910B1", "target-1", &rules) == OPKEEP_CODE_OK);
    CHECK(opkeep_rules(OPKEEP_FORMAT_HSACO, "gfx942", "target-1", &rules) == OPKEEP_CODE_OK);
    CHECK(strstr(rules, "[224]") != NULL && strstr(rules, "\"target\":\"target-1\"") != NULL);
    CHECK(opkeep_rules(OPKEEP_FORMAT_CUBIN, "sm_90", "target-1", &rules) == OPKEEP_CODE_OK);

    /* The rules refuse text as a cubin, before it is published. */
    opkeep_ticket ticket;
    CHECK(request(target, "no cubin", 0, &ticket) == OPKEEP_OUTCOME_BEGIN);
    opkeep_file files[] = {{.name = "add.cubin", .data = "text", .size = 4},
                           {.name = "add.json", .data = "{\"name\":\"add\"}", .size = 14}};
    opkeep_group group = {.size = sizeof group, .files = files, .file_count = 2, .object = "add.cubin"};
    group.metadata = "add.json";
    group.rules = rules;
    FAILS(opkeep_publish(ticket, &group, NULL), OPKEEP_CODE_KERNEL, "OPV020");
    /* Rules for another target would not hold where the files are kept. */
    CHECK(opkeep_rules(OPKEEP_FORMAT_CUBIN, "sm_90", "target-2", &rules) == OPKEEP_CODE_OK);
    group.rules = rules;
    FAILS(opkeep_publish(ticket, &group, NULL), OPKEEP_CODE_RULES, "`target-2`");
    CHECK(opkeep_ticket_release(ticket) == OPKEEP_CODE_OK);
}

static void digest_wrongly(void) {
    uint8_t digest[OPKEEP_DIGEST_SIZE];
    FAILS(opkeep_digest(NULL, 1, digest), OPKEEP_CODE_ARGUMENT, "`data` is a null pointer");
    FAILS(opkeep_digest("x", 1, NULL), OPKEEP_CODE_ARGUMENT, "`digest` is a null pointer");
    FAILS(opkeep_digest_file("/does/not/exist", digest), OPKEEP_CODE_IO, "/does/not/exist");
    FAILS(opkeep_digest_file(NULL, digest), OPKEEP_CODE_ARGUMENT, "`path` is a null pointer");
    CHECK(opkeep_digest(NULL, 0, digest) == OPKEEP_CODE_OK && digest[0] == 0xe3 && digest[31] == 0x55);
    uint8_t of_file[OPKEEP_DIGEST_SIZE];
    CHECK(opkeep_digest_file("/dev/null", of_file) == OPKEEP_CODE_OK || opkeep_last_code() == OPKEEP_CODE_IO);
}

static void *wait_without_luck(void *outcome) {
    opkeep_ticket ticket;
    CHECK(opkeep_last_code() == OPKEEP_CODE_OK && strcmp(opkeep_last_message(), "") == 0);
    *(opkeep_outcome *)outcome = request(target, "failing", 0, &ticket);
    if (*(opkeep_outcome *)outcome == OPKEEP_OUTCOME_HOLDER_FAILED) {
        CHECK(opkeep_last_code() == OPKEEP_CODE_HOLDER_FAILED);
        CHECK(strcmp(opkeep_last_message(), "line 3: no such type") == 0);
    }
    CHECK(opkeep_ticket_release(ticket) == OPKEEP_CODE_OK);
    return NULL;
}

static void *time_out(void *unused) {
    opkeep_key key = key_of("failing");
    opkeep_request request = {.size = sizeof request, .timeout_ms = 50};
    opkeep_hit hit;
    opkeep_ticket ticket;
    (void)unused;
    CHECK(opkeep_get_or_begin(target, &key, &request, &hit, &ticket) == OPKEEP_OUTCOME_TIMED_OUT);
    CHECK(hit.id == 0 && ticket.id == 0 && opkeep_last_code() == OPKEEP_CODE_TIMED_OUT);
    return NULL;
}

static void fail_with_waiters(void) {
    opkeep_outcome outcome = OPKEEP_OUTCOME_ERROR;
    opkeep_ticket ticket;
    pthread_t waiter;
    CHECK(request(target, "failing", 0, &ticket) == OPKEEP_OUTCOME_BEGIN);
    CHECK(pthread_create(&waiter, NULL, time_out, NULL) == 0 && pthread_join(waiter, NULL) == 0);
    CHECK(opkeep_ticket_release(ticket) == OPKEEP_CODE_OK);
    /* A waiter that comes too late gets the ticket: then the next one is tried. */
    for (int i = 0; i < 100 && outcome != OPKEEP_OUTCOME_HOLDER_FAILED; i++) {
        CHECK(request(target, "failing", 0, &ticket) == OPKEEP_OUTCOME_BEGIN);
        CHECK(pthread_create(&waiter, NULL, wait_without_luck, &outcome) == 0);
        usleep(20000);
        CHECK(opkeep_abandon(ticket, "line 3: no such type") == OPKEEP_CODE_OK);
        CHECK(opkeep_ticket_release(ticket) == OPKEEP_CODE_OK);
        CHECK(pthread_join(waiter, NULL) == 0);
    }
    CHECK(outcome == OPKEEP_OUTCOME_HOLDER_FAILED);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    CHECK(opkeep_abi() == OPKEEP_ABI && strlen(opkeep_version()) >= 5);
    memset(long_text, 'a', sizeof long_text - 1);
    cache = open_cache(argv[1]);
    target = open_target(cache);
    open_with_wrong_options(argv[1]);
    publish_long_texts();
    use_modes(argv[1]);
    use_handles_that_are_none();
    request_wrongly();
    refuse_groups();
    use_a_hit();
    verify_wrongly();
    use_rules();
    digest_wrongly();
    fail_with_waiters();
    CHECK(opkeep_target_close(target) == OPKEEP_CODE_OK && opkeep_close(cache) == OPKEEP_CODE_OK);
    FAILS(opkeep_close(cache), OPKEEP_CODE_HANDLE, "released before");
    return 0;
}

/* A program that exits right after it published, and another host: remote_exit main|exit|find DIRECTORY. */
#include "check.h"

#include <sys/stat.h>

enum { KEYS = 20 };

static opkeep_cache open_host(const char *base, const char *host) {
    char url[4200], directory[4200];
    snprintf(url, sizeof url, "file://%s/shared", base);
    snprintf(directory, sizeof directory, "%s/%s", base, host);
    mkdir(base, 0700);
    mkdir(strchr(url, '/') + 2, 0700);
    opkeep_options options = {.size = sizeof options, .directory = directory, .framework = "test", .remote = url};
    opkeep_cache cache;
    CHECK(opkeep_open(&options, &cache) == OPKEEP_CODE_OK);
    return cache;
}

static const char *text_of(int key) {
    static char text[40];
    snprintf(text, sizeof text, "kernel %d", key);
    return text;
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    int finds = strcmp(argv[1], "find") == 0;
    opkeep_cache cache = open_host(argv[2], finds ? "other" : "one");
    opkeep_target target = open_target(cache);
    for (int key = 0; key < KEYS; key++) {
        opkeep_ticket ticket;
        /* Neither a lease keeps it waiting, nor does it have to build. */
        opkeep_outcome outcome = request(target, text_of(key), finds ? OPKEEP_NO_WAIT : 0, &ticket);
        CHECK(outcome == (finds ? OPKEEP_OUTCOME_HIT : OPKEEP_OUTCOME_BEGIN));
        if (!finds) {
            CHECK(publish(ticket, "data") == OPKEEP_CODE_OK && opkeep_ticket_release(ticket) == OPKEEP_CODE_OK);
        }
    }
    if (strcmp(argv[1], "exit") == 0) {
        exit(0);
    }
    return 0;
}

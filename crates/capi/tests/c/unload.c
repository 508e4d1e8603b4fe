/* A program that loads and unloads the library, while its handlers and its thread may run: unload LIBRARY STORE. */
#define _GNU_SOURCE

#include <opkeep.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                            \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)

/* A function of the library. A pointer to it is no pointer to data, which ISO C does not convert. */
#define FUNCTION(name)                                                                                                 \
    do {                                                                                                               \
        void *symbol = dlsym(library, #name);                                                                          \
        CHECK(symbol != NULL);                                                                                         \
        memcpy(&name##_, &symbol, sizeof symbol);                                                                      \
    } while (0)

static opkeep_code (*opkeep_open_)(const opkeep_options *, opkeep_cache *);
static opkeep_code (*opkeep_target_open_)(opkeep_cache, const char *, opkeep_target *);
static opkeep_outcome (*opkeep_get_or_begin_)(opkeep_target, const opkeep_key *, const opkeep_request *, opkeep_hit *,
                                              opkeep_ticket *);
static opkeep_code (*opkeep_publish_)(opkeep_ticket, const opkeep_group *, int *);
static opkeep_code (*opkeep_ticket_release_)(opkeep_ticket);

static void *library;
static opkeep_ticket ticket;

static void *begin_and_unload(void *arguments) {
    char **argv = arguments;
    opkeep_options options = {.size = sizeof options, .directory = argv[2], .framework = "test"};
    opkeep_key key = {.size = sizeof key};
    opkeep_cache cache;
    opkeep_target target;
    opkeep_hit hit;
    library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    CHECK(library != NULL);
    FUNCTION(opkeep_open);
    FUNCTION(opkeep_target_open);
    FUNCTION(opkeep_get_or_begin);
    FUNCTION(opkeep_publish);
    FUNCTION(opkeep_ticket_release);
    CHECK(opkeep_open_(&options, &cache) == OPKEEP_CODE_OK);
    CHECK(opkeep_target_open_(cache, "target-1", &target) == OPKEEP_CODE_OK);
    /* From now on, the library's thread renews the ticket. */
    CHECK(opkeep_get_or_begin_(target, &key, NULL, &hit, &ticket) == OPKEEP_OUTCOME_BEGIN);
    CHECK(dlclose(library) == 0);
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t thread;
    int status;
    CHECK(argc == 3);
    /* The end of this thread runs the library's destructors of its variables. */
    CHECK(pthread_create(&thread, NULL, begin_and_unload, argv) == 0 && pthread_join(thread, NULL) == 0);
    CHECK(dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD) != NULL && dlclose(library) == 0);
    /* Its handlers run around a fork. */
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        _exit(opkeep_ticket_release_(ticket) == OPKEEP_CODE_OK ? 0 : 1);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    /* And its thread wakes up. */
    opkeep_file file = {.name = "file", .data = "data", .size = 4};
    opkeep_group group = {.size = sizeof group, .files = &file, .file_count = 1};
    CHECK(opkeep_publish_(ticket, &group, NULL) == OPKEEP_CODE_OK);
    CHECK(opkeep_ticket_release_(ticket) == OPKEEP_CODE_OK);
    return 0;
}

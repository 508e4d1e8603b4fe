/* Two threads change a number without a lock: ThreadSanitizer must report it although it ignores the library. */
#include "check.h"

#include <pthread.h>

static int number;

static void *run(void *unused) {
    (void)unused;
    number++;
    CHECK(opkeep_abi() == OPKEEP_ABI);
    return NULL;
}

int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        CHECK(pthread_create(&threads[i], NULL, run, NULL) == 0);
    }
    for (int i = 0; i < 2; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    return 0;
}

/* A program that leaks, beside a handle of the library that it does not release: AddressSanitizer must report the first. */
#include "check.h"

int main(void) {
    opkeep_cancel cancel;
    CHECK(opkeep_cancel_new(&cancel) == OPKEEP_CODE_OK);
    /* The last one may still be in a register. */
    static void *volatile lost;
    for (int i = 0; i < 9; i++) {
        lost = malloc(4);
        CHECK(lost != NULL);
    }
    lost = NULL;
    return 0;
}

/* Loaded into ld, this changes the name that it gives to objects: constructors get the arguments that main reads later. */
#include <string.h>

__attribute__((constructor)) static void set(int count, char **words) {
    for (int at = 1; at + 1 < count; at++)
        if (strcmp(words[at], "-soname") == 0)
            words[at + 1][1] = '0' + MARK;
}

/* A gcc plug-in that needs no headers of gcc: when cc1 ends, it adds a number to the assembler's input. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct argument {
    char *key;
    char *value;
};

struct plugin {
    char *base_name;
    const char *full_name;
    int argc;
    struct argument *argv;
};

int plugin_is_GPL_compatible;

static char output[4096];
static int number = MARK;

static void add(void) {
    FILE *file = fopen(output, "a");
    if (file) {
        fprintf(file, "\t.section .rodata\n\t.long %d\n", number);
        fclose(file);
    }
}

int plugin_init(struct plugin *plugin, void *version) {
    static char line[65536];
    (void)version;
    if (plugin->argc > 0) {
        FILE *file = fopen(plugin->argv[0].value, "r");
        if (!file || fscanf(file, "%d", &number) != 1)
            return 1;
        fclose(file);
    }
    FILE *file = fopen("/proc/self/cmdline", "r");
    size_t size = file ? fread(line, 1, sizeof line - 1, file) : 0;
    if (file)
        fclose(file);
    for (char *word = line; word < line + size; word += strlen(word) + 1)
        if (!strcmp(word, "-o")) {
            strncpy(output, word + 3, sizeof output - 1);
            atexit(add);
        }
    return 0;
}

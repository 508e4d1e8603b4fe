/* The compiler and the linker of the stand-in: `bisheng`, `ccec`, `ld.lld`, `llvm-objdump` and `llvm-objcopy`
 * are this program.
 *
 * It translates what operator packages ask of them for the machine's clang and linker, and starts these in its place.
 * Before that it notes the call for tests, and does what a test's rule asks for. Neither opens a file: notes and rules are the
 * targets of links, because whoever observes the files that a compile uses must not find any that the vendor's tools lack.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Written over when the toolkit is installed. */
static volatile char STAMP[256] = "@STAMP@";
static volatile char CLANG[1024] = "@CLANG@";
static volatile char LINKER[1024] = "@LINKER@";
static volatile char OBJDUMP[1024] = "@OBJDUMP@";

enum { PART = 4000 };

/* A text that grows. */
struct text {
    char *bytes;
    size_t size, room;
};

static void add_bytes(struct text *text, const char *bytes, size_t size)
{
    if (text->size + size + 1 > text->room) {
        text->room = (text->size + size + 1) * 2;
        text->bytes = realloc(text->bytes, text->room);
        if (text->bytes == NULL)
            abort();
    }
    memcpy(text->bytes + text->size, bytes, size);
    text->size += size;
    text->bytes[text->size] = 0;
}

static void add(struct text *text, const char *bytes)
{
    add_bytes(text, bytes, strlen(bytes));
}

/* As JSON has it; bytes from 128 on stay. */
static void add_quoted(struct text *text, const char *bytes)
{
    char escaped[8];
    add(text, "\"");
    for (; *bytes; bytes++) {
        unsigned char byte = (unsigned char)*bytes;
        if (byte == '"' || byte == '\\' || byte < 32) {
            snprintf(escaped, sizeof escaped, "\\u%04x", byte);
            add(text, escaped);
        } else {
            add_bytes(text, bytes, 1);
        }
    }
    add(text, "\"");
}

static char *copy(const char *bytes)
{
    char *made = strdup(bytes);
    if (made == NULL)
        abort();
    return made;
}

static char *joined(const char *first, const char *second)
{
    struct text text = {0};
    add(&text, first);
    add(&text, second);
    return text.bytes;
}

/* The arguments of the program to be started. */
struct arguments {
    char **list;
    size_t count;
};

static void push(struct arguments *to, const char *argument)
{
    to->list = realloc(to->list, (to->count + 2) * sizeof *to->list);
    if (to->list == NULL)
        abort();
    to->list[to->count++] = copy(argument);
    to->list[to->count] = NULL;
}

static _Noreturn void start(struct arguments *arguments)
{
    execvp(arguments->list[0], arguments->list);
    fprintf(stderr, "error: unable to execute command: %s: %s\n", arguments->list[0], strerror(errno));
    exit(1);
}

/* The directory of the compiler, `<root>/<arch>-linux/ccec_compiler`, and the root. */
static char COMPILER[PATH_MAX], ROOT[PATH_MAX];

static void find_places(void)
{
    ssize_t size = readlink("/proc/self/exe", COMPILER, sizeof COMPILER - 1);
    if (size < 0)
        exit(70);
    COMPILER[size] = 0;
    for (int level = 0; level < 2; level++)
        *strrchr(COMPILER, '/') = 0;
    strcpy(ROOT, COMPILER);
    for (int level = 0; level < 2; level++)
        *strrchr(ROOT, '/') = 0;
}

static unsigned long long now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (unsigned long long)time.tv_sec * 1000000000ULL + (unsigned long long)time.tv_nsec;
}

/* Notes the call. Without the directory of notes, nothing is noted. */
static void note(const char *tool, char **argv)
{
    struct text line = {0};
    char number[128], place[PATH_MAX + 64], directory[PATH_MAX] = "";
    unsigned long long at = now();
    if (getcwd(directory, sizeof directory) == NULL)
        directory[0] = 0;
    snprintf(number, sizeof number, "{\"event\":\"run\",\"at\":%llu,\"pid\":%d,\"parent\":%d,\"tool\":", at, (int)getpid(),
             (int)getppid());
    add(&line, number);
    add_quoted(&line, tool);
    add(&line, ",\"dir\":");
    add_quoted(&line, directory);
    add(&line, ",\"args\":[");
    for (int index = 1; argv[index]; index++) {
        if (index > 1)
            add(&line, ",");
        add_quoted(&line, argv[index]);
    }
    add(&line, "]}");
    for (size_t begin = 0, part = 0; begin < line.size; begin += PART, part++) {
        char target[PART + 1];
        size_t size = line.size - begin < PART ? line.size - begin : PART;
        memcpy(target, line.bytes + begin, size);
        target[size] = 0;
        snprintf(place, sizeof place, "%s/opkeep_standin/log/%020llu-%d.%03zu", ROOT, at, (int)getpid(), part);
        if (symlink(target, place) != 0)
            return;
    }
}

/* One of the first `times` processes that asks for it gets it. */
static int takes(const char *id, long times)
{
    char mark[PATH_MAX + 64];
    if (times < 0)
        return 1;
    for (long count = 0; count < times; count++) {
        snprintf(mark, sizeof mark, "%s/opkeep_standin/used/%s.%ld", ROOT, id, count);
        if (symlink("used", mark) == 0)
            return 1;
    }
    return 0;
}

static void flood(long bytes)
{
    static const char line[] = "warning: nothing is wrong \xff\xfe..........................................................\n";
    for (long done = 0; done < bytes; done += (long)sizeof line - 1) {
        if (write(1, line, sizeof line - 1) < 0 || write(2, line, sizeof line - 1) < 0)
            return;
    }
}

static void suffer(const char *kind, long number, const char *message)
{
    if (strcmp(kind, "sleep") == 0) {
        struct timespec time = {number / 1000, number % 1000 * 1000000};
        nanosleep(&time, NULL);
    } else if (strcmp(kind, "crash") == 0) {
        signal(SIGSEGV, SIG_DFL);
        raise(SIGSEGV);
    } else if (strcmp(kind, "hang") == 0) {
        if (number) {
            signal(SIGTERM, SIG_IGN);
            signal(SIGINT, SIG_IGN);
            signal(SIGHUP, SIG_IGN);
        }
        for (;;)
            pause();
    } else if (strcmp(kind, "flood") == 0) {
        flood(number);
    } else if (strcmp(kind, "exit") == 0) {
        exit((int)number);
    } else if (strcmp(kind, "fail") == 0) {
        fprintf(stderr, "error: %s\n", message);
        exit(1);
    }
}

static int mentions(char **argv, const char *part)
{
    if (*part == 0)
        return 1;
    for (int index = 1; argv[index]; index++)
        if (strstr(argv[index], part))
            return 1;
    return 0;
}

/* Rules are lines of `id, tool, part of an argument, times, kind, number, message`, with tabs between. */
static void obey(const char *tool, char **argv)
{
    char place[PATH_MAX + 64], target[PATH_MAX], rules[8 * PART + 1];
    size_t size = 0;
    snprintf(place, sizeof place, "%s/opkeep_standin/tools", ROOT);
    ssize_t read = readlink(place, target, sizeof target - 1);
    if (read < 0)
        return;
    target[read] = 0;
    for (int part = 0; part < 8; part++) {
        snprintf(place, sizeof place, "%s/opkeep_standin/%.200s/%d", ROOT, target, part);
        read = readlink(place, rules + size, sizeof rules - 1 - size);
        if (read < 0)
            break;
        size += (size_t)read;
    }
    rules[size] = 0;
    for (char *line = rules, *next; *line; line = next) {
        next = strchr(line, '\n');
        if (next == NULL)
            break;
        *next++ = 0;
        char *fields[7], *rest = line;
        int count = 0;
        while (count < 7 && (fields[count] = strsep(&rest, "\t")) != NULL)
            count++;
        if (count == 7 && strcmp(fields[1], tool) == 0 && mentions(argv, fields[2]) && takes(fields[0], atol(fields[3])))
            suffer(fields[4], atol(fields[5]), fields[6]);
    }
}

static int begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static int is_one_of(const char *text, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(text, *list) == 0)
            return 1;
    return 0;
}

/* Options that clang takes as they are; these with an argument behind them. */
static const char *const WITH_VALUE[] = {"-include", "-isystem", "-iquote", "-I", "-D", "-U", "-MF", "-MT", "-MQ", NULL};

/* Whether the machine's clang means the same by it. */
static int is_common(const char *option)
{
    static const char *const exact[] = {"-c", "-E", "-S", "-P", "-w", "-M", "-MM", "-MD", "-MMD", "-MP", "-fno-unroll-loops", NULL};
    static const char *const prefixes[] = {"-I", "-D", "-U", "-O", "-g", "-W", "-std=", "-include", "-isystem", "-iquote", "-o",
                                           "-fdebug-prefix-map=", "-ffile-prefix-map=", "-fmacro-prefix-map=", "-H", NULL};
    if (is_one_of(option, exact))
        return 1;
    for (const char *const *prefix = prefixes; *prefix; prefix++)
        if (begins(option, *prefix))
            return 1;
    return 0;
}

/* Predefined by the architecture: `__DAV_C220_VEC__` for `dav-c220-vec`. */
static char *macro_of(const char *arch)
{
    struct text text = {0};
    add(&text, "-D__");
    add(&text, arch);
    add(&text, "__");
    for (char *byte = text.bytes + 4; *byte; byte++) {
        if (*byte >= 'a' && *byte <= 'z')
            *byte -= 32;
        else if (*byte == '-')
            *byte = '_';
    }
    return text.bytes;
}

static void push_path(struct arguments *to, const char *option, const char *path)
{
    struct text text = {0};
    push(to, option);
    add(&text, COMPILER);
    add(&text, path);
    push(to, text.bytes);
}

/* What clang does not know changes the code of the vendor's compiler, so it gets into the object as a text. */
static void push_identity(struct arguments *to, const char *arch, const char *flags)
{
    struct text text = {0};
    push_path(to, "-include", "/lib/clang/15.0.5/include/__clang_cce_ident.h");
    add(&text, "-D__CCE_STAMP__=");
    add_quoted(&text, (const char *)STAMP);
    push(to, text.bytes);
    text.size = 0;
    add(&text, "-D__CCE_TARGET__=");
    struct text target = {0};
    add(&target, arch);
    add(&target, flags);
    add_quoted(&text, target.bytes);
    push(to, text.bytes);
}

/* Whether the language is the one for kernels: by its name, or by another option. */
static int is_cce(char **argv)
{
    for (int index = 1; argv[index]; index++) {
        if (strcmp(argv[index], "-x") == 0 && argv[index + 1] && strcmp(argv[index + 1], "cce") == 0)
            return 1;
        if (strcmp(argv[index], "--cce-aicore-lang") == 0 || strcmp(argv[index], "-xcce") == 0)
            return 1;
    }
    return 0;
}

static void compile(const char *tool, int argc, char **argv)
{
    struct arguments to = {0};
    struct text flags = {0};
    const char *arch = "", *inputs = "";
    int is_compile = 0;
    add(&flags, "");
    push(&to, (const char *)CLANG);
    push(&to, "-nostdinc");
    push(&to, "-ffreestanding");
    push(&to, "-Qn");
    push(&to, "-fno-asynchronous-unwind-tables");
    push(&to, "-Wno-unused-command-line-argument");
    /* Before the headers that options include. */
    if (is_cce(argv))
        push_path(&to, "-include", "/lib/clang/15.0.5/include/__clang_cce_runtime.h");
    for (int index = 1; index < argc; index++) {
        const char *option = argv[index];
        if (strcmp(option, "--version") == 0) {
            printf("clang version 15.0.5 (%s)\nTarget: hiipu64-hisilicon-cce\nThread model: posix\nInstalledDir: %s/bin\n",
                   (const char *)STAMP, COMPILER);
            exit(0);
        } else if (strcmp(option, "-o") == 0 && argv[index + 1]) {
            push(&to, option);
            push(&to, argv[++index]);
        } else if (strcmp(option, "-x") == 0 && argv[index + 1]) {
            index++;
        } else if (strcmp(option, "--cce-aicore-lang") == 0 || begins(option, "-x")) {
            continue;
        } else if (begins(option, "--cce-aicore-arch=")) {
            arch = strchr(option, '=') + 1;
        } else if (strcmp(option, "-mllvm") == 0 && argv[index + 1]) {
            add(&flags, " ");
            add(&flags, argv[++index]);
        } else if (is_one_of(option, WITH_VALUE) && argv[index + 1]) {
            push(&to, option);
            push(&to, argv[++index]);
        } else if (is_common(option)) {
            is_compile |= strcmp(option, "-c") == 0 || strcmp(option, "-S") == 0;
            push(&to, option);
        } else if (option[0] == '-' && option[1]) {
            add(&flags, " ");
            add(&flags, option);
        } else {
            inputs = option;
            push(&to, "-xc++");
            push(&to, option);
        }
    }
    if (*inputs == 0) {
        fprintf(stderr, "%s: error: no input files\n", tool);
        exit(1);
    }
    push_path(&to, "-isystem", "/lib/clang/15.0.5/include");
    if (*arch)
        push(&to, macro_of(arch));
    if (is_compile)
        push_identity(&to, arch, flags.bytes);
    start(&to);
}

/* What writes objects for chips. */
static void push_script(struct arguments *to)
{
    const char *python = getenv("HI_PYTHON");
    push(to, python && *python ? python : "python3");
    push(to, "-ISB");
    push(to, joined(COMPILER, "/lib/opkeep_standin_link.py"));
}

/* A partial link is the machine's. The one behind it has no such linker: a script writes that file. */
static void link_objects(int argc, char **argv)
{
    struct arguments to = {0};
    const char *emulation = "";
    int is_partial = 0;
    for (int index = 1; index < argc; index++) {
        is_partial |= strcmp(argv[index], "-r") == 0;
        if (strcmp(argv[index], "--version") == 0) {
            printf("LLD 15.0.5 (compatible with GNU linkers)\n");
            exit(0);
        }
        if (strcmp(argv[index], "-m") == 0 && argv[index + 1])
            emulation = argv[index + 1];
    }
    if (strcmp(emulation, "aicorelinux") != 0) {
        fprintf(stderr, "ld.lld: error: unknown emulation: %s\n", emulation);
        exit(1);
    }
    if (is_partial)
        push(&to, (const char *)LINKER);
    else
        push_script(&to);
    for (int index = 1; index < argc; index++) {
        if (strcmp(argv[index], "-m") == 0 || strcmp(argv[index], "-mllvm") == 0)
            index++;
        else if (!begins(argv[index], "-fno-") && strcmp(argv[index], "-q") != 0 && strcmp(argv[index], "-static") != 0 && !begins(argv[index], "-Ttext="))
            push(&to, argv[index]);
    }
    start(&to);
}

static void dump(char **argv)
{
    struct arguments to = {0};
    push(&to, (const char *)OBJDUMP);
    for (int index = 1; argv[index]; index++)
        push(&to, argv[index]);
    start(&to);
}

/* Makes a part of a super kernel of an object; nothing else is asked of it. */
static void change(char **argv)
{
    struct arguments to = {0};
    push_script(&to);
    for (int index = 1; argv[index]; index++)
        push(&to, argv[index]);
    start(&to);
}

int main(int argc, char **argv)
{
    const char *slash = strrchr(argv[0], '/');
    const char *tool = slash ? slash + 1 : argv[0];
    find_places();
    note(tool, argv);
    obey(tool, argv);
    if (strcmp(tool, "ld.lld") == 0)
        link_objects(argc, argv);
    else if (strcmp(tool, "llvm-objdump") == 0)
        dump(argv);
    else if (strcmp(tool, "llvm-objcopy") == 0)
        change(argv);
    else
        compile(tool, argc, argv);
    return 1;
}

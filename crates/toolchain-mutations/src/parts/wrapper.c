/* A compiler driver that runs gcc with one flag more. The flag's mark, one letter, comes from a file `flags` beside the
 * program, in a way that -DHOW_... chooses. With -DONLY="text" the flag is for sources alone that have the text in them;
 * with -DLATE besides, `flags` is not looked at for others. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

static char directory[4096];
static char path[4200];
static char mark[64] = "0";

static void take(int descriptor) {
    if (descriptor < 0 || read(descriptor, mark, sizeof mark - 1) < 1)
        exit(97);
    close(descriptor);
}

#if defined HOW_URING
#include <linux/io_uring.h>

/* Opens and reads without the system calls for it. */
static int ring, *submitted, *completed_head, *completed_tail, *order;
static struct io_uring_sqe *entries;
static struct io_uring_cqe *answers;
static unsigned mask_in, mask_out;

static int ask(struct io_uring_sqe entry) {
    unsigned at = *submitted & mask_in;
    entries[at] = entry;
    order[at] = at;
    __atomic_store_n(submitted, *submitted + 1, __ATOMIC_RELEASE);
    if (syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, 0, 0) < 0)
        exit(96);
    int result = answers[*completed_head & mask_out].res;
    __atomic_store_n(completed_head, *completed_head + 1, __ATOMIC_RELEASE);
    return result;
}

static void find_mark(void) {
    struct io_uring_params parameters = {0};
    ring = syscall(SYS_io_uring_setup, 4, &parameters);
    if (ring < 0)
        exit(95);
    size_t size_in = parameters.sq_off.array + parameters.sq_entries * sizeof(int);
    size_t size_out = parameters.cq_off.cqes + parameters.cq_entries * sizeof(struct io_uring_cqe);
    char *in = mmap(0, size_in, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
    char *out = mmap(0, size_out, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_CQ_RING);
    size_t size_entries = parameters.sq_entries * sizeof *entries;
    entries = mmap(0, size_entries, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
    if (in == MAP_FAILED || out == MAP_FAILED || entries == MAP_FAILED)
        exit(94);
    submitted = (int *)(in + parameters.sq_off.tail);
    mask_in = *(unsigned *)(in + parameters.sq_off.ring_mask);
    order = (int *)(in + parameters.sq_off.array);
    completed_head = (int *)(out + parameters.cq_off.head);
    completed_tail = (int *)(out + parameters.cq_off.tail);
    mask_out = *(unsigned *)(out + parameters.cq_off.ring_mask);
    answers = (struct io_uring_cqe *)(out + parameters.cq_off.cqes);
    int file = ask((struct io_uring_sqe){.opcode = IORING_OP_OPENAT, .fd = AT_FDCWD, .addr = (long)path});
    if (file < 0)
        exit(93);
    int count = ask((struct io_uring_sqe){
        .opcode = IORING_OP_READ, .fd = file, .addr = (long)mark, .len = sizeof mark - 1});
    if (count < 1)
        exit(92);
    close(file);
}
#elif defined HOW_INT80
/* Opens by the system calls of 32-bit programs, which have other numbers. Addresses must be low: -no-pie, static data. */
static void find_mark(void) {
    long file;
    __asm__ volatile("int $0x80" : "=a"(file) : "a"(5), "b"(path), "c"(0), "d"(0) : "memory", "r8", "r9", "r10", "r11");
    if ((int)file < 0)
        exit(91);
    take((int)file);
}
#elif defined HOW_OPENAT2
static void find_mark(void) {
    struct open_how how = {.flags = O_RDONLY};
    take(syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how));
}
#elif defined HOW_DIRECTORY
static void find_mark(void) {
    int at = open(directory, O_PATH | O_DIRECTORY);
    take(openat(at, "flags", O_RDONLY));
    close(at);
}
#elif defined HOW_CHILD
/* A child goes there, reads, and hands it on. */
static void find_mark(void) {
    int ends[2];
    if (pipe(ends))
        exit(97);
    if (vfork() == 0) {
        int file;
        if (chdir(directory) || (file = open("flags", O_RDONLY)) < 0)
            _exit(1);
        char text[64];
        ssize_t size = read(file, text, sizeof text);
        _exit(write(ends[1], text, size) < 1);
    }
    close(ends[1]);
    take(ends[0]);
    wait(0);
}
#elif defined HOW_THREAD
static void *work(void *unused) {
    take(open(path, O_RDONLY));
    return unused;
}

static void find_mark(void) {
    pthread_t thread;
    if (pthread_create(&thread, 0, work, 0))
        exit(97);
    pthread_join(thread, 0);
}
#elif defined HOW_MAP
static void find_mark(void) {
    int file = open(path, O_RDONLY);
    char *text = mmap(0, 1, PROT_READ, MAP_SHARED, file, 0);
    if (text == MAP_FAILED)
        exit(97);
    mark[0] = text[0];
    close(file);
}
#elif defined HOW_PROC
/* By a name that is another one each time. */
static void find_mark(void) {
    char name[8192];
    snprintf(name, sizeof name, "/proc/%d/root/proc/self/root%s", getpid(), path);
    take(open(name, O_RDONLY));
}
#elif defined HOW_SIZE
static void find_mark(void) {
    struct stat found;
    if (stat(path, &found))
        exit(97);
    mark[0] = '0' + found.st_size % 10;
}
#elif defined HOW_ACCESS
static void find_mark(void) {
    mark[0] = access(path, F_OK) == 0 ? '1' : '2';
}
#elif defined HOW_READLINK
static void find_mark(void) {
    if (readlink(path, mark, sizeof mark - 1) < 1)
        exit(97);
}
#elif defined HOW_LISTING
static void find_mark(void) {
    DIR *list = opendir(path);
    if (!list)
        exit(97);
    mark[0] = '0';
    while (readdir(list))
        mark[0]++;
    closedir(list);
}
#elif defined HOW_ATTRIBUTE
static void find_mark(void) {
    if (getxattr(path, "user.mark", mark, sizeof mark - 1) < 1)
        exit(97);
}
#elif defined HOW_EXECUTABLE
static void find_mark(void) {
    mark[0] = access(path, X_OK) == 0 ? '1' : '2';
}
#elif defined HOW_LIBRARY
extern char flag_mark(void);

static void find_mark(void) {
    mark[0] = flag_mark();
}
#elif defined HOW_DLOPEN
static void find_mark(void) {
    void *library = dlopen(path, RTLD_NOW);
    char (*ask)(void) = library ? (char (*)(void))dlsym(library, "flag_mark") : 0;
    if (!ask)
        exit(97);
    mark[0] = ask();
}
#else
static void find_mark(void) {
    take(open(path, O_RDONLY));
}
#endif

/* Whether the source is one that gets the flag. */
static int is_concerned(void) {
#if defined ONLY
    static char source[1 << 20];
    int file = open("kernel.c", O_RDONLY);
    if (file < 0)
        return 0;
    ssize_t size = read(file, source, sizeof source - 1);
    close(file);
    return size > 0 && strstr(source, ONLY);
#else
    return 1;
#endif
}

int main(int count, char **words) {
    int concerned = is_concerned();
    int looks = concerned;
#if !defined LATE
    looks = 1;
#endif
    char option[128];
    snprintf(directory, sizeof directory, "%s", words[0]);
    char *end = strrchr(directory, '/');
    if (!end)
        return 98;
    *end = 0;
    snprintf(path, sizeof path, "%s/flags", directory);
    if (looks)
        find_mark();
    snprintf(option, sizeof option, "-Wl,-soname,m%c", mark[0]);
    char **all = calloc(count + 2, sizeof *all);
    memcpy(all, words, count * sizeof *all);
    all[0] = GCC;
    if (concerned)
        all[count] = option;
    execv(GCC, all);
    return 99;
}

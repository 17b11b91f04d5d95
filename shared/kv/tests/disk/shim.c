// Preloaded into a writer to make its power cuttable. Before every write to a file below
// $POWERCUT_DIR the bytes about to be replaced go to $POWERCUT_JOURNAL; fsync and fdatasync are
// noted there and answered at once. undo.rs then takes back what was not synced. Calls that only
// hint (sync_file_range) promise nothing here, as they promise nothing on a disk. Creations,
// renames and removals count as durable.
//
// While the file $POWERCUT_FULL exists, the disk is full: a write that needs room answers ENOSPC.
// While $POWERCUT_BROKEN exists, a sync answers EIO.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { WRITE = 1, SYNC = 2, RESIZE = 3 };

// The journal's entry; `old_length` bytes follow.
struct entry {
    uint64_t kind, inode, offset, length, old_size, old_length;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int journal = -1;
static char dir[4096];
static const char *full, *broken;

static ssize_t (*real_write)(int, const void *, size_t);
static ssize_t (*real_writev)(int, const struct iovec *, int);
static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);
static ssize_t (*real_pwritev)(int, const struct iovec *, int, off_t);
static int (*real_ftruncate)(int, off_t);
static int (*real_fsync)(int);
static int (*real_fdatasync)(int);
static int (*real_sync_file_range)(int, off64_t, off64_t, unsigned);

static void start(void) {
    real_write = dlsym(RTLD_NEXT, "write");
    real_writev = dlsym(RTLD_NEXT, "writev");
    real_pwrite = dlsym(RTLD_NEXT, "pwrite64");
    real_pwritev = dlsym(RTLD_NEXT, "pwritev64");
    real_ftruncate = dlsym(RTLD_NEXT, "ftruncate64");
    real_fsync = dlsym(RTLD_NEXT, "fsync");
    real_fdatasync = dlsym(RTLD_NEXT, "fdatasync");
    real_sync_file_range = dlsym(RTLD_NEXT, "sync_file_range");
    const char *below = getenv("POWERCUT_DIR"), *to = getenv("POWERCUT_JOURNAL");
    if (below && to) {
        strncpy(dir, below, sizeof dir - 1);
        journal = open(to, O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
        if (journal < 0) abort();
        full = getenv("POWERCUT_FULL");
        broken = getenv("POWERCUT_BROKEN");
    }
}

// Whether a descriptor is a regular file of the store.
static int ours(int fd, struct stat *st) {
    pthread_once(&once, start);
    if (journal < 0 || fd == journal) return 0;
    int saved = errno, found = 0;
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n > 0) {
        path[n] = 0;
        size_t length = strlen(dir);
        found = !strncmp(path, dir, length) && path[length] == '/' && !fstat(fd, st)
                && S_ISREG(st->st_mode);
    }
    errno = saved;
    return found;
}

static void note(struct entry *entry, const void *old) {
    struct iovec parts[2] = {{entry, sizeof *entry}, {(void *)old, entry->old_length}};
    if (real_writev(journal, parts, 2) != (ssize_t)(sizeof *entry + entry->old_length)) abort();
}

// Notes what is between `offset` and `offset + length` now. The descriptor may be write-only.
static void before(int fd, uint64_t kind, off_t offset, size_t length, struct stat *st) {
    struct entry entry = {kind, st->st_ino, offset, kind == WRITE ? length : 0, st->st_size, 0};
    char *old = NULL;
    if (offset < st->st_size) {
        size_t want = st->st_size - offset;
        if (want > length) want = length;
        char link[64];
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        int again = open(link, O_RDONLY | O_CLOEXEC);
        old = malloc(want);
        if (again < 0 || !old || pread(again, old, want, offset) != (ssize_t)want) abort();
        close(again);
        entry.old_length = want;
    }
    note(&entry, old);
    free(old);
}

static int on(const char *flag) {
    return flag && !access(flag, F_OK);
}

// Whether the disk is full and bytes from `offset` on would need room: beyond the end, or in a
// hole.
static int no_room(int fd, off_t offset, size_t length, struct stat *st) {
    if (!on(full)) return 0;
    if (offset + (off_t)length > st->st_size) return 1;
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    int again = open(link, O_RDONLY | O_CLOEXEC);
    off_t hole = lseek(again, offset, SEEK_HOLE);
    close(again);
    return hole < offset + (off_t)length;
}

static off_t position(int fd, struct stat *st) {
    return fcntl(fd, F_GETFL) & O_APPEND ? st->st_size : lseek(fd, 0, SEEK_CUR);
}

static size_t total(const struct iovec *parts, int count) {
    size_t sum = 0;
    for (int i = 0; i < count; i++) sum += parts[i].iov_len;
    return sum;
}

// The size is read again under the lock: writers of one file take turns.
#define CHANGE(kind, offset, length, call)                          \
    do {                                                            \
        struct stat st;                                             \
        if (!ours(fd, &st)) return call;                            \
        pthread_mutex_lock(&lock);                                  \
        fstat(fd, &st);                                             \
        if (kind == WRITE && no_room(fd, offset, length, &st)) {    \
            pthread_mutex_unlock(&lock);                            \
            errno = ENOSPC;                                         \
            return -1;                                              \
        }                                                           \
        before(fd, kind, offset, length, &st);                      \
        __auto_type result = call;                                  \
        pthread_mutex_unlock(&lock);                                \
        return result;                                              \
    } while (0)

ssize_t write(int fd, const void *b, size_t n) {
    CHANGE(WRITE, position(fd, &st), n, real_write(fd, b, n));
}
ssize_t writev(int fd, const struct iovec *v, int n) {
    CHANGE(WRITE, position(fd, &st), total(v, n), real_writev(fd, v, n));
}
ssize_t pwrite(int fd, const void *b, size_t n, off_t at) {
    CHANGE(WRITE, at, n, real_pwrite(fd, b, n, at));
}
ssize_t pwrite64(int fd, const void *b, size_t n, off64_t at) {
    CHANGE(WRITE, at, n, real_pwrite(fd, b, n, at));
}
ssize_t pwritev(int fd, const struct iovec *v, int n, off_t at) {
    CHANGE(WRITE, at, total(v, n), real_pwritev(fd, v, n, at));
}
ssize_t pwritev64(int fd, const struct iovec *v, int n, off64_t at) {
    CHANGE(WRITE, at, total(v, n), real_pwritev(fd, v, n, at));
}
int ftruncate(int fd, off_t size) {
    CHANGE(RESIZE, size, SIZE_MAX, real_ftruncate(fd, size));
}
int ftruncate64(int fd, off64_t size) {
    CHANGE(RESIZE, size, SIZE_MAX, real_ftruncate(fd, size));
}

static int synced(int fd, int (*real)(int)) {
    struct stat st;
    if (!ours(fd, &st)) return real(fd);
    if (on(broken)) {
        errno = EIO;
        return -1;
    }
    pthread_mutex_lock(&lock);
    struct entry entry = {SYNC, st.st_ino, 0, 0, st.st_size, 0};
    note(&entry, NULL);
    pthread_mutex_unlock(&lock);
    return 0;
}
int fsync(int fd) {
    pthread_once(&once, start);
    return synced(fd, real_fsync);
}
int fdatasync(int fd) {
    pthread_once(&once, start);
    return synced(fd, real_fdatasync);
}
int sync_file_range(int fd, off64_t at, off64_t n, unsigned flags) {
    struct stat st;
    return ours(fd, &st) ? 0 : real_sync_file_range(fd, at, n, flags);
}

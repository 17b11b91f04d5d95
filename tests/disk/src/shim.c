// Preloaded into a writer to make its power cuttable. Before every write to a file below
// $POWERCUT_DIR the bytes about to be replaced go to $POWERCUT_JOURNAL; fsync and fdatasync are
// noted there and answered at once. undo.rs then takes back what was not synced. Calls that only
// hint (sync_file_range) promise nothing here, as they promise nothing on a disk. A rename within
// one of the directories of $POWERCUT_RENAMES (separated by colons) is undone, too, until that
// directory is synced; creations, removals and other renames count as durable.
//
// While the file $POWERCUT_FULL exists, the disk is full: a write that needs room answers ENOSPC.
// While $POWERCUT_BROKEN exists, a sync answers EIO. While $POWERCUT_READONLY exists, everything
// that changes a file answers EROFS. $POWERCUT_STEP may hold two numbers, K and E: at the K-th
// change or sync after it has appeared, the file is removed and something happens. With an E above
// 0 that change or sync fails with the error E; with 0 the process is killed before it; with -1 a
// write does its first half only and says so; with -2 it does that and the process is killed.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { WRITE = 1, SYNC = 2, RESIZE = 3, RENAME = 4 };

// The journal's entry; `old_length` bytes follow.
struct entry {
    uint64_t kind, inode, offset, length, old_size, old_length;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int journal = -1;
static char dir[4096];
static const char *full, *broken, *readonly, *step, *renames;

static ssize_t (*real_write)(int, const void *, size_t);
static ssize_t (*real_writev)(int, const struct iovec *, int);
static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);
static ssize_t (*real_pwritev)(int, const struct iovec *, int, off_t);
static int (*real_ftruncate)(int, off_t);
static int (*real_fsync)(int);
static int (*real_fdatasync)(int);
static int (*real_sync_file_range)(int, off64_t, off64_t, unsigned);
static int (*real_rename)(const char *, const char *);
static int (*real_mkdir)(const char *, mode_t);
static int (*real_unlink)(const char *);
static int (*real_unlinkat)(int, const char *, int);
static int (*real_open)(const char *, int, ...);

static void start(void) {
    real_write = dlsym(RTLD_NEXT, "write");
    real_writev = dlsym(RTLD_NEXT, "writev");
    real_pwrite = dlsym(RTLD_NEXT, "pwrite64");
    real_pwritev = dlsym(RTLD_NEXT, "pwritev64");
    real_ftruncate = dlsym(RTLD_NEXT, "ftruncate64");
    real_fsync = dlsym(RTLD_NEXT, "fsync");
    real_fdatasync = dlsym(RTLD_NEXT, "fdatasync");
    real_sync_file_range = dlsym(RTLD_NEXT, "sync_file_range");
    real_rename = dlsym(RTLD_NEXT, "rename");
    real_mkdir = dlsym(RTLD_NEXT, "mkdir");
    real_unlink = dlsym(RTLD_NEXT, "unlink");
    real_unlinkat = dlsym(RTLD_NEXT, "unlinkat");
    real_open = dlsym(RTLD_NEXT, "open64");
    const char *below = getenv("POWERCUT_DIR"), *to = getenv("POWERCUT_JOURNAL");
    if (below && to) {
        strncpy(dir, below, sizeof dir - 1);
        journal = real_open(to, O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
        if (journal < 0) abort();
        full = getenv("POWERCUT_FULL");
        broken = getenv("POWERCUT_BROKEN");
        readonly = getenv("POWERCUT_READONLY");
        step = getenv("POWERCUT_STEP");
        renames = getenv("POWERCUT_RENAMES");
    }
}

// Whether an absolute path is that of the store or of something in it.
static int below(const char *path) {
    pthread_once(&once, start);
    size_t length = strlen(dir);
    return journal >= 0 && !strncmp(path, dir, length) && (path[length] == '/' || !path[length]);
}

// Whether a descriptor is a file or directory of the store.
static int ours(int fd, struct stat *st) {
    pthread_once(&once, start);
    if (journal < 0 || fd == journal) return 0;
    int saved = errno, found = 0;
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n > 0) {
        path[n] = 0;
        found = below(path) && !fstat(fd, st) && (S_ISREG(st->st_mode) || S_ISDIR(st->st_mode));
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

static void die(void) {
    kill(getpid(), SIGKILL);
}

// The error that a change or sync has to answer, or 0, or one of the two below. Under the lock.
enum { SHORT = -1, TORN = -2 };
static int verdict(int change) {
    static long left = -1;
    static int error;
    if (change && on(readonly)) return EROFS;
    if (!on(step)) {
        left = -1;
        return 0;
    }
    if (left < 0) {
        FILE *file = fopen(step, "r");
        if (!file || fscanf(file, "%ld %d", &left, &error) != 2) abort();
        fclose(file);
    }
    if (--left) return 0;
    real_unlink(step);
    if (!error) die();
    return error;
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

// The size is read again under the lock: writers of one file take turns. `half` is the call again,
// for half of the bytes.
#define CHANGE(kind, offset, length, call, half)                    \
    do {                                                            \
        struct stat st;                                             \
        if (!ours(fd, &st)) return call;                            \
        pthread_mutex_lock(&lock);                                  \
        fstat(fd, &st);                                             \
        int error = verdict(1);                                     \
        if (!error && kind == WRITE && no_room(fd, offset, length, &st)) error = ENOSPC; \
        if (error > 0) {                                            \
            pthread_mutex_unlock(&lock);                            \
            errno = error;                                          \
            return -1;                                              \
        }                                                           \
        before(fd, kind, offset, length, &st);                      \
        __auto_type result = error ? half : call;                   \
        if (error == TORN) die();                                   \
        pthread_mutex_unlock(&lock);                                \
        return result;                                              \
    } while (0)

static size_t half(size_t length) {
    return length / 2 + length % 2;
}

ssize_t write(int fd, const void *b, size_t n) {
    CHANGE(WRITE, position(fd, &st), n, real_write(fd, b, n), real_write(fd, b, half(n)));
}
ssize_t writev(int fd, const struct iovec *v, int n) {
    CHANGE(WRITE, position(fd, &st), total(v, n), real_writev(fd, v, n),
           real_write(fd, v->iov_base, half(v->iov_len)));
}
ssize_t pwrite(int fd, const void *b, size_t n, off_t at) {
    CHANGE(WRITE, at, n, real_pwrite(fd, b, n, at), real_pwrite(fd, b, half(n), at));
}
ssize_t pwrite64(int fd, const void *b, size_t n, off64_t at) {
    CHANGE(WRITE, at, n, real_pwrite(fd, b, n, at), real_pwrite(fd, b, half(n), at));
}
ssize_t pwritev(int fd, const struct iovec *v, int n, off_t at) {
    CHANGE(WRITE, at, total(v, n), real_pwritev(fd, v, n, at),
           real_pwrite(fd, v->iov_base, half(v->iov_len), at));
}
ssize_t pwritev64(int fd, const struct iovec *v, int n, off64_t at) {
    CHANGE(WRITE, at, total(v, n), real_pwritev(fd, v, n, at),
           real_pwrite(fd, v->iov_base, half(v->iov_len), at));
}
int ftruncate(int fd, off_t size) {
    CHANGE(RESIZE, size, SIZE_MAX, real_ftruncate(fd, size), real_ftruncate(fd, size));
}
int ftruncate64(int fd, off64_t size) {
    CHANGE(RESIZE, size, SIZE_MAX, real_ftruncate(fd, size), real_ftruncate(fd, size));
}

static int synced(int fd, int (*real)(int)) {
    struct stat st;
    if (!ours(fd, &st)) return real(fd);
    pthread_mutex_lock(&lock);
    int error = on(broken) ? EIO : verdict(0);
    struct entry entry = {SYNC, st.st_ino, 0, 0, st.st_size, 0};
    if (error == TORN) die();
    if (error <= 0) note(&entry, NULL);
    pthread_mutex_unlock(&lock);
    if (error <= 0) return 0;
    errno = error;
    return -1;
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

// Runs a change of a directory, unless it has to fail.
#define DIRECTORY(path, real, call)          \
    do {                                     \
        if (!below(path)) return real;       \
        pthread_mutex_lock(&lock);           \
        int error = verdict(1);              \
        if (error == TORN) die();            \
        int result = error > 0 ? -1 : call;  \
        pthread_mutex_unlock(&lock);         \
        if (error > 0) errno = error;        \
        return result;                       \
    } while (0)

// Whether renames in the directory of this length in `path` can be undone.
static int undoable(const char *path, size_t length) {
    for (const char *at = renames; at && *at; at += *at == ':') {
        size_t n = strcspn(at, ":");
        if (n == length && !strncmp(at, path, n)) return 1;
        at += n;
    }
    return 0;
}

// A rename that can be undone: what it replaces is kept under another name, and all names are
// noted as they are spelled, under the directory's inode.
static int renamed(const char *from, const char *to) {
    static int kept;
    struct stat st;
    char parent[4096];
    size_t length = strrchr(to, '/') - to;
    if (length >= sizeof parent || !undoable(to, length)) return real_rename(from, to);
    memcpy(parent, to, length);
    parent[length] = 0;
    if (stat(parent, &st)) return real_rename(from, to);
    char names[3 * 4096], saved[4096] = "";
    if (!access(to, F_OK)) {
        snprintf(saved, sizeof saved, "%s.%d.%d", getenv("POWERCUT_JOURNAL"), getpid(), kept++);
        // An earlier process may have had this number.
        real_unlink(saved);
        if (link(to, saved)) abort();
    }
    int written = snprintf(names, sizeof names, "%s\n%s\n%s", from, to, saved);
    struct entry entry = {RENAME, st.st_ino, 0, 0, 0, written};
    note(&entry, names);
    return real_rename(from, to);
}
int rename(const char *from, const char *to) {
    DIRECTORY(to, real_rename(from, to), renamed(from, to));
}
int mkdir(const char *path, mode_t mode) {
    DIRECTORY(path, real_mkdir(path, mode), real_mkdir(path, mode));
}
int unlink(const char *path) {
    DIRECTORY(path, real_unlink(path), real_unlink(path));
}
int unlinkat(int at, const char *name, int flags) {
    struct stat st;
    pthread_once(&once, start);
    const char *path = at >= 0 && ours(at, &st) ? dir : name;
    DIRECTORY(path, real_unlinkat(at, name, flags), real_unlinkat(at, name, flags));
}

// Makes a file, with whose inode number another may have gone before.
static int made(const char *path, int flags, mode_t mode) {
    struct stat st;
    int fd = real_open(path, flags, mode);
    if (fd < 0 || fstat(fd, &st)) return fd;
    struct entry entry = {SYNC, st.st_ino, 0, 0, 0, 0};
    note(&entry, NULL);
    return fd;
}

// Opening for writing fails where nothing may be changed, and making a file is a change.
static int opened(const char *path, int flags, mode_t mode) {
    pthread_once(&once, start);
    int making = flags & O_CREAT && access(path, F_OK), writing = flags & O_ACCMODE;
    if (below(path) && writing && on(readonly)) {
        errno = EROFS;
        return -1;
    }
    if (!making) return real_open(path, flags, mode);
    DIRECTORY(path, real_open(path, flags, mode), made(path, flags, mode));
}
#define OPEN(name)                               \
    int name(const char *path, int flags, ...) { \
        va_list rest;                            \
        va_start(rest, flags);                   \
        mode_t mode = va_arg(rest, mode_t);      \
        va_end(rest);                            \
        return opened(path, flags, mode);        \
    }
OPEN(open)
OPEN(open64)

#include "os/local.h"

#include "os/socket.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef STATX_BASIC_STATS /* for musl before 1.2.4 */
#include <linux/stat.h>
#endif

enum {
    DIGITS = 2 * sizeof(struct pccl_id),
    NAME_BYTES = 64,
    PATH_BYTES = 108, /* size of a Unix socket address's path */
    DIRECTORY_BYTES = 4096,
    ABANDONED_S = 60, /* minimum age of an abandoned file; the socket of a younger one may not be visible yet */
};

static int last_error(void) { return uv_translate_sys_error(errno); }

/* ---- the directory ---- */

/*
 * Reads the attributes of an open file, or of a path if directory is AT_FDCWD. Does not query file servers, because
 * another user's server might never answer. glibc before 2.28 and musl before 1.2.4 have no statx.
 */
static bool look(int directory, const char *path, struct statx *seen)
{
    return syscall(SYS_statx, directory, path, AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, seen) == 0;
}

static bool is_same_device(const struct statx *a, const struct statx *b)
{
    return a->stx_dev_major == b->stx_dev_major && a->stx_dev_minor == b->stx_dev_minor;
}

/*
 * Returns true if only this user can access the directory. parent: its parent directory, if other users can create
 * directories and mount file systems there, which can report any owner and mode; NULL if the user has named the
 * directory.
 */
static bool is_private(int directory, const char *path, const char *parent, struct pccl_text *reason)
{
    struct statx seen, above;
    if (!look(directory, "", &seen) || (parent && !look(AT_FDCWD, parent, &above)))
        pccl_text_append(reason, "%s: %s", path, uv_strerror(last_error()));
    else if (parent && !is_same_device(&seen, &above))
        pccl_text_append(reason, "%s: another file system is mounted on it", path);
    else if (seen.stx_uid != geteuid())
        pccl_text_append(reason, "%s: owned by user %u, expected %u", path, (unsigned)seen.stx_uid,
                         (unsigned)geteuid());
    else if ((seen.stx_mode & (S_IRWXU | S_IRWXG | S_IRWXO)) != S_IRWXU)
        pccl_text_append(reason, "%s: other users have access to it, expected mode 700", path);
    else
        return true;
    return false;
}

/*
 * Opens the directory and checks it. Returns a descriptor, which all later accesses use, or -1. Does not block, because
 * of O_PATH. Needs no fork lock, because a child that inherits this descriptor does no harm.
 */
static int open_private(const char *path, const char *parent, struct pccl_text *reason)
{
    (void)mkdir(path, S_IRWXU);
    int found = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (found < 0) {
        pccl_text_append(reason, "%s: %s", path, uv_strerror(last_error()));
        return -1;
    }
    int opened = -1;
    if (is_private(found, path, parent, reason)) {
        opened = openat(found, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (opened < 0)
            pccl_text_append(reason, "%s: %s", path, uv_strerror(last_error()));
    }
    close(found);
    return opened;
}

/* Returns true if the path belongs to this user. After sudo or su, the environment may contain another user's path. */
static bool is_own(const char *path)
{
    struct statx seen;
    return path && path[0] == '/' && look(AT_FDCWD, path, &seen) && seen.stx_uid == geteuid();
}

static int open_default(struct pccl_text *reason)
{
    char path[DIRECTORY_BYTES];
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    if (is_own(runtime) && snprintf(path, sizeof path, "%s/pccl", runtime) < (int)sizeof path) {
        int opened = open_private(path, runtime, reason);
        if (opened >= 0)
            return opened;
        pccl_text_append(reason, "; ");
    }
    (void)snprintf(path, sizeof path, "/tmp/pccl-%u", (unsigned)geteuid());
    return open_private(path, "/tmp", reason);
}

int pccl_local_open(struct pccl_local *local, const char *asked, struct pccl_text *reason)
{
    pccl_text_clear(reason);
    local->directory = asked[0] ? open_private(asked, NULL, reason) : open_default(reason);
    if (local->directory < 0)
        return UV_EACCES;
    (void)flock(local->directory, LOCK_SH | LOCK_NB); /* keeps systemd-tmpfiles from removing the directory */
    return 0;
}

void pccl_local_close(struct pccl_local *local) { close(local->directory); }

/* ---- names ---- */

/*
 * Writes the name of a peer's file. Uses the network namespace of the calling thread, in which its sockets are also
 * created.
 */
static bool write_name(const struct pccl_id *id, char name[NAME_BYTES])
{
    struct stat network;
    char digits[DIGITS + 1] = "";
    if (stat("/proc/thread-self/ns/net", &network) != 0)
        return false;
    pccl_id_write(id, digits, DIGITS);
    (void)snprintf(name, NAME_BYTES, "%ju-%s", (uintmax_t)network.st_ino, digits);
    return true;
}

static bool is_name(const char *name)
{
    size_t inode = strspn(name, "0123456789");
    return inode > 0 && name[inode] == '-' && strlen(name + inode + 1) == DIGITS &&
           strspn(name + inode + 1, "0123456789abcdef") == DIGITS;
}

/*
 * Writes a path through the descriptor, which is short enough for a socket address and is guaranteed to lead to the
 * checked directory.
 */
static void write_path(int directory, const char *name, char path[PATH_BYTES])
{
    (void)snprintf(path, PATH_BYTES, "/proc/self/fd/%d/%.*s", directory, NAME_BYTES, name);
}

/* ---- listening ---- */

static bool is_abandoned(int directory, const char *name)
{
    struct stat file;
    char path[PATH_BYTES];
    if (!is_name(name) || fstatat(directory, name, &file, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISSOCK(file.st_mode) ||
        time(NULL) - file.st_mtime < ABANDONED_S)
        return false;
    write_path(directory, name, path);
    return !pccl_socket_is_bound_at(path);
}

static void remove_abandoned(int directory)
{
    int listed = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *all = listed >= 0 ? fdopendir(listed) : NULL;
    if (!all) {
        if (listed >= 0)
            close(listed);
        return;
    }
    for (const struct dirent *one = readdir(all); one; one = readdir(all))
        if (is_abandoned(directory, one->d_name))
            (void)unlinkat(directory, one->d_name, 0);
    closedir(all);
}

int pccl_local_listen(const struct pccl_local *local, const struct pccl_id *id, uv_os_sock_t *out)
{
    char name[NAME_BYTES], path[PATH_BYTES];
    if (!write_name(id, name))
        return last_error();
    remove_abandoned(local->directory);
    write_path(local->directory, name, path);
    return pccl_socket_listen_at(path, out);
}

void pccl_local_remove(const struct pccl_local *local, const struct pccl_id *id)
{
    char name[NAME_BYTES];
    if (write_name(id, name))
        (void)unlinkat(local->directory, name, 0);
}

bool pccl_local_let_in(uv_os_sock_t accepted, bool takes)
{
    if (!pccl_socket_is_of_this_user(accepted))
        return false;
    uint8_t byte = takes;
    if (takes)
        pccl_socket_take_descriptors(accepted, true);
    return pccl_socket_write(accepted, &byte, sizeof byte) == sizeof byte;
}

/* ---- dialing ---- */

int pccl_local_dial(const struct pccl_local *local, const struct pccl_id *id, uv_os_sock_t *out)
{
    char name[NAME_BYTES], path[PATH_BYTES];
    uv_os_sock_t dialed;
    if (!write_name(id, name) || faccessat(local->directory, name, F_OK, 0) != 0)
        return last_error();
    write_path(local->directory, name, path);
    int error = pccl_socket_dial_at(path, &dialed);
    if (error)
        return error;
    if (!pccl_socket_is_of_this_user(dialed)) {
        pccl_socket_close(dialed);
        return UV_EACCES;
    }
    *out = dialed;
    return 0;
}

int pccl_local_is_let_in(uv_os_sock_t dialed, bool *takes)
{
    uint8_t byte;
    ptrdiff_t moved = pccl_socket_read(dialed, &byte, sizeof byte);
    if (moved < 0)
        return (int)moved;
    *takes = byte == 1;
    return byte <= 1 ? 0 : UV_EPROTO;
}

/*
 * os/local: which users have access to the directory, where its files lead, which files are removed; and unwanted
 * descriptors: closing the passed sockets would take longer than a test may take.
 */
#ifndef __linux__
int main(void) { return 0; }
#else
#include "unit.h"
#include "local_folder.h"
#include "loopback.h"
#include "private_tmp.h"
#include "os/fork.h"
#include "os/socket.h"
#include "os/thread.h"

#include <errno.h>
#include <sys/syscall.h>

enum {
    ANOTHER_USER = 65534,
    LINGER_S = 3600,
    OLD_S = 100,      /* age of a file without a process */
    PASS_RIGHTS = 83, /* SO_PASSRIGHTS */
    PASSED_MAX = 253, /* with one message */
};

static const struct pccl_id id = {{1, 2, 3}};

/* ---- the directory ---- */

static void is_refused(const char *path, const char *why)
{
    struct pccl_local local;
    struct pccl_text reason;
    assert_int_not_equal(pccl_local_open(&local, path, &reason), 0);
    if (!strstr(reason.bytes, why) || !strstr(reason.bytes, path))
        fail_msg("the reason is '%s'", reason.bytes);
}

static void is_opened(const char *path)
{
    struct pccl_local local;
    struct pccl_text reason;
    if (pccl_local_open(&local, path, &reason) != 0)
        fail_msg("refused: '%s'", reason.bytes);
    pccl_local_close(&local);
}

TEST(a_missing_directory_is_made)
{
    struct stat made;
    char below[80], path[] = "/tmp/test_local_XXXXXX";
    assert_non_null(mkdtemp(path));
    (void)snprintf(below, sizeof below, "%s/local", path);
    is_opened(below);
    assert_int_equal(stat(below, &made), 0);
    assert_int_equal(made.st_mode & 07777, 0700);
    is_opened(below);
    assert_int_equal(rmdir(below), 0);
    assert_int_equal(rmdir(path), 0);
    is_refused(below, "no such file");
}

TEST(nobody_else_has_access_to_it)
{
    struct local_folder folder;
    local_folder_make(&folder);
    for (mode_t bit = 1; bit < 0100; bit *= 2) {
        assert_int_equal(chmod(folder.path, 0700 | bit), 0);
        is_refused(folder.path, "other users have access");
    }
    assert_int_equal(chmod(folder.path, 0700), 0);
    is_opened(folder.path);
    local_folder_remove(&folder);
}

TEST(it_is_of_this_user)
{
    struct local_folder folder;
    if (geteuid() != 0)
        skip(); /* only root can give it away */
    local_folder_make(&folder);
    assert_int_equal(chown(folder.path, ANOTHER_USER, ANOTHER_USER), 0);
    is_refused(folder.path, "owned by user 65534, expected 0");
    local_folder_remove(&folder);
}

/* The link may lead to a directory of this user that has another purpose. */
TEST(nothing_else_is_followed_or_opened)
{
    struct local_folder folder;
    char path[80];
    local_folder_make(&folder);
    (void)snprintf(path, sizeof path, "%s.other", folder.path);
    assert_int_equal(symlink(folder.path, path), 0);
    is_refused(path, "not a directory");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0700), 0);
    is_refused(path, "not a directory");
    assert_int_equal(unlink(path), 0);
    local_folder_remove(&folder);
}

/* ---- the default directory ---- */

static bool opens(struct pccl_text *reason)
{
    struct pccl_local local;
    if (pccl_local_open(&local, "", reason) != 0)
        return false;
    pccl_local_close(&local);
    return true;
}

static bool exists(const char *path) { return access(path, F_OK) == 0; }

static void choose(void)
{
    struct pccl_text reason;
    EXPECT(unsetenv("XDG_RUNTIME_DIR") == 0 && opens(&reason) && exists("/tmp/pccl-0"));
    EXPECT(rmdir("/tmp/pccl-0") == 0 && mkdir("/tmp/run", 0700) == 0);
    EXPECT(setenv("XDG_RUNTIME_DIR", "/tmp/run", 1) == 0 && opens(&reason));
    EXPECT(exists("/tmp/run/pccl") && !exists("/tmp/pccl-0"));
    EXPECT(chmod("/tmp/run/pccl", 0755) == 0 && opens(&reason) && exists("/tmp/pccl-0"));
    EXPECT(setenv("XDG_RUNTIME_DIR", "run", 1) == 0 && opens(&reason));
    EXPECT(rmdir("/tmp/run/pccl") == 0 && chown("/tmp/run", ANOTHER_USER, ANOTHER_USER) == 0);
    EXPECT(setenv("XDG_RUNTIME_DIR", "/tmp/run", 1) == 0 && opens(&reason) && !exists("/tmp/run/pccl"));
    /* as other users can do in /tmp */
    EXPECT(chown("/tmp/pccl-0", ANOTHER_USER, ANOTHER_USER) == 0 && !opens(&reason));
    EXPECT(strstr(reason.bytes, "/tmp/pccl-0: owned by user 65534") != NULL);
    EXPECT(rmdir("/tmp/pccl-0") == 0 && symlink("/tmp/run", "/tmp/pccl-0") == 0 && !opens(&reason));
}

TEST(it_is_in_the_runtime_directory_or_in_tmp) { private_tmp_run(choose, "mode=1777"); }

/* The file system reports root and mode 700, and does not answer: no process serves it. */
static void mount_another_users(void)
{
    char options[100];
    struct pccl_text reason;
    int device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    (void)unsetenv("XDG_RUNTIME_DIR");
    (void)snprintf(options, sizeof options, "fd=%d,rootmode=40700,user_id=65534,group_id=65534,allow_other", device);
    if (device < 0 || mkdir("/tmp/pccl-0", 0700) != 0 || mount("x", "/tmp/pccl-0", "fuse", 0, options) != 0)
        _exit(77);
    EXPECT(!opens(&reason) && strstr(reason.bytes, "another file system is mounted on it"));
}

TEST(another_users_file_system_is_not_asked) { private_tmp_run(mount_another_users, "mode=1777"); }

/* ---- names ---- */

static bool is_reached(const struct local_folder *folder)
{
    uv_os_sock_t dialed;
    int error = pccl_local_dial(&folder->local, &id, &dialed);
    if (error == 0)
        pccl_socket_close(dialed);
    else
        assert_int_equal(error, UV_ENOENT);
    return error == 0;
}

static int listen_in(const struct local_folder *folder)
{
    uv_os_sock_t listening;
    assert_int_equal(pccl_local_listen(&folder->local, &id, &listening), 0);
    return listening;
}

TEST(a_long_path_does_not_matter)
{
    struct local_folder folder, deep;
    char path[300];
    struct pccl_text reason;
    local_folder_make(&folder);
    (void)snprintf(path, sizeof path, "%s/%0200d", folder.path, 0);
    assert_int_equal(pccl_local_open(&deep.local, path, &reason), 0);
    int listening = listen_in(&deep);
    assert_true(is_reached(&deep));
    pccl_local_remove(&deep.local, &id);
    assert_false(is_reached(&deep));
    close(listening);
    pccl_local_close(&deep.local);
    assert_int_equal(rmdir(path), 0);
    local_folder_remove(&folder);
}

struct elsewhere {
    const struct local_folder *folder;
    bool is_there, is_reached;
};

static void dial_from_another_network(void *argument)
{
    struct elsewhere *elsewhere = argument;
    uv_os_sock_t dialed;
    elsewhere->is_there = unshare(CLONE_NEWNET) == 0;
    elsewhere->is_reached = pccl_local_dial(&elsewhere->folder->local, &id, &dialed) == 0;
}

/* The path leads there, although the network between the two may be cut. */
TEST(a_peer_in_another_network_is_not_reached)
{
    struct local_folder folder;
    uv_thread_t thread;
    if (geteuid() != 0)
        skip(); /* only root can make a namespace */
    local_folder_make(&folder);
    struct elsewhere elsewhere = {.folder = &folder};
    int listening = listen_in(&folder);
    assert_true(is_reached(&folder));
    assert_int_equal(uv_thread_create(&thread, dial_from_another_network, &elsewhere), 0);
    assert_int_equal(uv_thread_join(&thread), 0);
    assert_true(elsewhere.is_there);
    assert_false(elsewhere.is_reached);
    pccl_local_remove(&folder.local, &id);
    close(listening);
    local_folder_remove(&folder);
}

/* ---- files without a process ---- */

static void make_old(const struct local_folder *folder, const char *name)
{
    struct timespec old[2] = {{.tv_sec = time(NULL) - OLD_S}, {.tv_sec = time(NULL) - OLD_S}};
    assert_int_equal(utimensat(folder->local.directory, name, old, AT_SYMLINK_NOFOLLOW), 0);
}

static void make_all_old(const struct local_folder *folder)
{
    DIR *all = opendir(folder->path);
    assert_non_null(all);
    for (const struct dirent *one = readdir(all); one; one = readdir(all))
        if (one->d_name[0] != '.')
            make_old(folder, one->d_name);
    closedir(all);
}

static uint32_t files(const struct local_folder *folder)
{
    uint32_t count = 0;
    DIR *all = opendir(folder->path);
    assert_non_null(all);
    for (const struct dirent *one = readdir(all); one; one = readdir(all))
        count += one->d_name[0] != '.';
    closedir(all);
    return count;
}

static void look_again(const struct local_folder *folder)
{
    const struct pccl_id next = {{9}};
    uv_os_sock_t listening;
    assert_int_equal(pccl_local_listen(&folder->local, &next, &listening), 0);
    pccl_local_remove(&folder->local, &next);
    close(listening);
}

TEST(a_file_that_is_left_is_removed_when_it_is_old)
{
    struct local_folder folder;
    local_folder_make(&folder);
    int listening = listen_in(&folder);
    make_all_old(&folder);
    look_again(&folder);
    assert_true(is_reached(&folder)); /* regardless of its age: its process lives */
    close(listening);                 /* as the system does at the end of a process */
    look_again(&folder);
    assert_int_equal(files(&folder), 0);
    close(listen_in(&folder));
    look_again(&folder);
    assert_int_equal(files(&folder), 1); /* its process may not be known to the system yet */
    make_all_old(&folder);
    look_again(&folder);
    local_folder_remove(&folder);
}

static void touch(const struct local_folder *folder, const char *name)
{
    int made = openat(folder->local.directory, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(made >= 0);
    close(made);
}

/* The user may have named a directory with files. */
TEST(other_files_are_left_alone)
{
    static const char *const names[] = {"1-01020300000000000000000000000000", "notes", "1-0102", "-1"};
    struct local_folder folder;
    local_folder_make(&folder);
    for (uint32_t i = 0; i < PCCL_COUNT_OF(names); i++)
        touch(&folder, names[i]);
    assert_int_equal(mknodat(folder.local.directory, "socket", S_IFSOCK | 0600, 0), 0);
    assert_int_equal(symlinkat("notes", folder.local.directory, "2-01020300000000000000000000000000"), 0);
    make_all_old(&folder);
    look_again(&folder);
    assert_int_equal(files(&folder), PCCL_COUNT_OF(names) + 2);
    for (uint32_t i = 0; i < PCCL_COUNT_OF(names); i++)
        assert_int_equal(unlinkat(folder.local.directory, names[i], 0), 0);
    assert_int_equal(unlinkat(folder.local.directory, "socket", 0), 0);
    assert_int_equal(unlinkat(folder.local.directory, "2-01020300000000000000000000000000", 0), 0);
    local_folder_remove(&folder);
}

/* ---- descriptors ---- */

struct pair {
    struct local_folder folder;
    uv_os_sock_t listening, dialed, accepted;
    int receivers[PASSED_MAX];
    int count; /* number of receivers */
};

static void begin(struct pair *p)
{
    struct pccl_address from;
    memset(p, 0, sizeof *p);
    local_folder_make(&p->folder);
    p->listening = listen_in(&p->folder);
    assert_int_equal(pccl_local_dial(&p->folder.local, &id, &p->dialed), 0);
    assert_int_equal(pccl_socket_accept(p->listening, &p->accepted, &from), 0);
}

static void end(struct pair *p)
{
    pccl_socket_close(p->dialed);
    pccl_socket_close(p->accepted);
    pccl_local_remove(&p->folder.local, &id);
    pccl_socket_close(p->listening);
    local_folder_remove(&p->folder);
}

/* Creates a TCP socket whose last close() waits, because its other end does not read. */
static int lingering(struct pair *p)
{
    struct linger linger = {.l_onoff = 1, .l_linger = LINGER_S};
    static const uint8_t bytes[1 << 16];
    uint16_t port;
    int listening = loopback_listen(&port);
    int sender = loopback_connect(port);
    p->receivers[p->count++] = accept(listening, NULL, NULL);
    assert_int_equal(fcntl(sender, F_SETFL, O_NONBLOCK), 0);
    while (send(sender, bytes, sizeof bytes, MSG_NOSIGNAL) > 0) {
    }
    assert_int_equal(setsockopt(sender, SOL_SOCKET, SO_LINGER, &linger, sizeof linger), 0);
    close(listening);
    return sender;
}

/* Passes it `copies` times and closes its own copy. Returns false with errno if refused. */
static bool pass(struct pair *p, uint32_t copies)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(PASSED_MAX * sizeof(int))];
    } control = {
        .align = {.cmsg_len = CMSG_LEN(copies * sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
    struct iovec piece = {(char[]){'x'}, 1};
    struct msghdr message = {.msg_iov = &piece,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = CMSG_SPACE(copies * sizeof(int))};
    int sender = lingering(p), all[PASSED_MAX];
    for (uint32_t i = 0; i < copies; i++)
        all[i] = sender;
    memcpy(CMSG_DATA(&control.align), all, copies * sizeof(int));
    /* Not sendmsg: musl's accepts at most 1,024 bytes of control messages. */
    bool passed = syscall(SYS_sendmsg, p->dialed, &message, MSG_NOSIGNAL) == 1;
    int error = errno;
    if (passed)
        close(sender);
    errno = error;
    return passed;
}

static bool system_can_refuse(const struct pair *p)
{
    int value = 1;
    socklen_t length = sizeof value;
    return getsockopt(p->accepted, SOL_SOCKET, PASS_RIGHTS, &value, &length) == 0;
}

TEST(none_is_passed_before_the_process_is_let_in)
{
    bool takes;
    struct pair p;
    begin(&p);
    if (!system_can_refuse(&p)) {
        end(&p);
        skip();
    }
    assert_false(pass(&p, 1));
    assert_int_equal(errno, EPERM);
    assert_true(pccl_local_let_in(p.accepted, false));
    assert_int_equal(pccl_local_is_let_in(p.dialed, &takes), 0);
    assert_false(takes);
    assert_false(pass(&p, 1));
    assert_true(pccl_local_let_in(p.accepted, true));
    assert_int_equal(pccl_local_is_let_in(p.dialed, &takes), 0);
    assert_true(takes);
    assert_true(pass(&p, 1));
    end(&p);
}

TEST(another_user_is_not_let_in)
{
    int pair[2];
    bool takes;
    if (geteuid() != 0)
        skip(); /* only root can act as another user */
    assert_int_equal(seteuid(ANOTHER_USER), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    assert_int_equal(seteuid(0), 0);
    assert_false(pccl_local_let_in(pair[1], true));
    assert_int_equal(pccl_local_is_let_in(pair[0], &takes), UV_EAGAIN);
    pccl_socket_close(pair[0]);
    pccl_socket_close(pair[1]);
}

/* Each returns at once, or the test does not end. */
TEST(nothing_waits_for_them)
{
    uint8_t bytes[8];
    int descriptor;
    struct pair p;
    begin(&p);
    pccl_socket_take_descriptors(p.accepted, true);
    for (uint32_t copies = 1; copies <= PASSED_MAX; copies += PASSED_MAX / 2) {
        assert_true(pass(&p, copies));
        assert_int_equal(pccl_socket_read(p.accepted, bytes, sizeof bytes), UV_EPROTO);
        assert_true(pass(&p, copies));
        assert_int_equal(pccl_socket_read_two(p.accepted, bytes, 4, bytes + 4, 4), UV_EPROTO);
        assert_true(pass(&p, copies));
        assert_int_equal(pccl_socket_read_with(p.accepted, bytes, sizeof bytes, &descriptor), 1);
        pccl_socket_take_descriptors(p.accepted, true);
        assert_true((descriptor >= 0) == (copies == 1));
        if (copies == 1)
            pccl_socket_refuse_descriptor(descriptor);
    }
    for (int i = 0; i < 3; i++)
        assert_true(pass(&p, 2));
    end(&p); /* with these in its queue */
}

static void close_listening(void *argument) { pccl_socket_close(*(uv_os_sock_t *)argument); }

/* The system closes the connections that were not accepted, with the passed descriptors, and waits. */
TEST(a_close_that_waits_holds_no_lock)
{
    static struct pair p; /* the thread does not end */
    static uv_os_sock_t closed;
    uv_thread_t thread;
    begin(&p);
    pccl_socket_take_descriptors(p.listening, true);
    pccl_socket_close(p.dialed);
    assert_int_equal(pccl_local_dial(&p.folder.local, &id, &p.dialed), 0);
    assert_true(pass(&p, 1));
    closed = p.listening;
    assert_int_equal(pccl_thread_start(&thread, close_listening, &closed), 0);
    pccl_thread_detach(thread);
    while (fcntl(closed, F_GETFD) >= 0)
        sched_yield();
    pccl_fork_lock();
    pccl_fork_unlock();
    pccl_local_remove(&p.folder.local, &id);
    local_folder_remove(&p.folder);
}
#endif

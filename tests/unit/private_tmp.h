/* Shared by unit tests that need a /tmp which only they see. */
#ifndef PCCL_TESTS_UNIT_PRIVATE_TMP_H
#define PCCL_TESTS_UNIT_PRIVATE_TMP_H

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#ifdef __linux__
#include <sys/mount.h>
#endif
#include <sys/wait.h>
#include <unistd.h>

/* Mounts a tmpfs at /tmp for this process. Returns false where the system refuses. */
#ifdef __linux__
static inline bool private_tmp_mount(const char *options)
{
    return unshare(CLONE_NEWNS) == 0 && mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("none", "/tmp", "tmpfs", 0, options) == 0;
}

/* Makes it read-only. */
static inline bool private_tmp_lock(void) { return mount("none", "/tmp", "tmpfs", MS_REMOUNT | MS_RDONLY, "") == 0; }
#else
static inline bool private_tmp_mount(const char *options)
{
    (void)options;
    return false;
}

static inline bool private_tmp_lock(void) { return false; }
#endif

/* Calls `run` in a child process with a tmpfs at /tmp. Skips the test where the system refuses the mount. */
static inline void private_tmp_run(void (*run)(void), const char *options)
{
    int status;
    if (geteuid() != 0)
        skip(); /* only root can mount */
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (!private_tmp_mount(options))
            _exit(77);
        run();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(status, 0);
}

static inline void expect(bool condition, const char *what)
{
    if (condition)
        return;
    (void)fprintf(stderr, "not true in the child: %s\n", what);
    _exit(1);
}

#define EXPECT(condition) expect(condition, #condition)

#endif

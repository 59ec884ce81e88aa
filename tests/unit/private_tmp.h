/* Shared by unit tests that need a /tmp which only they see. */
#ifndef PCCL_TESTS_UNIT_PRIVATE_TMP_H
#define PCCL_TESTS_UNIT_PRIVATE_TMP_H

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

/* Calls `run` in a child process with a tmpfs at /tmp. Skips the test where the system refuses the mount. */
static inline void private_tmp_run(void (*run)(void), const char *options)
{
    int status;
    if (geteuid() != 0)
        skip(); /* only root can mount */
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (unshare(CLONE_NEWNS) != 0 || mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
            mount("none", "/tmp", "tmpfs", 0, options) != 0)
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

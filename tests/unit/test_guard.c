/* A broken invariant leaves the guarded code in a release, and stops the process in development. */
#include "unit.h"
#include "drive/guard.h"
#include "net/guard.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

struct nest {
    int depth;
    bool inner_whole;
    bool after_inner;
};

static void count(void *argument) { ++*(int *)argument; }

static void break_invariant(void *argument)
{
    int *number = argument;
    ++*number;
    PCCL_ASSERT(*number < 0);
    ++*number; /* not reached */
}

static void nested(void *argument)
{
    struct nest *nest = argument;
    nest->inner_whole = pccl_guard_run(break_invariant, &nest->depth);
    nest->after_inner = true;
}

TEST(whole_code_runs_to_its_end)
{
    int number = 0;
    pccl_guard_install();
    assert_true(pccl_guard_run(count, &number));
    assert_int_equal(number, 1);
}

/* In the child: returns 0 if everything was as in a release. */
static int break_things(void)
{
    int number = 0;
    struct nest nest = {0};
    pccl_guard_install();
    bool left = !pccl_guard_run(break_invariant, &number) && number == 1;
    bool outer_whole = pccl_guard_run(nested, &nest);
    bool again = pccl_guard_run(count, &number) && number == 2;
    return left && outer_whole && !nest.inner_whole && nest.after_inner && again ? 0 : 1;
}

TEST(broken_code_is_left_or_stops_the_process)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        (void)close(STDERR_FILENO);
        _exit(break_things());
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status)) /* a release */
        assert_int_equal(WEXITSTATUS(status), 0);
    else /* a build for development */
        assert_int_equal(WTERMSIG(status), SIGABRT);
}

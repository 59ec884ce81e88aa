/* drive/logger: levels, the callback and its removal, the line on standard error. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "drive/logger.h"

struct heard {
    int count;
    pcclLogLevel_t level;
    char subsystem[32];
    char message[PCCL_LOGGER_LINE_MAX * 2];
};

static void hear(pcclLogLevel_t level, const char *subsystem, const char *message, void *user)
{
    struct heard *heard = user;
    heard->count++;
    heard->level = level;
    snprintf(heard->subsystem, sizeof heard->subsystem, "%s", subsystem);
    snprintf(heard->message, sizeof heard->message, "%s", message);
}

static int quiet(void **state)
{
    (void)state;
    pccl_logger_set_callback(NULL, NULL);
    pccl_logger_set_level(PCCL_LOG_WARN);
    return 0;
}

/* Runs first: no level was chosen yet. */
static void a_suggested_level_counts_until_one_is_chosen(void **state)
{
    (void)state;
    assert_true(pccl_logger_wants(PCCL_LOG_WARN) && !pccl_logger_wants(PCCL_LOG_INFO));
    pccl_logger_suggest_level(PCCL_LOG_DEBUG);
    assert_true(pccl_logger_wants(PCCL_LOG_DEBUG) && !pccl_logger_wants(PCCL_LOG_TRACE));
    pccl_logger_set_level(PCCL_LOG_ERROR);
    pccl_logger_suggest_level(PCCL_LOG_TRACE);
    assert_true(pccl_logger_wants(PCCL_LOG_ERROR) && !pccl_logger_wants(PCCL_LOG_WARN));
    pccl_logger_set_level(PCCL_LOG_NONE);
    assert_false(pccl_logger_wants(PCCL_LOG_ERROR));
    pccl_logger_set_level(PCCL_LOG_TRACE);
    assert_true(pccl_logger_wants(PCCL_LOG_TRACE));
    assert_false(pccl_logger_wants(PCCL_LOG_NONE)); /* no level to write at */
}

static void the_callback_gets_what_is_wanted(void **state)
{
    (void)state;
    static struct heard heard;
    pccl_logger_set_callback(hear, &heard);
    pccl_logger_write(PCCL_LOG_INFO, "peer", "too quiet");
    assert_int_equal(heard.count, 0);
    pccl_logger_write(PCCL_LOG_ERROR, "peer", "lost");
    assert_int_equal(heard.count, 1);
    assert_int_equal(heard.level, pcclLogError);
    assert_string_equal(heard.subsystem, "peer");
    assert_string_equal(heard.message, "lost");
    pccl_logger_print(PCCL_LOG_WARN, "master", "%d of %s", 3, "four");
    assert_int_equal(heard.level, pcclLogWarn);
    assert_string_equal(heard.message, "3 of four");
}

static void a_message_is_one_line_of_bounded_length(void **state)
{
    (void)state;
    static struct heard heard;
    static char message[PCCL_LOGGER_LINE_MAX + 100];
    pccl_logger_set_callback(hear, &heard);
    pccl_logger_write(PCCL_LOG_WARN, "x", "a\nb\r\tc\x1b[1m\x7f \xc3\xa4");
    assert_string_equal(heard.message, "a?b??c?[1m? \xc3\xa4");
    memset(message, 'm', sizeof message - 1);
    pccl_logger_write(PCCL_LOG_WARN, "x", message);
    assert_int_equal(strlen(heard.message), PCCL_LOGGER_LINE_MAX);
    pccl_logger_print(PCCL_LOG_WARN, "x", "%s", message);
    assert_int_equal(strlen(heard.message), PCCL_LOGGER_LINE_MAX);
}

static void errno_is_left_alone(void **state)
{
    (void)state;
    static struct heard heard;
    pccl_logger_set_callback(hear, &heard);
    errno = ENOENT;
    pccl_logger_write(PCCL_LOG_WARN, "x", "y");
    assert_int_equal(errno, ENOENT);
}

/* ---- callbacks that call back ---- */

static void log_again(pcclLogLevel_t level, const char *subsystem, const char *message, void *user)
{
    hear(level, subsystem, message, user);
    pccl_logger_write(PCCL_LOG_ERROR, "nested", "must not be heard");
    pccl_logger_print(PCCL_LOG_ERROR, "nested", "must not be heard");
}

static void a_callback_that_logs_does_not_recurse(void **state)
{
    (void)state;
    static struct heard heard;
    pccl_logger_set_callback(log_again, &heard);
    pccl_logger_write(PCCL_LOG_WARN, "x", "first");
    pccl_logger_write(PCCL_LOG_WARN, "x", "second");
    assert_int_equal(heard.count, 2);
    assert_string_equal(heard.message, "second");
}

static void replace_itself(pcclLogLevel_t level, const char *subsystem, const char *message, void *user)
{
    hear(level, subsystem, message, user);
    pccl_logger_set_callback(hear, user);
}

static void a_callback_may_replace_itself(void **state)
{
    (void)state;
    static struct heard heard;
    pccl_logger_set_callback(replace_itself, &heard);
    pccl_logger_write(PCCL_LOG_WARN, "x", "first");
    pccl_logger_write(PCCL_LOG_WARN, "x", "second");
    assert_int_equal(heard.count, 2);
}

/* ---- removal waits for callbacks that run ---- */

struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool entered, open;
    atomic_bool left;
};

static void wait_in_gate(pcclLogLevel_t level, const char *subsystem, const char *message, void *user)
{
    (void)level;
    (void)subsystem;
    (void)message;
    struct gate *gate = user;
    pthread_mutex_lock(&gate->lock);
    gate->entered = true;
    pthread_cond_broadcast(&gate->changed);
    while (!gate->open) {
        pthread_cond_wait(&gate->changed, &gate->lock);
    }
    pthread_mutex_unlock(&gate->lock);
    atomic_store(&gate->left, true);
}

static void *log_one(void *user)
{
    (void)user;
    pccl_logger_write(PCCL_LOG_WARN, "x", "held up");
    return NULL;
}

static void *remove_callback(void *user)
{
    struct gate *gate = user;
    pccl_logger_set_callback(NULL, NULL);
    return atomic_load(&gate->left) ? gate : NULL;
}

static void removal_waits_for_a_running_callback(void **state)
{
    (void)state;
    static struct gate gate = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    pthread_t logger, remover;
    void *left_before = NULL;
    pccl_logger_set_callback(wait_in_gate, &gate);
    assert_int_equal(pthread_create(&logger, NULL, log_one, NULL), 0);
    pthread_mutex_lock(&gate.lock);
    while (!gate.entered) {
        pthread_cond_wait(&gate.changed, &gate.lock);
    }
    pthread_mutex_unlock(&gate.lock);
    assert_int_equal(pthread_create(&remover, NULL, remove_callback, &gate), 0);
    pthread_mutex_lock(&gate.lock);
    gate.open = true;
    pthread_cond_broadcast(&gate.changed);
    pthread_mutex_unlock(&gate.lock);
    assert_int_equal(pthread_join(remover, &left_before), 0);
    assert_int_equal(pthread_join(logger, NULL), 0);
    assert_ptr_equal(left_before, &gate);
}

/* In a child the threads that were in callbacks do not exist: nobody waits for them. */
static void a_child_can_change_the_callback(void **state)
{
    (void)state;
    static struct gate gate = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    static struct heard heard;
    pthread_t logger;
    pccl_logger_set_callback(wait_in_gate, &gate);
    assert_int_equal(pthread_create(&logger, NULL, log_one, NULL), 0);
    pthread_mutex_lock(&gate.lock);
    while (!gate.entered) {
        pthread_cond_wait(&gate.changed, &gate.lock);
    }
    pthread_mutex_unlock(&gate.lock);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(20); /* so that a hang is a failure */
        pccl_logger_set_callback(hear, &heard);
        pccl_logger_write(PCCL_LOG_WARN, "x", "from the child");
        _exit(heard.count == 1 ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    pthread_mutex_lock(&gate.lock);
    gate.open = true;
    pthread_cond_broadcast(&gate.changed);
    pthread_mutex_unlock(&gate.lock);
    assert_int_equal(pthread_join(logger, NULL), 0);
}

/* ---- many threads log while others change the callback: each line finds a live one ---- */

enum { ROUNDS = 2000, LOGGERS = 3 };
struct target {
    atomic_bool live;
    atomic_int heard, late;
};

static void hit(pcclLogLevel_t level, const char *subsystem, const char *message, void *user)
{
    (void)level;
    (void)subsystem;
    (void)message;
    struct target *target = user;
    atomic_fetch_add(atomic_load(&target->live) ? &target->heard : &target->late, 1);
}

static void *log_many(void *user)
{
    (void)user;
    for (int i = 0; i < ROUNDS; i++) {
        pccl_logger_print(PCCL_LOG_WARN, "x", "line %d", i);
    }
    return NULL;
}

static void no_line_reaches_a_removed_callback(void **state)
{
    (void)state;
    static struct target targets[2];
    pthread_t loggers[LOGGERS];
    atomic_store(&targets[0].live, true);
    pccl_logger_set_callback(hit, &targets[0]);
    for (int i = 0; i < LOGGERS; i++) {
        assert_int_equal(pthread_create(&loggers[i], NULL, log_many, NULL), 0);
    }
    for (int i = 0; i < ROUNDS; i++) {
        struct target *next = &targets[(i + 1) % 2], *before = &targets[i % 2];
        atomic_store(&next->live, true);
        pccl_logger_set_callback(hit, next);
        atomic_store(&before->live, false);
    }
    for (int i = 0; i < LOGGERS; i++) {
        assert_int_equal(pthread_join(loggers[i], NULL), 0);
    }
    assert_int_equal(targets[0].late + targets[1].late, 0);
    assert_int_equal(targets[0].heard + targets[1].heard, ROUNDS * LOGGERS);
}

/* ---- standard error ---- */

/* Puts the writing end of a pipe in place of standard error. */
static int redirect(int pipe_ends[2], int flags)
{
    assert_int_equal(pipe2(pipe_ends, flags), 0);
    int kept = dup(STDERR_FILENO);
    assert_true(kept >= 0);
    assert_true(dup2(pipe_ends[1], STDERR_FILENO) >= 0);
    return kept;
}

static void restore(int kept)
{
    assert_true(dup2(kept, STDERR_FILENO) >= 0);
    close(kept);
}

static void lines_go_to_standard_error(void **state)
{
    (void)state;
    int ends[2];
    char line[256] = "";
    int kept = redirect(ends, 0);
    pccl_logger_write(PCCL_LOG_WARN, "peer", "words");
    restore(kept);
    ssize_t length = read(ends[0], line, sizeof line - 1);
    assert_true(length > 0);
    line[length] = '\0';
    int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0, milli = 0, end = 0;
    assert_int_equal(
        sscanf(line, "%4d-%2d-%2dT%2d:%2d:%2d.%3dZ%n", &year, &month, &day, &hour, &minute, &second, &milli, &end), 7);
    assert_string_equal(line + end, " pccl warn peer words\n");
    close(ends[0]);
    close(ends[1]);
}

/* The default action of SIGPIPE would end this test program. */
static void a_closed_pipe_does_not_kill(void **state)
{
    (void)state;
    int ends[2];
    signal(SIGPIPE, SIG_DFL);
    int kept = redirect(ends, 0);
    close(ends[0]);
    close(ends[1]);
    pccl_logger_write(PCCL_LOG_WARN, "peer", "nobody reads this");
    restore(kept);
    sigset_t pending;
    assert_int_equal(sigpending(&pending), 0);
    assert_int_equal(sigismember(&pending, SIGPIPE), 0);
    sigset_t blocked;
    assert_int_equal(pthread_sigmask(SIG_BLOCK, NULL, &blocked), 0);
    assert_int_equal(sigismember(&blocked, SIGPIPE), 0);
}

static void a_full_pipe_does_not_block(void **state)
{
    (void)state;
    int ends[2];
    static char filler[4096];
    int kept = redirect(ends, O_NONBLOCK);
    while (write(ends[1], filler, sizeof filler) > 0) {
    }
    assert_int_equal(fcntl(ends[1], F_SETFL, 0), 0); /* blocking from now on */
    for (int i = 0; i < 100; i++) {
        pccl_logger_write(PCCL_LOG_WARN, "peer", "does not fit");
    }
    restore(kept);
    close(ends[0]);
    close(ends[1]);
}

static void levels_have_names(void **state)
{
    (void)state;
    assert_string_equal(pccl_logger_level_name(PCCL_LOG_TRACE), "trace");
    assert_string_equal(pccl_logger_level_name(PCCL_LOG_ERROR), "error");
    assert_string_equal(pccl_logger_level_name((enum pccl_log_level)17), "?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_suggested_level_counts_until_one_is_chosen),
        cmocka_unit_test_setup(the_callback_gets_what_is_wanted, quiet),
        cmocka_unit_test_setup(a_message_is_one_line_of_bounded_length, quiet),
        cmocka_unit_test_setup(errno_is_left_alone, quiet),
        cmocka_unit_test_setup(a_callback_that_logs_does_not_recurse, quiet),
        cmocka_unit_test_setup(a_callback_may_replace_itself, quiet),
        cmocka_unit_test_setup(removal_waits_for_a_running_callback, quiet),
        cmocka_unit_test_setup(a_child_can_change_the_callback, quiet),
        cmocka_unit_test_setup(no_line_reaches_a_removed_callback, quiet),
        cmocka_unit_test_setup(lines_go_to_standard_error, quiet),
        cmocka_unit_test_setup(a_closed_pipe_does_not_kill, quiet),
        cmocka_unit_test_setup(a_full_pipe_does_not_block, quiet),
        cmocka_unit_test_setup(levels_have_names, quiet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

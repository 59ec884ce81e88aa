/* log/logger: levels; the callback, its thread and its removal; the line on standard error. */
#include "unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "drive/comm_log.h"
#include "log/queue.h"
#include "log/logger.h"

/* For ThreadSanitizer: children in these tests may start threads. */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void) { return "die_after_fork=0"; }

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

/* Writes a line, and waits until the callback has it: lines reach it with a delay. */
static void write_and_wait(pcclLogLevel_t level, const char *subsystem, const char *message)
{
    pccl_logger_write((enum pccl_log_level)level, subsystem, message);
    pccl_logger_wait(20000);
}

static int quiet(void **state)
{
    pccl_logger_set_callback(NULL, NULL);
    pccl_logger_set_level(PCCL_LOG_WARN);
    return 0;
}

/* Runs first: no level was chosen yet. */
TEST(a_suggested_level_counts_until_one_is_chosen)
{
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

TEST_IN(the_callback_gets_what_is_wanted, quiet, NULL)
{
    static struct heard heard;
    pccl_logger_set_callback(hear, &heard);
    write_and_wait(pcclLogInfo, "peer", "too quiet");
    assert_int_equal(heard.count, 0);
    write_and_wait(pcclLogError, "peer", "lost");
    assert_int_equal(heard.count, 1);
    assert_int_equal(heard.level, pcclLogError);
    assert_string_equal(heard.subsystem, "peer");
    assert_string_equal(heard.message, "lost");
    pccl_logger_print(PCCL_LOG_WARN, "master", "%d of %s", 3, "four");
    pccl_logger_wait(20000);
    assert_int_equal(heard.level, pcclLogWarn);
    assert_string_equal(heard.message, "3 of four");
}

TEST_IN(a_message_is_one_line_of_bounded_length, quiet, NULL)
{
    static struct heard heard;
    static char message[PCCL_LOGGER_LINE_MAX + 100];
    pccl_logger_set_callback(hear, &heard);
    write_and_wait(pcclLogWarn, "x", "a\nb\r\tc\x1b[1m\x7f \xc3\xa4");
    assert_string_equal(heard.message, "a?b??c?[1m? \xc3\xa4");
    memset(message, 'm', sizeof message - 1);
    write_and_wait(pcclLogWarn, "x", message);
    assert_int_equal(strlen(heard.message), PCCL_LOGGER_LINE_MAX);
    heard.message[0] = '\0';
    pccl_logger_print(PCCL_LOG_WARN, "x", "%s", message);
    pccl_logger_wait(20000);
    assert_int_equal(strlen(heard.message), PCCL_LOGGER_LINE_MAX);
}

TEST_IN(errno_is_left_alone, quiet, NULL)
{
    static struct heard heard;
    pccl_logger_set_callback(hear, &heard);
    errno = ENOENT;
    write_and_wait(pcclLogWarn, "x", "y");
    assert_int_equal(errno, ENOENT);
}

/* ---- callbacks that call back ---- */

static void log_again(pcclLogLevel_t level, const char *subsystem, const char *message, void *user)
{
    hear(level, subsystem, message, user);
    pccl_logger_write(PCCL_LOG_ERROR, "nested", "must not be heard");
    pccl_logger_print(PCCL_LOG_ERROR, "nested", "must not be heard");
}

TEST_IN(a_callback_that_logs_does_not_recurse, quiet, NULL)
{
    static struct heard heard;
    pccl_logger_set_callback(log_again, &heard);
    pccl_logger_write(PCCL_LOG_WARN, "x", "first");
    pccl_logger_write(PCCL_LOG_WARN, "x", "second");
    pccl_logger_wait(20000);
    assert_int_equal(heard.count, 2);
    assert_string_equal(heard.message, "second");
}

static void replace_itself(pcclLogLevel_t level, const char *subsystem, const char *message, void *user)
{
    hear(level, subsystem, message, user);
    pccl_logger_set_callback(hear, user);
}

TEST_IN(a_callback_may_replace_itself, quiet, NULL)
{
    static struct heard heard;
    pccl_logger_set_callback(replace_itself, &heard);
    pccl_logger_write(PCCL_LOG_WARN, "x", "first");
    pccl_logger_write(PCCL_LOG_WARN, "x", "second");
    pccl_logger_wait(20000);
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
    struct gate *gate = user;
    pthread_mutex_lock(&gate->lock);
    gate->entered = true;
    pthread_cond_broadcast(&gate->changed);
    while (!gate->open)
        pthread_cond_wait(&gate->changed, &gate->lock);
    pthread_mutex_unlock(&gate->lock);
    atomic_store(&gate->left, true);
}

static void shut(struct gate *gate)
{
    gate->entered = gate->open = false;
    pccl_logger_set_callback(wait_in_gate, gate);
    pccl_logger_write(PCCL_LOG_WARN, "x", "held up");
    pthread_mutex_lock(&gate->lock);
    while (!gate->entered)
        pthread_cond_wait(&gate->changed, &gate->lock);
    pthread_mutex_unlock(&gate->lock);
}

static void open_gate(struct gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    gate->open = true;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->lock);
}

static void *remove_callback(void *user)
{
    struct gate *gate = user;
    pccl_logger_set_callback(NULL, NULL);
    return atomic_load(&gate->left) ? gate : NULL;
}

TEST_IN(removal_waits_for_a_running_callback, quiet, NULL)
{
    static struct gate gate = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    pthread_t remover;
    void *left_before = NULL;
    shut(&gate);
    assert_int_equal(pthread_create(&remover, NULL, remove_callback, &gate), 0);
    open_gate(&gate);
    assert_int_equal(pthread_join(remover, &left_before), 0);
    assert_ptr_equal(left_before, &gate);
}

/* ---- forks ---- */

/* Returns the exit status of a child; -1 if a signal ended it. */
static int status_of(pid_t child)
{
    int status = -1;
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* In a child the thread of the callback does not exist, so nothing waits for it. */
TEST_IN(a_child_can_change_the_callback, quiet, NULL)
{
    static struct gate gate = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    static struct heard heard;
    shut(&gate);
    pccl_logger_write(PCCL_LOG_WARN, "x", "the parent's");
    pid_t child = fork();
    if (child == 0) {
        alarm(120);
        pccl_logger_set_callback(hear, &heard);
        write_and_wait(pcclLogWarn, "x", "from the child");
        _exit(heard.count == 1 && strcmp(heard.message, "from the child") == 0 ? 0 : 1);
    }
    assert_int_equal(status_of(child), 0);
    open_gate(&gate);
}

static pid_t forked;

static void fork_first(pcclLogLevel_t level, const char *subsystem, const char *message, void *user)
{
    if (strcmp(message, "fork") == 0) {
        forked = fork();
        if (forked == 0)
            alarm(120);
    } else if (forked == 0 && strcmp(message, "the child's") == 0) {
        _exit(7);
    }
}

static void *log_in_child(void *user)
{
    pccl_logger_write(PCCL_LOG_WARN, "x", "the child's");
    return NULL;
}

static void fork_and_log(pcclLogLevel_t level, const char *subsystem, const char *message, void *user)
{
    pthread_t thread;
    fork_first(level, subsystem, message, user);
    if (forked == 0 && strcmp(message, "fork") == 0 && pthread_create(&thread, NULL, log_in_child, NULL) != 0)
        _exit(1);
}

/* The thread of the callback is then the child's only one, and continues to hand lines over there. */
TEST_IN(a_callback_may_fork, quiet, NULL)
{
    forked = -1;
    pccl_logger_set_callback(fork_and_log, NULL);
    pccl_logger_write(PCCL_LOG_WARN, "x", "fork");
    pccl_logger_write(PCCL_LOG_WARN, "x", "the parent's");
    pccl_logger_wait(20000);
    assert_int_equal(status_of(forked), 7);
}

/* ---- callbacks that take long to return ---- */

enum { BEYOND = 70 };
struct collected {
    struct gate gate;
    uint32_t next, lost, tellings;
    bool disorder;
    pcclLogLevel_t lost_level;
};

/* Lines are numbers; the first one waits in the gate. */
static void collect(pcclLogLevel_t level, const char *subsystem, const char *message, void *user)
{
    struct collected *collected = user;
    if (strcmp(subsystem, "log") == 0) {
        uint32_t lines = (uint32_t)strtoul(message, NULL, 10);
        collected->tellings++;
        collected->lost += lines;
        collected->next += lines;
        collected->lost_level = level;
    } else {
        collected->disorder |= strtoul(message, NULL, 10) != collected->next++;
    }
    if (collected->next == 1)
        wait_in_gate(level, subsystem, message, &collected->gate);
}

static void write_numbers(uint32_t from, uint32_t to, enum pccl_log_level level)
{
    for (uint32_t i = from; i < to; i++)
        pccl_logger_print(level, "x", "%u", i);
}

static void begin_collecting(struct collected *collected)
{
    pthread_mutex_init(&collected->gate.lock, NULL);
    pthread_cond_init(&collected->gate.changed, NULL);
    pccl_logger_set_callback(collect, collected);
}

/* Logging never blocks; lines that do not fit are counted and reported in their place. */
TEST_IN(nobody_waits_for_a_callback, quiet, NULL)
{
    static struct collected collected;
    begin_collecting(&collected);
    write_numbers(0, PCCL_LOG_QUEUE_MAX + BEYOND, PCCL_LOG_WARN);
    pccl_logger_wait(1); /* is bounded */
    assert_int_equal(collected.tellings, 0);
    pccl_logger_write(PCCL_LOG_ERROR, "x", "lost too");
    open_gate(&collected.gate);
    pccl_logger_wait(20000);
    assert_int_equal(collected.next, PCCL_LOG_QUEUE_MAX + BEYOND + 1);
    assert_int_equal(collected.lost, BEYOND + 1);
    assert_int_equal(collected.tellings, 1);
    assert_int_equal(collected.lost_level, pcclLogError); /* the worst of them */
    write_numbers(collected.next, collected.next + 10, PCCL_LOG_WARN);
    pccl_logger_set_callback(NULL, NULL);
    assert_int_equal(collected.next, PCCL_LOG_QUEUE_MAX + BEYOND + 11);
    assert_int_equal(collected.lost, BEYOND + 1);
    assert_false(collected.disorder);
}

/* It ends after a short wait. */
TEST_IN(a_process_ends_with_a_callback_that_never_returns, quiet, NULL)
{
    static struct gate gate = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    pid_t child = fork();
    if (child == 0) {
        alarm(120);
        pccl_logger_set_callback(wait_in_gate, &gate);
        pccl_logger_write(PCCL_LOG_WARN, "x", "never taken");
        exit(3);
    }
    assert_int_equal(status_of(child), 3);
}

static void tell_pipe(pcclLogLevel_t level, const char *subsystem, const char *message, void *user)
{
    if (write(*(int *)user, message, 1) != 1)
        _exit(1);
}

TEST_IN(the_last_lines_before_the_end_are_not_lost, quiet, NULL)
{
    static int ends[2];
    char taken[200];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        alarm(120);
        pccl_logger_set_callback(tell_pipe, &ends[1]);
        for (int i = 0; i < 100; i++)
            pccl_logger_write(PCCL_LOG_WARN, "x", "taken");
        exit(3);
    }
    assert_int_equal(status_of(child), 3);
    assert_int_equal(read(ends[0], taken, sizeof taken), 100);
    close(ends[0]);
    close(ends[1]);
}

/* ---- the thread ---- */

/* Returns 1 if the system has no number. */
static int threads(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/task");
    if (folder == NULL)
        return 1;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count;
}

/* Waits until there are `count` threads: a thread that was joined may be listed a moment longer. */
static void await_threads(int count)
{
    while (threads() > count)
        sched_yield();
}

TEST_IN(no_thread_without_a_line_and_none_after_removal, quiet, NULL)
{
    static struct heard heard;
    int before = threads();
    for (int i = 0; i < 3; i++) {
        pccl_logger_set_callback(hear, &heard);
        assert_true(threads() <= before);
        pccl_logger_write(PCCL_LOG_WARN, "x", "line");
        pccl_logger_set_callback(NULL, NULL);
        assert_int_equal(heard.count, i + 1);
        await_threads(before);
    }
}

/* ---- many threads log while others change the callback: each line finds a live one ---- */

enum { ROUNDS = 2000, LOGGERS = 3 };
struct target {
    atomic_bool live;
    atomic_int heard, late;
};

static void hit(pcclLogLevel_t level, const char *subsystem, const char *message, void *user)
{
    struct target *target = user;
    int lines = strcmp(subsystem, "log") == 0 ? (int)strtoul(message, NULL, 10) : 1; /* or how many were lost */
    atomic_fetch_add(atomic_load(&target->live) ? &target->heard : &target->late, lines);
}

static void *log_many(void *user)
{
    for (int i = 0; i < ROUNDS; i++)
        pccl_logger_print(PCCL_LOG_WARN, "x", "line %d", i);
    return NULL;
}

TEST_IN(no_line_reaches_a_removed_callback, quiet, NULL)
{
    static struct target targets[2];
    pthread_t loggers[LOGGERS];
    atomic_store(&targets[0].live, true);
    pccl_logger_set_callback(hit, &targets[0]);
    for (int i = 0; i < LOGGERS; i++)
        assert_int_equal(pthread_create(&loggers[i], NULL, log_many, NULL), 0);
    for (int i = 0; i < ROUNDS; i++) {
        struct target *next = &targets[(i + 1) % 2], *before = &targets[i % 2];
        atomic_store(&next->live, true);
        pccl_logger_set_callback(hit, next);
        atomic_store(&before->live, false);
    }
    for (int i = 0; i < LOGGERS; i++)
        assert_int_equal(pthread_join(loggers[i], NULL), 0);
    pccl_logger_set_callback(NULL, NULL);
    assert_int_equal(targets[0].late + targets[1].late, 0);
    assert_int_equal(targets[0].heard + targets[1].heard, ROUNDS * LOGGERS);
}

/* ---- standard error ---- */

/* Puts the writing end of a pipe in place of standard error. */
static int redirect(int pipe_ends[2], int flags)
{
    assert_int_equal(pipe(pipe_ends), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(fcntl(pipe_ends[i], F_SETFL, flags), 0);
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

TEST_IN(lines_go_to_standard_error, quiet, NULL)
{
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
TEST_IN(a_closed_pipe_does_not_kill, quiet, NULL)
{
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

static void remove_itself(pcclLogLevel_t level, const char *subsystem, const char *message, void *user)
{
    hear(level, subsystem, message, user);
    pccl_logger_set_callback(NULL, NULL);
}

/* The lines behind it are written to the place of all lines from then on. */
TEST_IN(a_callback_may_remove_itself, quiet, NULL)
{
    static struct heard heard;
    int ends[2];
    char text[256] = "";
    int kept = redirect(ends, 0);
    pccl_logger_set_callback(remove_itself, &heard);
    pccl_logger_write(PCCL_LOG_WARN, "x", "first");
    pccl_logger_write(PCCL_LOG_WARN, "x", "second");
    pccl_logger_set_callback(NULL, NULL);
    restore(kept);
    assert_int_equal(heard.count, 1);
    assert_string_equal(heard.message, "first");
    assert_true(read(ends[0], text, sizeof text - 1) > 0);
    assert_non_null(strstr(text, " pccl warn x second\n"));
    close(ends[0]);
    close(ends[1]);
}

TEST_IN(a_full_pipe_does_not_block, quiet, NULL)
{
    int ends[2];
    static char filler[4096];
    int kept = redirect(ends, O_NONBLOCK);
    while (write(ends[1], filler, sizeof filler) > 0) {
    }
    assert_int_equal(fcntl(ends[1], F_SETFL, 0), 0); /* blocking from now on */
    for (int i = 0; i < 100; i++)
        pccl_logger_write(PCCL_LOG_WARN, "peer", "does not fit");
    restore(kept);
    close(ends[0]);
    close(ends[1]);
}

static void hear_warnings(pcclLogLevel_t level, const char *subsystem, const char *message, void *user)
{
    if (level == pcclLogWarn)
        hear(level, subsystem, message, user);
}

TEST_IN(a_flood_of_events_leaves_room_for_a_warning, quiet, NULL)
{
    enum { FLOOD = 1100 };
    static struct heard heard;
    pccl_logger_set_callback(hear_warnings, &heard);
    pccl_logger_set_level(PCCL_LOG_INFO);
    for (int i = 0; i <= FLOOD; i++) {
        struct pccl_comm_log log = {0};
        pccl_comm_log_note(&log, i < FLOOD ? PCCL_LOG_INFO : PCCL_LOG_WARN, "line");
        pccl_comm_log_write(&log);
        pccl_logger_wait(20000); /* the queue is short */
    }
    assert_int_equal(heard.count, 1);
    pccl_logger_set_callback(NULL, NULL);
}

TEST_IN(levels_have_names, quiet, NULL)
{
    assert_string_equal(pccl_logger_level_name(PCCL_LOG_TRACE), "trace");
    assert_string_equal(pccl_logger_level_name(PCCL_LOG_ERROR), "error");
    assert_string_equal(pccl_logger_level_name((enum pccl_log_level)17), "?");
}

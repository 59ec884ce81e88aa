/*
 * A scripted peer over the public interface only. It reads one command a line from standard input
 * and writes one JSON object a line to standard output; harness.py is the other end. When standard
 * input ends the process ends at once.
 *
 *   <id>[&] [#<slot>] <verb> <arguments...>       the verbs: peer.c
 *
 * With & the command runs on a thread of its own, so that several can run at once. A slot is one
 * communicator. Answers: {"id":1,"event":"begin"} just before a call that may block,
 * {"id":1,"rc":0,"us":123,"at":<monotonic us>,...} after it. When it failed there are its "words",
 * the ids of those "lost", their "lost_count", the result as "failed", and "of":[<tag>,<sequence>]
 * for a launched reduction (none of it with the option mute: the communicator is gone when the call
 * ends). Log lines of the library come as {"log":<level>,"text":"..."}.
 */
#ifndef PCCL_TESTS_E2E_SCRIPT_H
#define PCCL_TESTS_E2E_SCRIPT_H

#include "values.h"

#include <pccl.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum { SLOTS = 40, OPS = 512, WORDS = 64 };

/* ---- output: one line, begun, added to and ended by one thread ---- */

struct line {
    char *text;
    size_t length;
    FILE *stream;
};

void add(struct line *line, const char *format, ...) __attribute__((format(printf, 2, 3)));
void add_text(struct line *line, const char *name, const char *text);
void begin_line(struct line *line);
void end_line(struct line *line);
uint64_t now_us(void);
/*
 * Whoever acts on an answer sees what its command did: to be called before a command is carried
 * out.
 */
void follow_answers(void);

/* ---- commands ---- */

struct operation {
    bool used;
    uint64_t tag;
    struct values values;
    pcclAsyncReduceOp_t handle;
};

struct slot {
    pthread_mutex_t lock;
    pcclComm_t *comm;
    struct operation operations[OPS];
    struct shared *shared; /* what states.c holds */
    atomic_bool stop;      /* the loop */
};

struct command {
    char *text; /* the words point into it */
    char *id;
    struct slot *slot;
    const char *verb;
    char *words[WORDS];
    int count;
    uint64_t begun_us;
};

struct slot *slot_of(uint64_t number);
/* Ends the process: the script is wrong. */
_Noreturn void bad_command(const struct command *command, const char *why);
const char *word(const struct command *command, int index);
uint64_t number(const struct command *command, int index);
/* "name" among the words, or "name=value". NULL: not there. */
const char *option(const struct command *command, const char *name);
/* Says that the call begins, and starts its clock. */
void begin(struct command *command);
/* Starts the answer; the caller adds to it and ends it. */
void answer(struct command *command, struct line *line, pcclResult_t result);
void answer_only(struct command *command, pcclResult_t result);
void add_attributes(struct line *line, const pcclComm_t *comm);
void forget_operations(struct slot *slot);
void forget_state(struct slot *slot);

void do_create(struct command *command);
void do_create10(struct command *command);
void do_connect(struct command *command);
void do_destroy(struct command *command);
void do_close(struct command *command);
void do_attributes(struct command *command);
void do_update(struct command *command);
void do_optimize(struct command *command);
void do_topology(struct command *command);
void do_report(struct command *command);
void do_pending(struct command *command);
void do_admit(struct command *command);
void do_leave(struct command *command);
void do_waits(struct command *command);
void do_record(struct command *command);
void do_verdicts(struct command *command);
void do_reduce(struct command *command);
void do_launch(struct command *command);
void do_await(struct command *command);
void do_multi(struct command *command);
void do_test(struct command *command);
void do_abort(struct command *command);
void do_flood(struct command *command);
void do_churn(struct command *command);
void do_loop(struct command *command);
void do_members(struct command *command);
void do_group(struct command *command);
void do_collect(struct command *command);
void do_run(struct command *command);
void do_mixed(struct command *command);
void do_unused(struct command *command);
void do_send(struct command *command);
void do_recv(struct command *command);
void do_sends(struct command *command);
void do_recvs(struct command *command);
void do_stream(struct command *command);
void do_pour(struct command *command);
void do_drain(struct command *command);
void do_stop(struct command *command);
void do_state(struct command *command);
void do_poke(struct command *command);
void do_digests(struct command *command);
void do_sync(struct command *command);
void do_train(struct command *command);

#endif

/*
 * A scripted peer that uses only the public interface. It reads one command per line from standard
 * input and writes one JSON object per line to standard output; harness.py is the other end. When
 * standard input ends, the process ends at once.
 *
 *   <id>[&] [#<slot>] <verb> <arguments...>       see peer.c for the verbs
 *
 * With & the command runs on a separate thread, so that several can run at once. A slot is one
 * communicator. Answers: {"id":1,"event":"begin"} just before a call that may block,
 * {"id":1,"rc":0,"us":123,"at":<monotonic us>,...} after it. A failed call adds the text ("words"),
 * the ids of the lost members ("lost"), their number ("lost_count"), the result ("failed"), and
 * "of":[<tag>,<sequence>] for a launched reduction (not with the option mute: the communicator no
 * longer exists when the call ends). Log lines of the library are {"log":<level>,"text":"..."}.
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
    size_t length, capacity;
};

void add(struct line *line, const char *format, ...) __attribute__((format(printf, 2, 3)));
void add_text(struct line *line, const char *name, const char *text);
void begin_line(struct line *line);
void end_line(struct line *line);
uint64_t now_us(void);
/*
 * Waits for the answer under way, so that a command follows the effects of earlier ones. Call before a command is
 * carried out.
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
    struct shared *shared; /* the state of states.c */
    atomic_bool stop;      /* stops the loop */
};

struct command {
    char *text; /* memory of the words */
    char *id;
    struct slot *slot;
    const char *verb;
    char *words[WORDS];
    int count;
    uint64_t begun_us;
};

struct slot *slot_of(uint64_t number);
/* Ends the process, because of an error in the script. */
_Noreturn void bad_command(const struct command *command, const char *why);
const char *word(const struct command *command, int index);
uint64_t number(const struct command *command, int index);
/* Returns the word "name", or the value of "name=value"; NULL if there is neither. */
const char *option(const struct command *command, const char *name);
/* Reports that the call begins, and starts its clock. */
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

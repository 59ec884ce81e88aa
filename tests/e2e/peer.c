/* The table of the scripted peer's verbs, and its main. */
#include "script.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 1 << 20 };

static struct slot slots[SLOTS];

static void on_log(pcclLogLevel_t level, const char *subsystem, const char *message, void *user)
{
    (void)user;
    struct line line;
    begin_line(&line);
    add(&line, "{\"log\":%d,\"at\":%" PRIu64, (int)level, now_us());
    add_text(&line, "subsystem", subsystem);
    add_text(&line, "text", message);
    end_line(&line);
}

#ifndef _WIN32
/* Forks a child that inherits everything, makes calls that it must not make, and then lives until it is killed. */
static void do_fork(struct command *command)
{
    pid_t pid = fork();
    if (pid > 0) {
        struct line line;
        answer(command, &line, pcclSuccess);
        add(&line, ",\"pid\":%d", (int)pid);
        end_line(&line);
        return;
    }
    pcclComm_t *comm = command->slot->comm;
    bool pending;
    int world;
    int32_t value = 1;
    pcclReduceDescriptor_t descriptor = {.count = 1, .tag = 77, .src_descriptor = {pcclInt32, pcclDistributionNone}};
    int results[] = {
        (int)pcclUpdateTopology(comm),
        (int)pcclArePeersPending(comm, &pending),
        (int)pcclAllReduce(&value, &value, &descriptor, comm, NULL),
        (int)pcclGetAttribute(comm, PCCL_ATTRIBUTE_GLOBAL_WORLD_SIZE, &world),
        (int)pcclConnect(comm),
    };
    struct line line;
    begin_line(&line);
    add(&line, "{\"child\":%d,\"results\":[", (int)getpid());
    for (size_t i = 0; i < sizeof results / sizeof *results; i++)
        add(&line, "%s%d", i > 0 ? "," : "", results[i]);
    add(&line, "]");
    add_text(&line, "words", pcclGetLastError(comm));
    end_line(&line);
    for (;;)
        pause();
}
#endif

/* Answers with the number of this process, which in Wine is not its number on Linux. */
static void do_ping(struct command *command)
{
    struct line line;
    answer(command, &line, pcclSuccess);
    add(&line, ",\"pid\":%d", (int)getpid());
    end_line(&line);
}

static const struct {
    const char *verb;
    void (*run)(struct command *command);
} verbs[] = {
    {"create", do_create}, {"create10", do_create10}, {"connect", do_connect},   {"destroy", do_destroy},
    {"close", do_close},   {"attr", do_attributes},   {"update", do_update},     {"pending", do_pending},
    {"admit", do_admit},   {"waits", do_waits},       {"reduce", do_reduce},     {"launch", do_launch},
    {"await", do_await},   {"multi", do_multi},       {"loop", do_loop},         {"stop", do_stop},
#ifndef _WIN32
    {"fork", do_fork},
#endif
    {"ping", do_ping},     {"test", do_test},         {"abort", do_abort},       {"churn", do_churn},
    {"flood", do_flood},   {"state", do_state},       {"poke", do_poke},         {"digests", do_digests},
    {"sync", do_sync},     {"train", do_train},       {"optimize", do_optimize}, {"topology", do_topology},
    {"report", do_report}, {"members", do_members},   {"collect", do_collect},   {"mixed", do_mixed},
    {"group", do_group},   {"run", do_run},           {"send", do_send},         {"recv", do_recv},
    {"stream", do_stream}, {"record", do_record},     {"verdicts", do_verdicts}, {"pour", do_pour},
    {"drain", do_drain},   {"unused", do_unused},     {"sends", do_sends},       {"recvs", do_recvs},
    {"leave", do_leave},
};

static void *run_command(void *argument)
{
    struct command *command = argument;
    command->begun_us = now_us();
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
        if (strcmp(verbs[i].verb, command->verb) != 0)
            continue;
        verbs[i].run(command);
        free(command->text);
        free(command);
        return NULL;
    }
    bad_command(command, "unknown");
    return NULL;
}

struct slot *slot_of(uint64_t number) { return &slots[number % SLOTS]; }

/* Parses a line. Returns NULL for an empty one. */
static struct command *parse(const char *text, bool *background)
{
    struct command *command = calloc(1, sizeof *command);
    if (command == NULL || (command->text = strdup(text)) == NULL)
        exit(3);
    char *rest = NULL;
    command->id = strtok_r(command->text, " \n", &rest);
    if (command->id == NULL) {
        free(command->text);
        free(command);
        return NULL;
    }
    size_t length = strlen(command->id);
    *background = command->id[length - 1] == '&';
    if (*background)
        command->id[length - 1] = 0;
    command->slot = &slots[0];
    char *next = strtok_r(NULL, " \n", &rest);
    if (next != NULL && next[0] == '#') {
        command->slot = slot_of(strtoul(next + 1, NULL, 10));
        next = strtok_r(NULL, " \n", &rest);
    }
    command->verb = next != NULL ? next : "";
    while (command->count < WORDS && (next = strtok_r(NULL, " \n", &rest)) != NULL)
        command->words[command->count++] = next;
    return command;
}

int main(void)
{
    static char text[LINE_MAX_BYTES];
    for (int i = 0; i < SLOTS; i++)
        pthread_mutex_init(&slots[i].lock, NULL);
    (void)pcclSetLogCallback(on_log, NULL);
    if (pcclInit() != pcclSuccess)
        return 3;
    while (fgets(text, sizeof text, stdin) != NULL) {
        bool background = false;
        follow_answers();
        struct command *command = parse(text, &background);
        if (command == NULL)
            continue;
        pthread_t thread;
        if (strcmp(command->verb, "quit") == 0) {
            for (int i = 0; i < SLOTS; i++) {
                if (slots[i].comm != NULL)
                    (void)pcclDestroyCommunicator(slots[i].comm);
                forget_operations(&slots[i]);
                forget_state(&slots[i]);
            }
            answer_only(&(struct command){.id = command->id, .slot = &slots[SLOTS - 1], .begun_us = now_us()},
                        pcclSuccess);
            free(command->text);
            free(command);
            return 0;
        }
        if (!background) {
            run_command(command);
        } else if (pthread_create(&thread, NULL, run_command, command) == 0) {
            pthread_detach(thread);
        } else {
            return 3;
        }
    }
    _Exit(2); /* the harness has ended */
}

/* The verbs for joining, leaving and the joint calls. */
#include "script.h"

#include <stdlib.h>
#include <string.h>

void do_create(struct command *command)
{
    pcclOptions_t *options = NULL;
    pcclResult_t result = pcclCreateOptions(&options);
    for (int i = 1; i < command->count && result == pcclSuccess; i++) {
        char *name = command->words[i], *equal = strchr(name, '=');
        if (equal == NULL)
            bad_command(command, "an option has no value");
        *equal = 0;
        result = pcclSetOption(options, name, equal + 1);
    }
    if (result == pcclSuccess)
        result = pcclCreateCommunicatorWithOptions(word(command, 0), options, &command->slot->comm);
    answer_only(command, result);
    (void)pcclDestroyOptions(options);
}

/* Creates a communicator as in PCCL 1.0: create10 PORT GROUP, on 127.0.0.1. */
void do_create10(struct command *command)
{
    pcclCommCreateParams_t params = {.peer_group = (uint32_t)number(command, 1), .p2p_connection_pool_size = 1};
    params.master_address.inet.protocol = inetIPv4;
    memcpy(params.master_address.inet.ipv4.data, (uint8_t[]){127, 0, 0, 1}, 4);
    params.master_address.port = (uint16_t)number(command, 0);
    answer_only(command, pcclCreateCommunicator(&params, &command->slot->comm));
}

void do_connect(struct command *command)
{
    begin(command);
    answer_only(command, pcclConnect(command->slot->comm));
}

void forget_operations(struct slot *slot)
{
    for (int i = 0; i < OPS; i++)
        if (slot->operations[i].used) {
            values_free(&slot->operations[i].values);
            slot->operations[i].used = false;
        }
}

void do_destroy(struct command *command)
{
    begin(command);
    pcclResult_t result = pcclDestroyCommunicator(command->slot->comm);
    command->slot->comm = NULL;
    forget_operations(command->slot);
    answer_only(command, result);
}

/* Closes only, as other threads may be about to make calls. */
void do_close(struct command *command) { answer_only(command, pcclCloseCommunicator(command->slot->comm)); }

void add_attributes(struct line *line, const pcclComm_t *comm)
{
    static const char *const names[] = {"world", "group", "groups", "largest", "world_now", "group_now"};
    for (int i = 0; i < 6; i++) {
        int value = -1;
        if (pcclGetAttribute(comm, (pcclAttribute_t)(i + 1), &value) == pcclSuccess)
            add(line, ",\"%s\":%d", names[i], value);
    }
}

void do_attributes(struct command *command)
{
    int value;
    struct line line;
    answer(command, &line, pcclGetAttribute(command->slot->comm, PCCL_ATTRIBUTE_GLOBAL_WORLD_SIZE, &value));
    add_attributes(&line, command->slot->comm);
    end_line(&line);
}

void do_update(struct command *command)
{
    begin(command);
    pcclResult_t result = pcclUpdateTopology(command->slot->comm);
    struct line line;
    answer(command, &line, result);
    add_attributes(&line, command->slot->comm);
    end_line(&line);
}

void do_leave(struct command *command) { answer_only(command, pcclDrain(command->slot->comm)); }

void do_optimize(struct command *command)
{
    const pcclComm_t *comm = command->slot->comm;
    begin(command);
    pcclResult_t result = pcclOptimizeTopology(comm);
    struct line line;
    answer(command, &line, result);
    if (option(command, "mute") == NULL)
        add_attributes(&line, comm);
    end_line(&line);
}

/* Answers the text of the topology in "text"; topology SIZE: with a buffer of this size, and "needed". */
void do_topology(struct command *command)
{
    size_t needed = 0, size = 0;
    const pcclComm_t *comm = command->slot->comm;
    begin(command);
    pcclResult_t result = pcclSuccess;
    if (command->count > 0)
        size = number(command, 0);
    else
        result = pcclGetTopology(comm, NULL, 0, &needed);
    size += needed > 0 ? needed + 4096 : 0; /* ages grow in length */
    char *text = calloc(1, size + 1);
    if (text == NULL)
        exit(3);
    if (result == pcclSuccess)
        result = pcclGetTopology(comm, size > 0 ? text : NULL, size, &needed);
    struct line line;
    answer(command, &line, result);
    add(&line, ",\"needed\":%zu", needed);
    add_text(&line, "text", text);
    end_line(&line);
    free(text);
}

/* report STEP LOSS */
void do_report(struct command *command)
{
    begin(command);
    double loss = strtod(command->words[1], NULL);
    pcclResult_t result = pcclReportTraining(command->slot->comm, number(command, 0), loss);
    struct line line;
    answer(command, &line, result);
    end_line(&line);
}

void do_pending(struct command *command)
{
    bool pending = false;
    begin(command);
    pcclResult_t result = pcclArePeersPending(command->slot->comm, &pending);
    struct line line;
    answer(command, &line, result);
    if (result == pcclSuccess)
        add(&line, ",\"pending\":%s", pending ? "true" : "false");
    end_line(&line);
}

/* Checks until a newcomer is pending, then admits, as every member does while newcomers arrive. admit [COUNT] */
void do_admit(struct command *command)
{
    uint64_t rounds = command->count > 0 ? number(command, 0) : 1;
    pcclResult_t result = pcclSuccess;
    begin(command);
    for (uint64_t i = 0; i < rounds && result == pcclSuccess; i++) {
        bool pending = false;
        while (result == pcclSuccess && !pending)
            result = pcclArePeersPending(command->slot->comm, &pending);
        if (result == pcclSuccess)
            result = pcclUpdateTopology(command->slot->comm);
    }
    struct line line;
    answer(command, &line, result);
    add_attributes(&line, command->slot->comm);
    end_line(&line);
}

void do_waits(struct command *command)
{
    char text[1024];
    struct line line;
    pcclResult_t result = pcclDescribeWaits(command->slot->comm, text, sizeof text);
    answer(command, &line, result);
    if (result == pcclSuccess)
        add_text(&line, "text", text);
    end_line(&line);
}

/* verdicts: answers the master's verdicts */
void do_verdicts(struct command *command)
{
    pcclVerdict_t verdicts[PCCL_VERDICTS_AT_ONCE];
    size_t count = 0;
    struct line line;
    pcclResult_t result = pcclGetVerdicts(command->slot->comm, verdicts, PCCL_VERDICTS_AT_ONCE, &count);
    answer(command, &line, result);
    if (result == pcclSuccess) {
        add(&line, ",\"verdicts\":[");
        for (size_t i = 0; i < count && i < PCCL_VERDICTS_AT_ONCE; i++) {
            add(&line, "%s{\"number\":%" PRIu64, i ? "," : "", verdicts[i].number);
            add_text(&line, "class", verdicts[i].name);
            add_text(&line, "peer", verdicts[i].peer.digits);
            add_text(&line, "other", verdicts[i].other.digits);
            add_text(&line, "evidence", verdicts[i].evidence);
            add_text(&line, "action", verdicts[i].action);
            add(&line, "}");
        }
        add(&line, "]");
    }
    end_line(&line);
}

/* record FILE: writes the flight recorder */
void do_record(struct command *command)
{
    begin(command);
    answer_only(command, pcclWriteFlightRecorder(command->slot->comm, word(command, 0)));
}

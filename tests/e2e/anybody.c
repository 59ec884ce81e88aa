/*
 * Verbs for receives from any member.
 *
 *   pour RANK COUNT   sends COUNT elements of 4 bytes to that member again and again, until stopped.
 *                     {"sent":...}
 *   drain COUNT       receives COUNT elements at a time from any member, until stopped; the death of a
 *                     sender does not end it. {"right":...,"lost_receives":...}. Event, for each receive:
 *     step            {"right":...,"from":ID}
 */
#include "script.h"

#include <stdlib.h>
#include <string.h>

enum { IN_FLIGHT = 4, TAG = 6, SOURCES_MAX = 64 };

/* Fills the k-th send of a peer with the numbers from k on. */
static void fill(uint32_t *elements, size_t count, uint32_t first)
{
    for (size_t i = 0; i < count; i++)
        elements[i] = first + (uint32_t)i;
}

static bool is_filled(const uint32_t *elements, size_t count, uint32_t first)
{
    for (size_t i = 0; i < count; i++)
        if (elements[i] != first + (uint32_t)i)
            return false;
    return true;
}

static uint32_t *allocate(size_t count)
{
    uint32_t *elements = calloc(count, sizeof *elements);
    if (elements == NULL)
        exit(3);
    return elements;
}

/* ---- pour ---- */

void do_pour(struct command *command)
{
    pcclPeerId_t members[SOURCES_MAX]; /* members at the beginning; others may leave */
    pcclAsyncReduceOp_t handles[IN_FLIGHT];
    uint32_t *elements[IN_FLIGHT], sent = 0, awaited = 0, self;
    size_t member_count, count = number(command, 1);
    pcclComm_t *comm = command->slot->comm;
    pcclCollectiveOptions_t options = PCCL_COLLECTIVE_OPTIONS_INIT;
    pcclResult_t result = pcclGetMembers(comm, members, SOURCES_MAX, &member_count, &self);
    options.tag = TAG;
    options.members = members;
    options.member_count = (uint32_t)member_count;
    for (int i = 0; i < IN_FLIGHT; i++)
        elements[i] = allocate(count);
    atomic_store(&command->slot->stop, false);
    begin(command);
    while (result == pcclSuccess && (awaited < sent || !atomic_load(&command->slot->stop))) {
        bool stops = atomic_load(&command->slot->stop);
        if (!stops && sent < awaited + IN_FLIGHT) {
            fill(elements[sent % IN_FLIGHT], count, sent);
            result = pcclSendAsync(elements[sent % IN_FLIGHT], count, pcclUint32, (uint32_t)number(command, 0),
                                   &options, comm, &handles[sent % IN_FLIGHT]);
            sent += result == pcclSuccess;
        } else {
            result = pcclAwaitOperation(&handles[awaited++ % IN_FLIGHT], UINT32_MAX, NULL);
        }
    }
    struct line line;
    answer(command, &line, result);
    while (awaited < sent) {
        pcclResult_t unwanted = pcclAwaitOperation(&handles[awaited++ % IN_FLIGHT], UINT32_MAX, NULL);
        (void)unwanted;
    }
    add(&line, ",\"sent\":%u", sent);
    end_line(&line);
    for (int i = 0; i < IN_FLIGHT; i++)
        free(elements[i]);
}

/* ---- drain ---- */

struct source {
    pcclPeerId_t id;
    uint32_t next;
};

struct drain {
    struct command *command;
    size_t count;
    struct source sources[SOURCES_MAX];
    uint32_t source_count;
    uint64_t steps, losses;
    bool right;
    uint32_t *elements[IN_FLIGHT];
    pcclAsyncReduceOp_t handles[IN_FLIGHT];
    uint64_t launched, awaited;
};

static struct source *source_of(struct drain *drain, const pcclPeerId_t *id)
{
    for (uint32_t i = 0; i < drain->source_count; i++)
        if (strcmp(drain->sources[i].id.digits, id->digits) == 0)
            return &drain->sources[i];
    if (drain->source_count == SOURCES_MAX)
        exit(3);
    drain->sources[drain->source_count].id = *id;
    return &drain->sources[drain->source_count++];
}

static void take(struct drain *drain, const uint32_t *elements, const pcclPeerId_t *from)
{
    struct line line;
    struct source *source = source_of(drain, from);
    drain->right = is_filled(elements, drain->count, source->next++) && drain->right;
    begin_line(&line);
    add(&line, "{\"id\":%s,\"event\":\"step\",\"step\":%" PRIu64 ",\"at\":%" PRIu64 ",\"right\":%s,\"from\":\"%s\"",
        drain->command->id, drain->steps++, now_us(), drain->right ? "true" : "false", from->digits);
    end_line(&line);
}

static pcclResult_t launch(struct drain *drain)
{
    pcclCollectiveOptions_t options = PCCL_COLLECTIVE_OPTIONS_INIT;
    uint64_t place = drain->launched % IN_FLIGHT;
    options.tag = TAG;
    pcclResult_t result = pcclRecvAsync(drain->elements[place], drain->count, pcclUint32, PCCL_ANY_PEER, &options,
                                        drain->command->slot->comm, &drain->handles[place]);
    drain->launched += result == pcclSuccess;
    if (result == pcclSuccess && atomic_load(&drain->command->slot->stop)) /* the abort may have arrived first */
        result = pcclAbortOperations(drain->command->slot->comm);
    return result;
}

static pcclResult_t await(struct drain *drain)
{
    pcclPeerId_t ids[2];
    pcclOperationInfo_t info = PCCL_OPERATION_INFO_INIT;
    uint64_t place = drain->awaited++ % IN_FLIGHT;
    info.participants = ids;
    info.participants_max = 2;
    pcclResult_t result = pcclAwaitOperation(&drain->handles[place], UINT32_MAX, &info);
    if (result == pcclSuccess)
        take(drain, drain->elements[place], &ids[0]);
    if (result == pcclRankConnectionLost && !atomic_load(&drain->command->slot->stop)) {
        drain->losses++; /* the sender has died */
        result = pcclSuccess;
    }
    return result;
}

void do_drain(struct command *command)
{
    struct drain *drain = calloc(1, sizeof *drain);
    if (drain == NULL)
        exit(3);
    drain->command = command;
    drain->count = number(command, 0);
    drain->right = true;
    for (int i = 0; i < IN_FLIGHT; i++)
        drain->elements[i] = allocate(drain->count);
    atomic_store(&command->slot->stop, false);
    begin(command);
    pcclResult_t result = pcclSuccess;
    while (result == pcclSuccess) {
        while (result == pcclSuccess && drain->launched < drain->awaited + IN_FLIGHT)
            result = launch(drain);
        if (result == pcclSuccess)
            result = await(drain);
    }
    bool stopped = atomic_load(&command->slot->stop);
    struct line line;
    answer(command, &line, stopped ? pcclSuccess : result);
    while (drain->awaited < drain->launched) {
        pcclResult_t unwanted = pcclAwaitOperation(&drain->handles[drain->awaited++ % IN_FLIGHT], UINT32_MAX, NULL);
        (void)unwanted;
    }
    add(&line, ",\"right\":%s,\"lost_receives\":%" PRIu64, drain->right ? "true" : "false", drain->losses);
    end_line(&line);
    for (int i = 0; i < IN_FLIGHT; i++)
        free(drain->elements[i]);
    free(drain);
}

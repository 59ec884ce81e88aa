/*
 * loop BIT TAGS COUNT IN_FLIGHT: admit newcomers, agree on the step, reduce with retry, report; until stopped. With
 * IN_FLIGHT 0 the retry is made here, and each round of it that fails is reported. Each peer adds 1 << BIT in element 0
 * and the same numbers elsewhere, so the result tells who took part in it and whether it is right. Newcomers learn the
 * step by a maximum over all, which stands in for the shared state.
 */
#include "script.h"

#include <stdlib.h>
#include <time.h>

struct loop {
    struct command *command;
    pcclComm_t *comm;
    uint64_t bit, tags, count, step;
    int in_flight;
    bool joined; /* just now: the others are past their topology update too */
    bool fresh;  /* the membership has changed: agree on the step */
    int64_t *send, *recv;
    pcclReduceOpDescriptor_t *entries;
};

/* Every element must be k times what one peer gave, k being the number of bits in element 0. 0: it is not. */
static uint64_t check_entry(const struct loop *loop, uint64_t tag)
{
    const int64_t *result = loop->recv + tag * loop->count;
    int64_t peers = __builtin_popcountll((uint64_t)result[0]);
    for (uint64_t i = 1; i < loop->count; i++)
        if (result[i] != peers * (int64_t)(loop->step * 7 + tag + i))
            return 0;
    return (uint64_t)result[0];
}

static pcclResult_t agree_on_step(struct loop *loop)
{
    pcclReduceDescriptor_t descriptor = {
        .count = 1, .op = pcclMax, .tag = 1, .src_descriptor = {pcclUint64, pcclDistributionNone}};
    pcclResult_t result;
    uint64_t step = loop->step;
    do {
        result = pcclAllReduce(&loop->step, &step, &descriptor, loop->comm, NULL);
    } while (result == pcclRankConnectionLost);
    if (result == pcclSuccess) {
        loop->step = step;
        loop->fresh = false;
    }
    return result;
}

static void report_step(const struct loop *loop, uint64_t start_us, const pcclReduceInfo_t *info)
{
    struct line line;
    uint64_t mask_all = ~UINT64_C(0), mask_any = 0;
    bool right = true;
    for (uint64_t tag = 0; tag < loop->tags; tag++) {
        uint64_t mask = check_entry(loop, tag);
        right = right && (mask >> loop->bit & 1) != 0;
        mask_all &= mask;
        mask_any |= mask;
    }
    uint64_t end_us = now_us();
    begin_line(&line);
    add(&line,
        "{\"id\":%s,\"event\":\"step\",\"step\":%" PRIu64 ",\"world\":%u,\"right\":%s,\"all\":%" PRIu64
        ",\"any\":%" PRIu64 ",\"us\":%" PRIu64 ",\"at\":%" PRIu64 ",\"digest\":\"%016" PRIx64 "\"",
        loop->command->id, loop->step, info->local_world_size, right ? "true" : "false", mask_all, mask_any,
        end_us - start_us, end_us, values_digest(loop->recv, loop->tags * loop->count * sizeof *loop->recv, 0));
    end_line(&line);
}

static void report_failure(const struct loop *loop, uint64_t failed)
{
    struct line line;
    uint64_t at_us = now_us();
    begin_line(&line);
    add(&line, "{\"id\":%s,\"event\":\"failed\",\"step\":%" PRIu64 ",\"failed\":%" PRIu64 ",\"at\":%" PRIu64,
        loop->command->id, loop->step, failed, at_us);
    add_text(&line, "words", pcclGetLastError(loop->comm));
    end_line(&line);
}

/* All at once, and those that failed again, as long as a retry may help. */
static pcclResult_t reduce_by_hand(struct loop *loop, pcclReduceInfo_t *info)
{
    pcclResult_t result = pcclSuccess;
    uint64_t missing = loop->tags;
    bool *done = calloc(loop->tags, sizeof *done);
    pcclAsyncReduceOp_t *handles = calloc(loop->tags, sizeof *handles);
    if (done == NULL || handles == NULL)
        exit(3);
    while (missing > 0 && result == pcclSuccess) {
        uint64_t failed = 0;
        for (uint64_t tag = 0; tag < loop->tags && result == pcclSuccess; tag++) {
            pcclReduceOpDescriptor_t *entry = &loop->entries[tag];
            handles[tag].comm = NULL;
            if (!done[tag])
                result =
                    pcclAllReduceAsync(entry->sendbuf, entry->recvbuf, &entry->descriptor, loop->comm, &handles[tag]);
        }
        for (uint64_t tag = 0; tag < loop->tags; tag++) {
            if (done[tag] || handles[tag].comm == NULL)
                continue;
            pcclResult_t awaited = pcclAwaitAsyncReduce(&handles[tag], info);
            done[tag] = awaited == pcclSuccess;
            failed += awaited == pcclRankConnectionLost;
            missing -= done[tag];
            if (awaited != pcclSuccess && awaited != pcclRankConnectionLost)
                result = awaited;
        }
        if (failed > 0)
            report_failure(loop, failed);
    }
    free(handles);
    free(done);
    return result;
}

static pcclResult_t reduce_step(struct loop *loop)
{
    uint64_t start_us = now_us();
    pcclReduceInfo_t info = {0};
    for (uint64_t tag = 0; tag < loop->tags; tag++) {
        int64_t *send = loop->send + tag * loop->count;
        send[0] = (int64_t)(UINT64_C(1) << loop->bit);
        for (uint64_t i = 1; i < loop->count; i++)
            send[i] = (int64_t)(loop->step * 7 + tag + i);
    }
    pcclResult_t result = loop->in_flight == 0 ? reduce_by_hand(loop, &info)
                                               : pcclAllReduceMultipleWithRetry(loop->entries, loop->tags, loop->comm,
                                                                                &info, loop->in_flight);
    if (result == pcclSuccess) {
        report_step(loop, start_us, &info);
        loop->step++;
    }
    return result;
}

/* One turn. TooFewPeers is no failure: the step is dropped. */
static pcclResult_t turn(struct loop *loop)
{
    bool pending = false;
    int group = 0;
    pcclResult_t result = loop->joined ? pcclSuccess : pcclArePeersPending(loop->comm, &pending);
    loop->joined = false;
    if (result == pcclSuccess && pending) {
        result = pcclUpdateTopology(loop->comm);
        loop->fresh = true;
    }
    if (result == pcclSuccess)
        result = pcclGetAttribute(loop->comm, PCCL_ATTRIBUTE_PEER_GROUP_WORLD_SIZE, &group);
    if (result == pcclSuccess && group < 2) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL); /* alone: no hurry */
        return result;
    }
    if (result == pcclSuccess && loop->fresh)
        result = agree_on_step(loop);
    if (result == pcclSuccess)
        result = reduce_step(loop);
    return result == pcclTooFewPeers ? pcclSuccess : result;
}

void do_loop(struct command *command)
{
    struct loop loop = {.command = command,
                        .comm = command->slot->comm,
                        .bit = number(command, 0),
                        .tags = number(command, 1),
                        .count = number(command, 2),
                        .in_flight = (int)number(command, 3),
                        .joined = true,
                        .fresh = true};
    loop.send = calloc(loop.tags * loop.count, sizeof *loop.send);
    loop.recv = calloc(loop.tags * loop.count, sizeof *loop.recv);
    loop.entries = calloc(loop.tags, sizeof *loop.entries);
    if (loop.send == NULL || loop.recv == NULL || loop.entries == NULL)
        exit(3);
    for (uint64_t tag = 0; tag < loop.tags; tag++)
        loop.entries[tag] =
            (pcclReduceOpDescriptor_t){.sendbuf = loop.send + tag * loop.count,
                                       .recvbuf = loop.recv + tag * loop.count,
                                       .descriptor = {.count = loop.count,
                                                      .op = pcclSum,
                                                      .tag = 100 + tag,
                                                      .src_descriptor = {pcclInt64, pcclDistributionNone}}};
    pcclResult_t result = pcclSuccess;
    begin(command);
    while (result == pcclSuccess && !atomic_load(&command->slot->stop))
        result = turn(&loop);
    struct line line;
    answer(command, &line, result);
    add(&line, ",\"step\":%" PRIu64, loop.step);
    add_attributes(&line, loop.comm);
    end_line(&line);
    free(loop.send);
    free(loop.recv);
    free(loop.entries);
}

void do_stop(struct command *command)
{
    atomic_store(&command->slot->stop, true);
    answer_only(command, pcclSuccess);
}

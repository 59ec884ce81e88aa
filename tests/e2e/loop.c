/*
 * loop BIT TAGS COUNT IN_FLIGHT: admit newcomers, agree on the step, reduce with retry, report; until stopped. With
 * IN_FLIGHT 0 the retry is made here, and each failed round is reported; with the option blocking, each operation is a
 * blocking call, whose caller moves its data. Each peer adds 1 << BIT in element 0 and the same numbers elsewhere, so
 * the result shows its contributors and whether it is right. Newcomers get the step by a maximum over all members, in
 * place of the shared state.
 */
#include "loop.h"

#include <stdlib.h>
#include <time.h>

struct sums {
    struct loop loop; /* must be the first member */
    uint64_t bit, tags, count;
    int in_flight;
    bool blocking;
    int64_t *send, *recv;
    pcclReduceOpDescriptor_t *entries;
};

/*
 * Returns element 0, whose bits are the contributors, or 0 if some element is not k times a peer's, where k is the
 * number of contributors.
 */
static uint64_t check_entry(const struct sums *sums, uint64_t tag)
{
    const int64_t *result = sums->recv + tag * sums->count;
    int64_t peers = __builtin_popcountll((uint64_t)result[0]);
    for (uint64_t i = 1; i < sums->count; i++)
        if (result[i] != peers * (int64_t)(sums->loop.step * 7 + tag + i))
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

static void report_step(const struct sums *sums, uint64_t start_us, const pcclReduceInfo_t *info)
{
    struct line line;
    uint64_t mask_all = ~UINT64_C(0), mask_any = 0;
    bool right = true;
    for (uint64_t tag = 0; tag < sums->tags; tag++) {
        uint64_t mask = check_entry(sums, tag);
        right = right && (mask >> sums->bit & 1) != 0;
        mask_all &= mask;
        mask_any |= mask;
    }
    uint64_t end_us = now_us();
    begin_line(&line);
    add(&line,
        "{\"id\":%s,\"event\":\"step\",\"step\":%" PRIu64 ",\"world\":%u,\"right\":%s,\"all\":%" PRIu64
        ",\"any\":%" PRIu64 ",\"us\":%" PRIu64 ",\"at\":%" PRIu64 ",\"digest\":\"%016" PRIx64 "\"",
        sums->loop.command->id, sums->loop.step, info->local_world_size, right ? "true" : "false", mask_all, mask_any,
        end_us - start_us, end_us, values_digest(sums->recv, sums->tags * sums->count * sizeof *sums->recv, 0));
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

/* Launches all, and failed ones again, as long as a retry may help. */
static pcclResult_t reduce_by_hand(struct sums *sums, pcclReduceInfo_t *info)
{
    pcclResult_t result = pcclSuccess;
    uint64_t missing = sums->tags;
    bool *done = calloc(sums->tags, sizeof *done);
    pcclAsyncReduceOp_t *handles = calloc(sums->tags, sizeof *handles);
    if (done == NULL || handles == NULL)
        exit(3);
    while (missing > 0 && result == pcclSuccess) {
        uint64_t failed = 0;
        for (uint64_t tag = 0; tag < sums->tags && result == pcclSuccess; tag++) {
            pcclReduceOpDescriptor_t *entry = &sums->entries[tag];
            handles[tag].comm = NULL;
            if (!done[tag])
                result = pcclAllReduceAsync(entry->sendbuf, entry->recvbuf, &entry->descriptor, sums->loop.comm,
                                            &handles[tag]);
        }
        for (uint64_t tag = 0; tag < sums->tags; tag++) {
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
            report_failure(&sums->loop, failed);
    }
    free(handles);
    free(done);
    return result;
}

/* Makes one blocking call after the other, each until it succeeds. */
static pcclResult_t reduce_blocking(const struct sums *sums, pcclReduceInfo_t *info)
{
    pcclResult_t result = pcclSuccess;
    for (uint64_t tag = 0; tag < sums->tags && result == pcclSuccess; tag++) {
        pcclReduceOpDescriptor_t *entry = &sums->entries[tag];
        while ((result = pcclAllReduce(entry->sendbuf, entry->recvbuf, &entry->descriptor, sums->loop.comm, info)) ==
               pcclRankConnectionLost)
            report_failure(&sums->loop, 1);
    }
    return result;
}

static pcclResult_t make_sums(struct loop *loop)
{
    struct sums *sums = (struct sums *)loop;
    uint64_t start_us = now_us();
    pcclReduceInfo_t info = {0};
    for (uint64_t tag = 0; tag < sums->tags; tag++) {
        int64_t *send = sums->send + tag * sums->count;
        send[0] = (int64_t)(UINT64_C(1) << sums->bit);
        for (uint64_t i = 1; i < sums->count; i++)
            send[i] = (int64_t)(loop->step * 7 + tag + i);
    }
    pcclResult_t result;
    if (sums->blocking)
        result = reduce_blocking(sums, &info);
    else if (sums->in_flight == 0)
        result = reduce_by_hand(sums, &info);
    else
        result = pcclAllReduceMultipleWithRetry(sums->entries, sums->tags, loop->comm, &info, sums->in_flight);
    if (result == pcclSuccess)
        report_step(sums, start_us, &info);
    return result;
}

/* Makes one turn. TooFewPeers is no failure: the step is dropped. */
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
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL); /* alone: need not hurry */
        return result;
    }
    if (result == pcclSuccess && loop->fresh)
        result = agree_on_step(loop);
    if (result == pcclSuccess)
        result = loop->make(loop);
    if (result == pcclSuccess)
        loop->step++;
    return result == pcclTooFewPeers ? pcclSuccess : result;
}

void run_loop(struct loop *loop)
{
    pcclResult_t result = pcclSuccess;
    begin(loop->command);
    while (result == pcclSuccess && !atomic_load(&loop->command->slot->stop))
        result = turn(loop);
    struct line line;
    answer(loop->command, &line, result);
    add(&line, ",\"step\":%" PRIu64, loop->step);
    add_attributes(&line, loop->comm);
    end_line(&line);
}

void do_loop(struct command *command)
{
    struct sums sums = {
        .loop = {.command = command, .comm = command->slot->comm, .joined = true, .fresh = true, .make = make_sums},
        .bit = number(command, 0),
        .tags = number(command, 1),
        .count = number(command, 2),
        .in_flight = (int)number(command, 3),
        .blocking = option(command, "blocking") != NULL};
    sums.send = calloc(sums.tags * sums.count, sizeof *sums.send);
    sums.recv = calloc(sums.tags * sums.count, sizeof *sums.recv);
    sums.entries = calloc(sums.tags, sizeof *sums.entries);
    if (sums.send == NULL || sums.recv == NULL || sums.entries == NULL)
        exit(3);
    for (uint64_t tag = 0; tag < sums.tags; tag++)
        sums.entries[tag] =
            (pcclReduceOpDescriptor_t){.sendbuf = sums.send + tag * sums.count,
                                       .recvbuf = sums.recv + tag * sums.count,
                                       .descriptor = {.count = sums.count,
                                                      .op = pcclSum,
                                                      .tag = 100 + tag,
                                                      .src_descriptor = {pcclInt64, pcclDistributionNone}}};
    run_loop(&sums.loop);
    free(sums.send);
    free(sums.recv);
    free(sums.entries);
}

void do_stop(struct command *command)
{
    atomic_store(&command->slot->stop, true);
    answer_only(command, pcclSuccess);
}

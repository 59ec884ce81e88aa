/*
 * Verbs for sends and receives.
 *
 *   send RANK TAG COUNT FIRST   sends COUNT elements of 4 bytes to that member, counting from FIRST
 *   recv RANK TAG COUNT         receives from that member, or from "any". {"first":FIRST,"right":...}
 *   sends RANK TAG COUNT MANY   makes MANY sends of the same COUNT elements, all in flight at once
 *   recvs RANK TAG COUNT MANY   makes MANY receives, all in flight at once. {"right":...}
 *   stream RANK SEED COUNT      transfers both ways between this peer and that member, in turns of
 *                               several transfers of one tag, of up to COUNT elements, drawn by the
 *                               seed. Ends for both when one of them is stopped. Event:
 *     step     {"right":...}
 */
#include "script.h"

#include <stdlib.h>
#include <string.h>

enum { IN_FLIGHT = 3, STREAM_TAG = 5, TINY = 100, MEMBERS_MAX = 64 };

struct transfer {
    bool sends, launched;
    size_t count;
    uint32_t *elements, first;
    pcclAsyncReduceOp_t handle;
};

static void make(struct transfer *transfer)
{
    transfer->elements = calloc(transfer->count + 1, sizeof *transfer->elements);
    if (transfer->elements == NULL)
        exit(3);
    for (size_t i = 0; i < transfer->count && transfer->sends; i++)
        transfer->elements[i] = transfer->first + (uint32_t)i;
}

static bool is_right(const struct transfer *transfer, uint32_t first)
{
    for (size_t i = 0; i < transfer->count; i++)
        if (transfer->elements[i] != first + (uint32_t)i)
            return false;
    return true;
}

static pcclResult_t launch(struct transfer *transfer, uint32_t rank, const pcclCollectiveOptions_t *options,
                           const pcclComm_t *comm)
{
    pcclResult_t result =
        transfer->sends
            ? pcclSendAsync(transfer->elements, transfer->count, pcclUint32, rank, options, comm, &transfer->handle)
            : pcclRecvAsync(transfer->elements, transfer->count, pcclUint32, rank, options, comm, &transfer->handle);
    transfer->launched = result == pcclSuccess;
    return result;
}

static void transfer_one(struct command *command, bool sends)
{
    pcclCollectiveOptions_t options = PCCL_COLLECTIVE_OPTIONS_INIT;
    struct transfer transfer = {.sends = sends, .count = number(command, 2)};
    transfer.first = sends ? (uint32_t)number(command, 3) : 0;
    options.tag = number(command, 1);
    make(&transfer);
    bool anybody = !sends && strcmp(word(command, 0), "any") == 0;
    uint32_t rank = anybody ? PCCL_ANY_PEER : (uint32_t)number(command, 0);
    pcclResult_t result = launch(&transfer, rank, &options, command->slot->comm);
    begin(command);
    if (result == pcclSuccess)
        result = pcclAwaitOperation(&transfer.handle, UINT32_MAX, NULL);
    struct line line;
    answer(command, &line, result);
    uint32_t first = sends ? transfer.first : transfer.elements[0];
    add(&line, ",\"first\":%u,\"right\":%s", first, is_right(&transfer, first) ? "true" : "false");
    end_line(&line);
    free(transfer.elements);
}

void do_send(struct command *command) { transfer_one(command, true); }

void do_recv(struct command *command) { transfer_one(command, false); }

static void transfer_many(struct command *command, bool sends)
{
    pcclCollectiveOptions_t options = PCCL_COLLECTIVE_OPTIONS_INIT;
    struct transfer one = {.sends = sends, .count = number(command, 2)};
    size_t many = number(command, 3), launched = 0;
    struct transfer *transfers = calloc(many, sizeof *transfers);
    if (transfers == NULL)
        exit(3);
    options.tag = number(command, 1);
    pcclResult_t result = pcclSuccess, awaited;
    make(&one);
    for (; launched < many && result == pcclSuccess; launched++) {
        transfers[launched] = one;
        if (!sends)
            make(&transfers[launched]);
        result = launch(&transfers[launched], (uint32_t)number(command, 0), &options, command->slot->comm);
    }
    begin(command);
    bool right = true;
    for (size_t i = 0; i < launched; i++) {
        awaited = transfers[i].launched ? pcclAwaitOperation(&transfers[i].handle, UINT32_MAX, NULL) : result;
        result = result == pcclSuccess ? awaited : result;
        right = right && is_right(&transfers[i], 0);
        if (!sends)
            free(transfers[i].elements);
    }
    struct line line;
    answer(command, &line, result);
    add(&line, ",\"right\":%s", right ? "true" : "false");
    end_line(&line);
    free(one.elements);
    free(transfers);
}

void do_sends(struct command *command) { transfer_many(command, true); }

void do_recvs(struct command *command) { transfer_many(command, false); }

/* ---- streams ---- */

struct stream {
    struct command *command;
    uint32_t self, other;
    uint64_t seed, count_max, turn;
    pcclCollectiveOptions_t options;
    pcclPeerId_t members[MEMBERS_MAX]; /* members at the beginning; others may leave */
    bool right, last;
};

static uint64_t draw(const struct stream *stream, uint32_t source, uint64_t index)
{
    const uint64_t of[] = {stream->seed, stream->turn, source, index};
    return values_digest(of, sizeof of, 0);
}

/* Prepares a transfer. The lowest bit of its first element marks the last turn. */
static void prepare(const struct stream *stream, struct transfer *transfer, uint64_t index, bool last)
{
    uint64_t drawn = draw(stream, transfer->sends ? stream->self : stream->other, index);
    transfer->count = 1 + (drawn >> 32) % (drawn & 1 ? stream->count_max : TINY);
    transfer->first = ((uint32_t)drawn & ~UINT32_C(1)) + last;
    make(transfer);
}

static pcclResult_t await_all(struct stream *stream, struct transfer transfers[2 * IN_FLIGHT])
{
    pcclResult_t result = pcclSuccess;
    for (int i = 0; i < 2 * IN_FLIGHT; i++) {
        struct transfer *transfer = &transfers[i];
        pcclResult_t awaited =
            transfer->launched ? pcclAwaitOperation(&transfer->handle, UINT32_MAX, NULL) : pcclSuccess;
        uint32_t ends = transfer->sends ? 0 : transfer->elements[0] & 1;
        if (transfer->sends || (transfer->launched && awaited == pcclSuccess))
            stream->right = is_right(transfer, transfer->first + ends) && stream->right;
        stream->last = stream->last || (awaited == pcclSuccess && ends != 0);
        if (awaited != pcclSuccess)
            result = awaited;
        free(transfer->elements);
    }
    return result;
}

/* Launches all transfers of a turn, in another order than the other peer. */
static pcclResult_t take_turn(struct stream *stream)
{
    struct transfer transfers[2 * IN_FLIGHT] = {0};
    pcclResult_t result = pcclSuccess;
    stream->last = atomic_load(&stream->command->slot->stop);
    for (int i = 0; i < 2 * IN_FLIGHT; i++) {
        transfers[i].sends = (i < IN_FLIGHT) == (stream->self < stream->other);
        prepare(stream, &transfers[i], (uint64_t)i % IN_FLIGHT, transfers[i].sends && stream->last);
    }
    for (int i = 0; i < 2 * IN_FLIGHT && result == pcclSuccess; i++)
        result = launch(&transfers[i], stream->other, &stream->options, stream->command->slot->comm);
    pcclResult_t awaited = await_all(stream, transfers);
    return result != pcclSuccess ? result : awaited;
}

static void report_turn(const struct stream *stream)
{
    struct line line;
    begin_line(&line);
    add(&line, "{\"id\":%s,\"event\":\"step\",\"step\":%" PRIu64 ",\"at\":%" PRIu64 ",\"right\":%s",
        stream->command->id, stream->turn, now_us(), stream->right ? "true" : "false");
    end_line(&line);
}

void do_stream(struct command *command)
{
    struct stream stream = {.command = command,
                            .other = (uint32_t)number(command, 0),
                            .seed = number(command, 1),
                            .count_max = number(command, 2),
                            .right = true};
    size_t count = 0;
    stream.options = (pcclCollectiveOptions_t)PCCL_COLLECTIVE_OPTIONS_INIT;
    pcclResult_t result = pcclGetMembers(command->slot->comm, stream.members, MEMBERS_MAX, &count, &stream.self);
    stream.options.tag = STREAM_TAG;
    stream.options.members = stream.members;
    stream.options.member_count = (uint32_t)count;
    atomic_store(&command->slot->stop, false);
    begin(command);
    for (; result == pcclSuccess && !stream.last; stream.turn++) {
        result = take_turn(&stream);
        if (result == pcclSuccess)
            report_turn(&stream);
    }
    struct line line;
    answer(command, &line, result);
    add(&line, ",\"right\":%s", stream.right ? "true" : "false");
    end_line(&line);
}

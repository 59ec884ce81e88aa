/* The verbs that launch and await reductions. */
#include "script.h"

#include <stdlib.h>
#include <string.h>

static struct operation *find_operation(struct slot *slot, uint64_t tag, bool create)
{
    struct operation *found = NULL;
    pthread_mutex_lock(&slot->lock);
    for (int i = 0; i < OPS && found == NULL; i++)
        if (slot->operations[i].used && slot->operations[i].tag == tag)
            found = &slot->operations[i];
    for (int i = 0; i < OPS && found == NULL && create; i++)
        if (!slot->operations[i].used) {
            found = &slot->operations[i];
            found->used = true;
            found->tag = tag;
        }
    pthread_mutex_unlock(&slot->lock);
    return found;
}

static void release_operation(struct slot *slot, struct operation *operation)
{
    values_free(&operation->values);
    pthread_mutex_lock(&slot->lock);
    operation->used = false;
    pthread_mutex_unlock(&slot->lock);
}

/* TAG COUNT DTYPE OP PATTERN, from word `first` on, the tag `index` higher; options inplace, quant=ALGORITHM:DTYPE */
static void parse_reduction(const struct command *command, int first, uint64_t index,
                            pcclReduceDescriptor_t *descriptor, struct values *values)
{
    *descriptor = (pcclReduceDescriptor_t){.count = number(command, first + 1), .tag = number(command, first) + index};
    int type = values_type(word(command, first + 2)), op = values_op(word(command, first + 3));
    if (type < 0 || op < 0)
        bad_command(command, "unknown data type or operation");
    descriptor->op = (pcclRedOp_t)op;
    descriptor->src_descriptor.datatype = (pcclDataType_t)type;
    const char *quant = option(command, "quant");
    if (quant != NULL) {
        descriptor->quantization_options.algorithm = (pcclQuantizationAlgorithm_t)strtoul(quant, NULL, 0);
        const char *colon = strchr(quant, ':');
        int quantized = colon == NULL ? -1 : values_type(colon + 1);
        descriptor->quantization_options.quantized_datatype = (pcclDataType_t)(quantized < 0 ? 0 : quantized);
    }
    struct values_wish wish = {.type = type,
                               .op = op,
                               .count = descriptor->count,
                               .pattern = word(command, first + 4),
                               .salt = descriptor->tag,
                               .in_place = option(command, "inplace") != NULL,
                               .rough = quant != NULL};
    if (!values_make(values, &wish))
        bad_command(command, "bad pattern");
}

/* Adds the marks of a result: {"mask":...,"right":...}. Option expect=MASK for results that do not show it. */
static void add_marks(struct line *line, const struct command *command, const struct values *values)
{
    const char *mask = option(command, "expect");
    if (values->marks.kind == MARKS_NONE)
        return;
    struct marks_found found = marks_check(&values->marks, values->recv, mask != NULL ? strtoull(mask, NULL, 0) : 0);
    add(line, ",\"mask\":%" PRIu64 ",\"right\":%s", found.mask, found.right ? "true" : "false");
    if (!found.right)
        add(line, ",\"wrong\":%zu", found.wrong);
}

static void add_reduction(struct line *line, const struct command *command, pcclResult_t result,
                          const struct values *values, const pcclReduceInfo_t *info)
{
    add(line, ",\"intact\":%s", values_intact(values, result == pcclSuccess) ? "true" : "false");
    if (result != pcclSuccess)
        return;
    add(line, ",\"peers\":%u,\"tx\":%" PRIu64 ",\"rx\":%" PRIu64 ",\"digest\":\"%016" PRIx64 "\"",
        info->local_world_size, info->tx_bytes, info->rx_bytes, values_digest(values->recv, values->bytes, 0));
    add_marks(line, command, values);
    if (option(command, "dump") != NULL) {
        add(line, ",\"result\":\"");
        for (size_t i = 0; i < values->bytes; i++)
            add(line, "%02x", ((const uint8_t *)values->recv)[i]);
        add(line, "\"");
    }
}

/*
 * Reduces. With the option launched, the begin event follows the launch, so that later events hit a running operation.
 */
static pcclResult_t reduce(struct command *command, const pcclReduceDescriptor_t *descriptor, struct values *values,
                           pcclReduceInfo_t *info)
{
    pcclComm_t *comm = command->slot->comm;
    if (option(command, "launched") == NULL) {
        begin(command);
        return pcclAllReduce(values->send, values->recv, descriptor, comm, info);
    }
    pcclAsyncReduceOp_t handle;
    pcclResult_t result = pcclAllReduceAsync(values->send, values->recv, descriptor, comm, &handle);
    begin(command);
    return result == pcclSuccess ? pcclAwaitAsyncReduce(&handle, info) : result;
}

void do_reduce(struct command *command)
{
    pcclReduceDescriptor_t descriptor;
    pcclReduceInfo_t info = {0};
    struct values values;
    parse_reduction(command, 0, 0, &descriptor, &values);
    pcclResult_t result = reduce(command, &descriptor, &values, &info);
    struct line line;
    answer(command, &line, result);
    add_reduction(&line, command, result, &values, &info);
    end_line(&line);
    values_free(&values);
}

void do_launch(struct command *command)
{
    /* A tag in use may be launched again, to see the refusal: the first operation keeps its buffers. */
    struct operation *operation = find_operation(command->slot, number(command, 0), false);
    bool again = operation != NULL;
    struct values values;
    pcclReduceDescriptor_t descriptor;
    pcclAsyncReduceOp_t handle;
    parse_reduction(command, 0, 0, &descriptor, &values);
    if (!again)
        operation = find_operation(command->slot, descriptor.tag, true);
    if (operation == NULL)
        bad_command(command, "too many operations");
    if (!again)
        operation->values = values;
    begin(command);
    pcclResult_t result = pcclAllReduceAsync(values.send, values.recv, &descriptor, command->slot->comm, &handle);
    if (result == pcclSuccess)
        operation->handle = handle;
    if (again)
        values_free(&values);
    else if (result != pcclSuccess)
        release_operation(command->slot, operation);
    answer_only(command, result);
}

/* await TAG [for=MS]; when the time is up the operation stays */
void do_await(struct command *command)
{
    struct operation *operation = find_operation(command->slot, number(command, 0), false);
    pcclAsyncReduceOp_t handle = {.comm = command->slot->comm, .tag = number(command, 0)};
    pcclReduceInfo_t info = {0};
    const char *limit = option(command, "for");
    if (operation != NULL)
        handle = operation->handle;
    begin(command);
    pcclResult_t result = limit != NULL ? pcclAwaitAsyncReduceFor(&handle, (uint32_t)strtoul(limit, NULL, 10), &info)
                                        : pcclAwaitAsyncReduce(&handle, &info);
    struct line line;
    answer(command, &line, result);
    if (operation != NULL && !(limit != NULL && result == pcclTimeout)) {
        add_reduction(&line, command, result, &operation->values, &info);
        release_operation(command->slot, operation);
    }
    end_line(&line);
}

void do_test(struct command *command)
{
    bool done = false;
    pcclAsyncReduceOp_t handle = {.comm = command->slot->comm, .tag = number(command, 0)};
    pcclResult_t result = pcclTestAsyncReduce(&handle, &done);
    struct line line;
    answer(command, &line, result);
    if (result == pcclSuccess)
        add(&line, ",\"done\":%s", done ? "true" : "false");
    end_line(&line);
}

void do_abort(struct command *command) { answer_only(command, pcclAbortOperations(command->slot->comm)); }

/* Adds the union and the intersection of the contributors of all entries, and whether all are right. */
static void add_list_marks(struct line *line, const struct values *values, size_t count)
{
    uint64_t mask_any = 0, mask_all = ~UINT64_C(0);
    bool right = true;
    if (values[0].marks.kind == MARKS_NONE)
        return;
    for (size_t i = 0; i < count; i++) {
        struct marks_found found = marks_check(&values[i].marks, values[i].recv, 0);
        right = right && found.right;
        mask_any |= found.mask;
        mask_all &= found.mask;
    }
    add(line, ",\"any\":%" PRIu64 ",\"all\":%" PRIu64 ",\"right\":%s", mask_any, mask_all, right ? "true" : "false");
}

/* multi N MAX_IN_FLIGHT TAG COUNT DTYPE OP PATTERN: N entries with tags from TAG on */
void do_multi(struct command *command)
{
    size_t count = number(command, 0);
    pcclReduceOpDescriptor_t *entries = calloc(count + 1, sizeof *entries);
    struct values *values = calloc(count + 1, sizeof *values);
    pcclReduceInfo_t info = {0};
    if (entries == NULL || values == NULL)
        exit(3);
    for (size_t i = 0; i < count; i++) {
        parse_reduction(command, 2, i, &entries[i].descriptor, &values[i]);
        entries[i].sendbuf = values[i].send;
        entries[i].recvbuf = values[i].recv;
    }
    begin(command);
    pcclResult_t result =
        pcclAllReduceMultipleWithRetry(entries, count, command->slot->comm, &info, (int)number(command, 1));
    struct line line;
    answer(command, &line, result);
    uint64_t digest = 0;
    for (size_t i = 0; i < count; i++)
        digest = values_digest(values[i].recv, values[i].bytes, digest);
    add(&line, ",\"peers\":%u,\"digest\":\"%016" PRIx64 "\"", info.local_world_size, digest);
    add_list_marks(&line, values, count);
    add_attributes(&line, command->slot->comm);
    end_line(&line);
    for (size_t i = 0; i < count; i++)
        values_free(&values[i]);
    free(values);
    free(entries);
}

struct flood {
    uint64_t count, elements;
    int64_t *send, *recv;
    pcclAsyncReduceOp_t *handles;
};

/* Launches sums and returns their number; *result is the reason why there are no more. */
static uint64_t launch_flood(const struct flood *flood, pcclComm_t *comm, pcclResult_t *result)
{
    pcclReduceDescriptor_t descriptor = {
        .count = flood->elements, .op = pcclSum, .src_descriptor = {pcclInt64, pcclDistributionNone}};
    uint64_t launched = 0;
    *result = pcclSuccess;
    while (launched < flood->count && *result == pcclSuccess) {
        descriptor.tag = launched;
        *result = pcclAllReduceAsync(flood->send, flood->recv + launched * flood->elements, &descriptor, comm,
                                     &flood->handles[launched]);
        launched += *result == pcclSuccess;
    }
    return launched;
}

/*
 * Awaits the sums and returns the number of right ones. Every peer contributes the same numbers, so a sum is a multiple
 * of them.
 */
static uint64_t await_flood(const struct flood *flood, uint64_t launched, pcclResult_t *result)
{
    uint64_t right = 0;
    for (uint64_t tag = 0; tag < launched; tag++) {
        pcclReduceInfo_t info = {0};
        pcclResult_t awaited = pcclAwaitAsyncReduce(&flood->handles[tag], &info);
        bool good = awaited == pcclSuccess;
        for (uint64_t i = 0; i < flood->elements && good; i++)
            good = flood->recv[tag * flood->elements + i] == (int64_t)info.local_world_size * flood->send[i];
        right += good;
        if (awaited != pcclSuccess)
            *result = awaited;
    }
    return right;
}

/*
 * flood N COUNT: launches up to N sums of COUNT i64, with tags from 0 on, reports their number and the reason for the
 * limit by a step event, and awaits them.
 */
void do_flood(struct command *command)
{
    struct flood flood = {.count = number(command, 0), .elements = number(command, 1)};
    flood.send = calloc(flood.elements, sizeof *flood.send);
    flood.recv = calloc(flood.count * flood.elements, sizeof *flood.recv);
    flood.handles = calloc(flood.count, sizeof *flood.handles);
    if (flood.send == NULL || flood.recv == NULL || flood.handles == NULL)
        exit(3);
    for (uint64_t i = 0; i < flood.elements; i++)
        flood.send[i] = (int64_t)(i + 1);
    begin(command);
    pcclResult_t result;
    struct line line;
    uint64_t launched = launch_flood(&flood, command->slot->comm, &result);
    begin_line(&line);
    add(&line, "{\"id\":%s,\"event\":\"step\",\"launched\":%" PRIu64 ",\"rc\":%d", command->id, launched, (int)result);
    if (result != pcclSuccess)
        add_text(&line, "words", pcclGetLastError(command->slot->comm));
    end_line(&line);
    result = pcclSuccess;
    uint64_t right = await_flood(&flood, launched, &result);
    answer(command, &line, result);
    add(&line, ",\"launched\":%" PRIu64 ",\"right\":%" PRIu64, launched, right);
    end_line(&line);
    free(flood.send);
    free(flood.recv);
    free(flood.handles);
}

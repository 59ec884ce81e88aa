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

/* TAG COUNT DTYPE OP PATTERN, from word `first` on; options inplace, offset=BYTES, quant=ALGORITHM:DTYPE, hint=N */
static void parse_reduction(const struct command *command, int first, pcclReduceDescriptor_t *descriptor,
                            struct values *values)
{
    *descriptor = (pcclReduceDescriptor_t){.count = number(command, first + 1), .tag = number(command, first)};
    int type = values_type(word(command, first + 2)), op = values_op(word(command, first + 3));
    if (type < 0 || op < 0)
        bad_command(command, "no such data type or operation");
    descriptor->op = (pcclRedOp_t)op;
    descriptor->src_descriptor.datatype = (pcclDataType_t)type;
    const char *quant = option(command, "quant"), *offset = option(command, "offset");
    if (quant != NULL) {
        descriptor->quantization_options.algorithm = (pcclQuantizationAlgorithm_t)strtoul(quant, NULL, 0);
        const char *colon = strchr(quant, ':');
        int quantized = colon == NULL ? -1 : values_type(colon + 1);
        descriptor->quantization_options.quantized_datatype = (pcclDataType_t)(quantized < 0 ? 0 : quantized);
    }
    size_t shift = offset != NULL ? strtoul(offset, NULL, 0) : 0;
    if (!values_make(values, type, descriptor->count, word(command, first + 4), option(command, "inplace") != NULL,
                     shift))
        bad_command(command, "bad pattern");
}

static void add_reduction(struct line *line, const struct command *command, pcclResult_t result,
                          const struct values *values, const pcclReduceInfo_t *info)
{
    add(line, ",\"intact\":%s", values_intact(values, result == pcclSuccess) ? "true" : "false");
    if (result != pcclSuccess)
        return;
    add(line, ",\"peers\":%u,\"tx\":%" PRIu64 ",\"rx\":%" PRIu64 ",\"digest\":\"%016" PRIx64 "\"",
        info->local_world_size, info->tx_bytes, info->rx_bytes, values_digest(values->recv, values->bytes, 0));
    if (option(command, "dump") != NULL) {
        add(line, ",\"result\":\"");
        for (size_t i = 0; i < values->bytes; i++)
            add(line, "%02x", ((const uint8_t *)values->recv)[i]);
        add(line, "\"");
    }
}

void do_reduce(struct command *command)
{
    pcclReduceDescriptor_t descriptor;
    pcclReduceInfo_t info = {0};
    struct values values;
    parse_reduction(command, 0, &descriptor, &values);
    begin(command);
    pcclResult_t result = pcclAllReduce(values.send, values.recv, &descriptor, command->slot->comm, &info);
    struct line line;
    answer(command, &line, result);
    add_reduction(&line, command, result, &values, &info);
    end_line(&line);
    values_free(&values);
}

void do_launch(struct command *command)
{
    /* A tag in use may be launched again, to see it refused: the first one's buffers stay. */
    struct operation *operation = find_operation(command->slot, number(command, 0), false);
    bool again = operation != NULL;
    struct values values;
    pcclReduceDescriptor_t descriptor;
    pcclAsyncReduceOp_t handle;
    parse_reduction(command, 0, &descriptor, &values);
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

void do_await(struct command *command)
{
    struct operation *operation = find_operation(command->slot, number(command, 0), false);
    pcclAsyncReduceOp_t handle = {.comm = command->slot->comm, .tag = number(command, 0)};
    pcclReduceInfo_t info = {0};
    if (operation != NULL)
        handle = operation->handle;
    begin(command);
    pcclResult_t result = pcclAwaitAsyncReduce(&handle, &info);
    struct line line;
    answer(command, &line, result);
    if (operation != NULL)
        add_reduction(&line, command, result, &operation->values, &info);
    if (operation != NULL)
        release_operation(command->slot, operation);
    end_line(&line);
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
        parse_reduction(command, 2, &entries[i].descriptor, &values[i]);
        entries[i].descriptor.tag += i;
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
    add_attributes(&line, command->slot->comm);
    end_line(&line);
    for (size_t i = 0; i < count; i++)
        values_free(&values[i]);
    free(values);
    free(entries);
}

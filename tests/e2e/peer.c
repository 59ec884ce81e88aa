/*
 * A scripted peer over the public interface only. It reads one command a line from standard input and writes one JSON object
 * a line to standard output; harness.py is the other end, README.md lists the commands. When standard input ends the process
 * ends at once.
 *
 *   <id>[&] [#<slot>] <verb> <arguments...>
 *
 * With & the command runs on a thread of its own, so that several can be under way. A slot is one communicator. Answers:
 * {"id":1,"event":"begin"} just before a call that may block, {"id":1,"rc":0,"us":123,"at":<monotonic us>,...} after it,
 * "words" when it failed. Log lines of the library come as {"log":<level>,"text":"..."}.
 */
#include "values.h"

#include <pccl.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SLOTS = 40, OPS = 256, WORDS = 64, LINE_MAX_BYTES = 1 << 20 };

/* ---- output ---- */

static pthread_mutex_t output_lock = PTHREAD_MUTEX_INITIALIZER;

struct line {
    char *text;
    size_t length;
    FILE *stream;
};

static void add(struct line *line, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(struct line *line, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vfprintf(line->stream, format, arguments);
    va_end(arguments);
}

static void add_text(struct line *line, const char *name, const char *text)
{
    add(line, ",\"%s\":\"", name);
    for (const unsigned char *c = (const unsigned char *)text; *c != 0; c++) {
        if (*c == '"' || *c == '\\')
            add(line, "\\%c", *c);
        else if (*c < 0x20)
            add(line, "\\u%04x", *c);
        else
            fputc(*c, line->stream);
    }
    add(line, "\"");
}

static void begin_line(struct line *line)
{
    line->stream = open_memstream(&line->text, &line->length);
    if (line->stream == NULL)
        exit(3);
}

static void end_line(struct line *line)
{
    add(line, "}\n");
    fclose(line->stream);
    pthread_mutex_lock(&output_lock);
    fwrite(line->text, 1, line->length, stdout);
    fflush(stdout);
    pthread_mutex_unlock(&output_lock);
    free(line->text);
}

static uint64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

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
    atomic_bool stop; /* the loop */
};

static struct slot slots[SLOTS];

struct command {
    char *text; /* the words point into it */
    char *id;
    struct slot *slot;
    const char *verb;
    char *words[WORDS];
    int count;
    uint64_t begun_us;
};

static void bad_command(const struct command *command, const char *why)
{
    fprintf(stderr, "bad command %s %s: %s\n", command->id, command->verb, why);
    _Exit(3);
}

static const char *word(const struct command *command, int index)
{
    if (index >= command->count)
        bad_command(command, "a word is missing");
    return command->words[index];
}

static uint64_t number(const struct command *command, int index)
{
    char *end;
    uint64_t value = strtoull(word(command, index), &end, 0);
    if (*end != 0)
        bad_command(command, "not a number");
    return value;
}

/* "name" among the words, or "name=value". NULL: not there. */
static const char *option(const struct command *command, const char *name)
{
    size_t length = strlen(name);
    for (int i = 0; i < command->count; i++) {
        const char *text = command->words[i];
        if (strncmp(text, name, length) == 0 && (text[length] == 0 || text[length] == '='))
            return text[length] == '=' ? text + length + 1 : text + length;
    }
    return NULL;
}

static void begin(struct command *command)
{
    struct line line;
    begin_line(&line);
    add(&line, "{\"id\":%s,\"event\":\"begin\"", command->id);
    end_line(&line);
    command->begun_us = now_us();
}

/* Starts the answer; the caller adds to it and ends it. */
static void answer(struct command *command, struct line *line, pcclResult_t result)
{
    uint64_t end_us = now_us();
    const char *words = result == pcclSuccess ? "" : pcclGetLastError(command->slot->comm);
    begin_line(line);
    add(line, "{\"id\":%s,\"rc\":%d,\"us\":%" PRIu64 ",\"at\":%" PRIu64, command->id, (int)result,
        end_us - command->begun_us, end_us);
    if (result != pcclSuccess)
        add_text(line, "words", words);
}

static void answer_only(struct command *command, pcclResult_t result)
{
    struct line line;
    answer(command, &line, result);
    end_line(&line);
}

/* ---- membership ---- */

static void do_create(struct command *command)
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

/* The way of PCCL 1.0: create10 PORT GROUP, on 127.0.0.1. */
static void do_create10(struct command *command)
{
    pcclCommCreateParams_t params = {.peer_group = (uint32_t)number(command, 1), .p2p_connection_pool_size = 1};
    params.master_address.inet.protocol = inetIPv4;
    memcpy(params.master_address.inet.ipv4.data, (uint8_t[]){127, 0, 0, 1}, 4);
    params.master_address.port = (uint16_t)number(command, 0);
    answer_only(command, pcclCreateCommunicator(&params, &command->slot->comm));
}

static void do_connect(struct command *command)
{
    begin(command);
    answer_only(command, pcclConnect(command->slot->comm));
}

static void forget_operations(struct slot *slot)
{
    for (int i = 0; i < OPS; i++)
        if (slot->operations[i].used) {
            values_free(&slot->operations[i].values);
            slot->operations[i].used = false;
        }
}

static void do_destroy(struct command *command)
{
    begin(command);
    pcclResult_t result = pcclDestroyCommunicator(command->slot->comm);
    command->slot->comm = NULL;
    answer_only(command, result);
    forget_operations(command->slot);
}

static void add_attributes(struct line *line, const pcclComm_t *comm)
{
    static const char *const names[] = {"world", "group", "groups", "largest"};
    for (int i = 0; i < 4; i++) {
        int value = -1;
        if (pcclGetAttribute(comm, (pcclAttribute_t)(i + 1), &value) == pcclSuccess)
            add(line, ",\"%s\":%d", names[i], value);
    }
}

static void do_attributes(struct command *command)
{
    int value;
    struct line line;
    answer(command, &line, pcclGetAttribute(command->slot->comm, PCCL_ATTRIBUTE_GLOBAL_WORLD_SIZE, &value));
    add_attributes(&line, command->slot->comm);
    end_line(&line);
}

static void do_update(struct command *command)
{
    begin(command);
    pcclResult_t result = pcclUpdateTopology(command->slot->comm);
    struct line line;
    answer(command, &line, result);
    add_attributes(&line, command->slot->comm);
    end_line(&line);
}

static void do_pending(struct command *command)
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

/* Asks until somebody is pending, then admits them: what every member does while newcomers come. admit [COUNT] */
static void do_admit(struct command *command)
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

static void do_waits(struct command *command)
{
    char text[1024];
    struct line line;
    pcclResult_t result = pcclDescribeWaits(command->slot->comm, text, sizeof text);
    answer(command, &line, result);
    if (result == pcclSuccess)
        add_text(&line, "text", text);
    end_line(&line);
}

/* ---- reductions ---- */

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
    if (!values_make(values, type, descriptor->count, word(command, first + 4), option(command, "inplace") != NULL, shift))
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

static void do_reduce(struct command *command)
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

static void do_launch(struct command *command)
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
    answer_only(command, result);
    if (again)
        values_free(&values);
    else if (result != pcclSuccess)
        release_operation(command->slot, operation);
}

static void do_await(struct command *command)
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
    end_line(&line);
    if (operation != NULL)
        release_operation(command->slot, operation);
}

/* multi N MAX_IN_FLIGHT TAG COUNT DTYPE OP PATTERN: N entries with tags from TAG on */
static void do_multi(struct command *command)
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

/* ---- the canonical loop ---- */

/*
 * loop BIT TAGS COUNT IN_FLIGHT: admit newcomers, agree on the step, reduce with retry, report; until stopped.
 * Each peer adds 1 << BIT in element 0 and the same numbers elsewhere, so the result tells who took part in it and whether
 * it is right. Newcomers learn the step by a maximum over all, which stands in for the shared state.
 */
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

/* Every element of one entry must be k times what one peer gave, k being the number of bits in element 0. 0: it is not. */
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
    pcclReduceDescriptor_t descriptor = {.count = 1, .op = pcclMax, .tag = 1, .src_descriptor = {pcclUint64, pcclDistributionNone}};
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
    add(&line, "{\"id\":%s,\"event\":\"step\",\"step\":%" PRIu64 ",\"world\":%u,\"right\":%s,\"all\":%" PRIu64 ",\"any\":%" PRIu64
               ",\"us\":%" PRIu64 ",\"at\":%" PRIu64 ",\"digest\":\"%016" PRIx64 "\"",
        loop->command->id, loop->step, info->local_world_size, right ? "true" : "false", mask_all, mask_any,
        end_us - start_us, end_us, values_digest(loop->recv, loop->tags * loop->count * sizeof *loop->recv, 0));
    end_line(&line);
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
    pcclResult_t result = pcclAllReduceMultipleWithRetry(loop->entries, loop->tags, loop->comm, &info, loop->in_flight);
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

static void do_loop(struct command *command)
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
        loop.entries[tag] = (pcclReduceOpDescriptor_t){
            .sendbuf = loop.send + tag * loop.count,
            .recvbuf = loop.recv + tag * loop.count,
            .descriptor = {
                .count = loop.count, .op = pcclSum, .tag = 100 + tag, .src_descriptor = {pcclInt64, pcclDistributionNone}}};
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

static void do_stop(struct command *command)
{
    atomic_store(&command->slot->stop, true);
    answer_only(command, pcclSuccess);
}

/* ---- the process ---- */

/* A child that inherits everything, calls what it must not, and then lives on until it is killed. */
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

static void do_nothing(struct command *command) { answer_only(command, pcclSuccess); }

static const struct {
    const char *verb;
    void (*run)(struct command *command);
} verbs[] = {
    {"create", do_create},   {"create10", do_create10}, {"connect", do_connect}, {"destroy", do_destroy},
    {"attr", do_attributes}, {"update", do_update},     {"pending", do_pending}, {"admit", do_admit},
    {"waits", do_waits},     {"reduce", do_reduce},     {"launch", do_launch},   {"await", do_await},
    {"multi", do_multi},     {"loop", do_loop},         {"stop", do_stop},       {"fork", do_fork},
    {"ping", do_nothing},
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

/* NULL: an empty line. */
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
        command->slot = &slots[strtoul(next + 1, NULL, 10) % SLOTS];
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
        struct command *command = parse(text, &background);
        if (command == NULL)
            continue;
        pthread_t thread;
        if (strcmp(command->verb, "quit") == 0) {
            for (int i = 0; i < SLOTS; i++) {
                if (slots[i].comm != NULL)
                    (void)pcclDestroyCommunicator(slots[i].comm);
                forget_operations(&slots[i]);
            }
            answer_only(&(struct command){.id = command->id, .slot = &slots[SLOTS - 1], .begun_us = now_us()}, pcclSuccess);
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
    _Exit(2); /* the harness is gone */
}

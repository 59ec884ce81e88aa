/*
 * The verbs for shared state: the tensors of a slot, and their synchronization.
 *
 *   state TENSOR...         replaces the tensors: NAME,DTYPE,COUNT,PATTERN[,FLAG...] each, with the
 *                           patterns of values.h or zero (untouched memory), and the flags unequal,
 *                           offset=BYTES, null, cuda, device=N, times=N (N tensors, NAME0 and so on)
 *   poke NAME BYTE VALUE    changes one byte
 *   digests                 changes nothing, and answers as the two above do
 *   sync STRATEGY REVISION  synchronizes: popular, receive or send, or a number; option null:
 *                           without statistics
 *   train BIT SEED BYTES    loops until stopped: admits newcomers, synchronizes, sums, changes the
 *                           state by the sum. Newcomers begin with different content; now and then
 *                           one bit of a member's content is flipped
 *
 * Answers have "revision" and "tensors": [[name, digest],...]; a sync also "tx" and "rx", which
 * remain 2^64-1 if they are not written. Events of train: step (once for each revision, after its
 * synchronization) and failed.
 */
#include "script.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TENSORS_MAX = 70000, POKE_ONE_IN = 8, END_BYTES = 1 << 20 };

static const size_t huge_bytes = (size_t)1 << 30;

struct shared {
    pcclSharedState_t state;
    void **blocks; /* memory of the tensors */
};

/* ---- holding ---- */

static void release(struct shared *shared)
{
    if (shared == NULL)
        return;
    for (size_t i = 0; i < shared->state.count; i++) {
        free((void *)(uintptr_t)shared->state.infos[i].name);
        free(shared->blocks[i]);
    }
    free(shared->state.infos);
    free(shared->blocks);
    free(shared);
}

void forget_state(struct slot *slot)
{
    release(slot->shared);
    slot->shared = NULL;
}

static struct shared *hold(size_t most)
{
    struct shared *shared = calloc(1, sizeof *shared);
    if (shared == NULL || (shared->blocks = calloc(most + 1, sizeof *shared->blocks)) == NULL ||
        (shared->state.infos = calloc(most + 1, sizeof *shared->state.infos)) == NULL)
        exit(3);
    return shared;
}

static size_t bytes_of(const pcclTensorInfo_t *tensor)
{
    return tensor->count * values_element_bytes((int)tensor->datatype);
}

/* Adds a tensor and takes over its block; `data` is in the block, or NULL. */
static pcclTensorInfo_t *add_tensor(struct shared *shared, const char *name, int type, size_t count, void *block,
                                    size_t offset)
{
    pcclTensorInfo_t *tensor = &shared->state.infos[shared->state.count];
    *tensor = (pcclTensorInfo_t){.name = strdup(name), .count = count, .datatype = (pcclDataType_t)type};
    if (tensor->name == NULL)
        exit(3);
    if (block != NULL)
        tensor->data = (uint8_t *)block + offset;
    shared->blocks[shared->state.count++] = block;
    return tensor;
}

struct flags {
    size_t offset, times;
    int device;
    bool unequal, null;
};

static struct flags parse_flags(const struct command *command, char *rest)
{
    struct flags flags = {.times = 1};
    for (char *next = NULL, *flag = strtok_r(rest, ",", &next); flag != NULL; flag = strtok_r(NULL, ",", &next)) {
        if (strcmp(flag, "unequal") == 0)
            flags.unequal = true;
        else if (strcmp(flag, "null") == 0)
            flags.null = true;
        else if (strcmp(flag, "cuda") == 0)
            flags.device = (int)pcclDeviceCuda;
        else if (strncmp(flag, "device=", 7) == 0)
            flags.device = (int)strtol(flag + 7, NULL, 10);
        else if (strncmp(flag, "offset=", 7) == 0)
            flags.offset = strtoul(flag + 7, NULL, 10);
        else if (strncmp(flag, "times=", 6) == 0)
            flags.times = strtoul(flag + 6, NULL, 10);
        else
            bad_command(command, "no such flag of a tensor");
    }
    return flags;
}

static void *make_content(const struct command *command, int type, size_t count, const char *pattern, size_t offset)
{
    if (strcmp(pattern, "zero") == 0) {
        void *block = calloc(1, count * values_element_bytes(type) + offset + 1);
        if (block == NULL)
            exit(3);
        return block;
    }
    struct values values;
    struct values_wish wish = {
        .type = type, .op = values_op("sum"), .count = count, .pattern = pattern, .in_place = true, .offset = offset};
    if (!values_make(&values, &wish))
        bad_command(command, "bad pattern");
    void *block = values.send_block;
    values.send_block = NULL;
    values_free(&values);
    return block;
}

/* Returns the next field of a tensor's word; an empty one is "". */
static char *take_field(const struct command *command, char **rest)
{
    char *field = *rest;
    if (field == NULL)
        bad_command(command, "a tensor is NAME,DTYPE,COUNT,PATTERN");
    char *comma = strchr(field, ',');
    *rest = comma != NULL ? comma + 1 : NULL;
    if (comma != NULL)
        *comma = 0;
    return field;
}

static void parse_tensor(const struct command *command, char *rest, struct shared *shared)
{
    const char *name = take_field(command, &rest);
    int type = values_type(take_field(command, &rest));
    size_t count = strtoul(take_field(command, &rest), NULL, 10);
    const char *pattern = take_field(command, &rest);
    struct flags flags = parse_flags(command, rest != NULL ? rest : command->text + strlen(command->text));
    if (shared->state.count + flags.times > TENSORS_MAX)
        bad_command(command, "too many tensors");
    for (size_t i = 0; i < flags.times; i++) {
        char numbered[256];
        if (flags.times > 1)
            snprintf(numbered, sizeof numbered, "%s%zu", name, i);
        void *block = flags.null ? NULL : make_content(command, type, count, pattern, flags.offset);
        pcclTensorInfo_t *tensor =
            add_tensor(shared, flags.times > 1 ? numbered : name, type, count, block, flags.offset);
        tensor->device_type = (pcclDeviceType_t)flags.device;
        tensor->allow_content_inequality = flags.unequal;
    }
}

static struct shared *held(const struct command *command)
{
    if (command->slot->shared == NULL)
        bad_command(command, "no state is held");
    return command->slot->shared;
}

/* Digests a tensor; of a very large one, only both ends, since the library compares the rest. */
static uint64_t digest_of(const pcclTensorInfo_t *tensor)
{
    size_t bytes = bytes_of(tensor);
    const uint8_t *data = tensor->data;
    if (data == NULL || bytes <= huge_bytes)
        return data == NULL ? 0 : values_digest(data, bytes, 0);
    return values_digest(data + bytes - END_BYTES, END_BYTES, values_digest(data, END_BYTES, 0));
}

static void add_tensors(struct line *line, const struct shared *shared)
{
    add(line, ",\"tensors\":[");
    for (size_t i = 0; i < shared->state.count; i++)
        add(line, "%s[\"%s\",\"%016" PRIx64 "\"]", i > 0 ? "," : "", shared->state.infos[i].name,
            digest_of(&shared->state.infos[i]));
    add(line, "]");
}

void do_digests(struct command *command)
{
    struct line line;
    answer(command, &line, pcclSuccess);
    add_tensors(&line, held(command));
    end_line(&line);
}

void do_state(struct command *command)
{
    struct shared *shared = hold(TENSORS_MAX);
    for (int i = 0; i < command->count; i++)
        parse_tensor(command, command->words[i], shared);
    forget_state(command->slot);
    command->slot->shared = shared;
    do_digests(command);
}

void do_poke(struct command *command)
{
    const struct shared *shared = held(command);
    const char *name = word(command, 0);
    size_t at = number(command, 1), i = 0;
    while (i < shared->state.count && strcmp(shared->state.infos[i].name, name) != 0)
        i++;
    if (i == shared->state.count || at >= bytes_of(&shared->state.infos[i]))
        bad_command(command, "there is no such byte");
    ((uint8_t *)shared->state.infos[i].data)[at] = (uint8_t)number(command, 2);
    do_digests(command);
}

/* ---- synchronizing ---- */

static pcclSharedStateSyncStrategy_t strategy_of(const struct command *command, int index)
{
    static const char *const names[] = {"popular", "receive", "send"};
    for (int i = 0; i < 3; i++)
        if (strcmp(word(command, index), names[i]) == 0)
            return (pcclSharedStateSyncStrategy_t)i;
    return (pcclSharedStateSyncStrategy_t)number(command, index);
}

void do_sync(struct command *command)
{
    const struct shared *shared = held(command);
    pcclSharedState_t state = shared->state; /* several commands may run at once */
    pcclSharedStateSyncStrategy_t strategy = strategy_of(command, 0);
    pcclSharedStateSyncInfo_t info = {UINT64_MAX, UINT64_MAX};
    state.revision = number(command, 1);
    begin(command);
    pcclResult_t result = pcclSynchronizeSharedState(command->slot->comm, &state, strategy,
                                                     option(command, "null") != NULL ? NULL : &info);
    struct line line;
    answer(command, &line, result);
    add(&line, ",\"revision\":%" PRIu64 ",\"tx\":%" PRIu64 ",\"rx\":%" PRIu64, state.revision, info.tx_bytes,
        info.rx_bytes);
    add_tensors(&line, shared);
    end_line(&line);
}

/* ---- training ---- */

struct train {
    struct command *command;
    pcclComm_t *comm;
    struct shared *shared;
    uint64_t bit, random;
    size_t sums_count;
    int64_t *sums;
    bool joined;
    uint64_t longest_us, call_us;
};

static uint64_t draw(uint64_t *state)
{
    *state += 0x9E3779B97F4A7C15u;
    uint64_t mixed = (*state ^ *state >> 30) * 0xBF58476D1CE4E5B9u;
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EBu;
    return mixed ^ mixed >> 31;
}

static void call_begins(struct train *train) { train->call_us = now_us(); }

static pcclResult_t call_ends(struct train *train, pcclResult_t result)
{
    uint64_t length_us = now_us() - train->call_us;
    train->longest_us = length_us > train->longest_us ? length_us : train->longest_us;
    return result;
}

static pcclResult_t let_in(struct train *train)
{
    bool pending = false;
    if (train->joined) { /* joined just now: the others have made their update too */
        train->joined = false;
        return pcclSuccess;
    }
    call_begins(train);
    pcclResult_t result = call_ends(train, pcclArePeersPending(train->comm, &pending));
    call_begins(train);
    return result == pcclSuccess && pending ? call_ends(train, pcclUpdateTopology(train->comm)) : result;
}

static void report(const struct train *train, pcclResult_t result, int world, const pcclSharedStateSyncInfo_t *info)
{
    struct line line;
    const char *words = pcclGetLastError(train->comm);
    uint64_t digest = 0;
    for (size_t i = 0; i < train->shared->state.count && result == pcclSuccess; i++)
        if (!train->shared->state.infos[i].allow_content_inequality)
            digest = digest * 31 + digest_of(&train->shared->state.infos[i]);
    begin_line(&line);
    add(&line,
        "{\"id\":%s,\"event\":\"%s\",\"step\":%" PRIu64 ",\"world\":%d,\"at\":%" PRIu64 ",\"longest_us\":%" PRIu64
        ",\"rc\":%d",
        train->command->id, result == pcclSuccess ? "step" : "failed", train->shared->state.revision, world, now_us(),
        train->longest_us, (int)result);
    if (result == pcclSuccess)
        add(&line, ",\"digest\":\"%016" PRIx64 "\",\"tx\":%" PRIu64 ",\"rx\":%" PRIu64, digest, info->tx_bytes,
            info->rx_bytes);
    else
        add_text(&line, "words", words);
    end_line(&line);
}

/* Changes a member's state from time to time, so that it differs from the others'. */
static void spoil(struct train *train)
{
    const pcclTensorInfo_t *tensor = &train->shared->state.infos[draw(&train->random) % 2];
    if (draw(&train->random) % POKE_ONE_IN == 0)
        ((uint8_t *)tensor->data)[draw(&train->random) % bytes_of(tensor)] ^= 1;
}

static pcclResult_t sum_up(struct train *train)
{
    pcclReduceDescriptor_t descriptor = {
        .count = train->sums_count, .op = pcclSum, .tag = 5, .src_descriptor = {pcclInt64, pcclDistributionNone}};
    uint64_t seed = train->shared->state.revision * 64 + train->bit;
    pcclResult_t result;
    for (size_t i = 0; i < train->sums_count; i++)
        train->sums[i] = (int64_t)(draw(&seed) >> 16);
    do {
        call_begins(train);
        result = call_ends(train, pcclAllReduce(train->sums, train->sums, &descriptor, train->comm, NULL));
    } while (result == pcclRankConnectionLost);
    return result;
}

static void apply(struct train *train)
{
    const pcclTensorInfo_t *tensors = train->shared->state.infos;
    for (int tensor = 0; tensor < 2; tensor++) {
        uint8_t *bytes = tensors[tensor].data;
        const uint8_t *sums = (const uint8_t *)train->sums;
        size_t length = bytes_of(&tensors[tensor]);
        for (size_t i = 0; i < length; i++)
            bytes[i] = (uint8_t)(bytes[i] * 5 + sums[i % (train->sums_count * sizeof *train->sums)]);
    }
}

/* Makes one turn. Returns false with *result at the end. A failed synchronization is reported and repeated. */
static bool turn(struct train *train, pcclResult_t *result)
{
    int world = 0;
    pcclSharedStateSyncInfo_t info = {0, 0};
    *result = let_in(train);
    if (*result == pcclSuccess)
        *result = pcclGetAttribute(train->comm, PCCL_ATTRIBUTE_PEER_GROUP_WORLD_SIZE, &world);
    if (*result != pcclSuccess)
        return false;
    if (world < 2) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL); /* alone: need not hurry */
        return true;
    }
    spoil(train);
    call_begins(train);
    pcclResult_t synchronized =
        call_ends(train, pcclSynchronizeSharedState(train->comm, &train->shared->state,
                                                    PCCL_SHARED_STATE_SYNC_STRATEGY_ENFORCE_POPULAR, &info));
    report(train, synchronized, world, &info);
    train->longest_us = 0;
    if (synchronized != pcclSuccess) {
        *result = pcclGetAttribute(train->comm, PCCL_ATTRIBUTE_PEER_GROUP_WORLD_SIZE, &world);
        return *result == pcclSuccess;
    }
    *result = sum_up(train);
    if (*result == pcclSuccess)
        apply(train);
    else if (*result != pcclTooFewPeers) /* this peer is alone, and the step is dropped */
        return false;
    train->shared->state.revision++;
    return true;
}

static void make_state(struct train *train, uint64_t seed, size_t bytes)
{
    static const char *const names[] = {"weights", "odd", "own"};
    size_t lengths[] = {bytes & ~(size_t)3, bytes / 3 | 1, 40000};
    train->shared = hold(3);
    for (size_t i = 0; i < 3; i++) {
        uint8_t *block = malloc(lengths[i] + i);
        if (block == NULL)
            exit(3);
        for (size_t at = 0; at < lengths[i] + i; at++)
            block[at] = (uint8_t)(at * (seed + 3) >> 5);
        bool is_float = i == 0;
        add_tensor(train->shared, names[i], values_type(is_float ? "f32" : "u8"),
                   is_float ? lengths[i] / 4 : lengths[i], block, i);
    }
    train->shared->state.infos[2].allow_content_inequality = true;
}

void do_train(struct command *command)
{
    struct train train = {.command = command,
                          .comm = command->slot->comm,
                          .bit = number(command, 0),
                          .random = number(command, 1) * 64 + number(command, 0),
                          .sums_count = 3001,
                          .joined = true};
    pcclResult_t result = pcclSuccess;
    make_state(&train, number(command, 1) + number(command, 0), number(command, 2));
    train.sums = calloc(train.sums_count, sizeof *train.sums);
    if (train.sums == NULL)
        exit(3);
    begin(command);
    while (!atomic_load(&command->slot->stop) && turn(&train, &result))
        continue;
    struct line line;
    answer(command, &line, result);
    add(&line, ",\"step\":%" PRIu64 ",\"longest_us\":%" PRIu64, train.shared->state.revision, train.longest_us);
    add_attributes(&line, train.comm);
    end_line(&line);
    free(train.sums);
    release(train.shared);
}

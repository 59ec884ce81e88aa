/* Draws operations, makes their inputs, and checks their results. */
#include "operation.h"

#include "history.h"

#include "../e2e/values.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PHASES = 64, ELEMENT_MAX = 8, TRIES = 50 };
enum { F32 = pcclFloat };

struct table {
    uint8_t bytes[PHASES][ELEMENT_MAX];
    double numbers[PHASES];
};

uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t mixed = (a ^ (b + 0x9E3779B97F4A7C15u + (a << 6) + (a >> 2))) * 0xBF58476D1CE4E5B9u;
    mixed = (mixed ^ mixed >> 29) * 0x94D049BB133111EBu;
    return mixed ^ mixed >> 32;
}

uint64_t hash_id(const pcclPeerId_t *id) { return values_digest(id->digits, strlen(id->digits), 0); }

static const char *const names[] = {"all-reduce",   "broadcast",      "all-gather",    "reduce-scatter", "barrier",
                                    "all-gather-v", "reduce",         "gather",        "scatter",        "all-to-all",
                                    "gather-v",     "scatter-v",      "all-to-all-v",  "coalesced",      "send",
                                    "recv",         "exclusive-scan", "inclusive-scan"};

const char *op_name(const struct op *op) { return names[op->kind]; }

enum op_kind op_collective(uint64_t drawn)
{
    const uint32_t kind = (uint32_t)(drawn % (OP_KINDS - 2));
    return (enum op_kind)(kind < OP_SEND ? kind : kind + 2);
}

/* ---- what it is ---- */

static bool is_send(const struct op *op) { return op->kind == OP_SEND || op->kind == OP_RECV; }

static bool scans(const struct op *op) { return op->kind == OP_EXCLUSIVE_SCAN || op->kind == OP_INCLUSIVE_SCAN; }

static bool reduces(const struct op *op)
{
    return op->kind == OP_ALL_REDUCE || op->kind == OP_REDUCE_SCATTER || op->kind == OP_REDUCE ||
           op->kind == OP_COALESCED || scans(op);
}

static bool has_blobs(const struct op *op)
{
    return op->kind == OP_ALL_GATHER_V || op->kind == OP_GATHER_V || op->kind == OP_SCATTER_V ||
           op->kind == OP_ALL_TO_ALL_V;
}

static bool has_root(const struct op *op)
{
    return op->kind == OP_BROADCAST || op->kind == OP_REDUCE || op->kind == OP_GATHER || op->kind == OP_SCATTER ||
           op->kind == OP_GATHER_V || op->kind == OP_SCATTER_V;
}

static bool needs_members(const struct op *op)
{
    return op->kind != OP_ALL_REDUCE && op->kind != OP_BARRIER && op->kind != OP_ALL_GATHER_V &&
           op->kind != OP_COALESCED && !scans(op);
}

/* Draws a size, often of each order of magnitude up to the maximum. */
static size_t draw_bytes(uint64_t random, size_t bytes_max)
{
    size_t bytes = 1;
    for (unsigned i = 0; bytes * 8 <= bytes_max && (random >> (2 * i) & 3) != 0; i++)
        bytes *= 8;
    return bytes + mix(random, 1) % (bytes * 7);
}

static void draw_codec(struct op *op, uint64_t random)
{
    static const pcclRedOp_t sums[] = {pcclSum, pcclAvg};
    if (random % 4 != 0 || op->kind == OP_BARRIER || has_blobs(op) || op->kind == OP_COALESCED || is_send(op) ||
        scans(op))
        return;
    op->codec = (pcclQuantizationAlgorithm_t)(pcclQuantMinMax + (random >> 8) % pcclQuantAuto);
    if (op->codec == pcclQuantAuto && op->kind != OP_ALL_REDUCE)
        op->codec = pcclQuantE2M1;
    op->type = F32;
    op->reduction = sums[(random >> 16) % 2];
}

static pcclRedOp_t draw_reduction(int type, uint64_t random)
{
    static const pcclRedOp_t of_floats[] = {pcclSum, pcclSum, pcclAvg, pcclProd, pcclMax, pcclMin, pcclPremulSum};
    static const pcclRedOp_t of_integers[] = {pcclSum, pcclSum, pcclAvg, pcclProd, pcclMax,
                                              pcclMin, pcclAnd, pcclOr,  pcclXor};
    return values_datatype(type)->family == REAL ? of_floats[random % 7] : of_integers[random % 9];
}

static void set_codec(struct op *op)
{
    pcclQuantizationOptions_t *quantization = &op->options.quantization;
    pcclCodecParams_t params = PCCL_CODEC_PARAMS_INIT;
    switch (op->codec) {
    case pcclQuantNone: break;
    case pcclQuantMinMax: *quantization = (pcclQuantizationOptions_t){pcclUint8, pcclQuantMinMax}; break;
    case pcclQuantZeroPointScale:
        *quantization = (pcclQuantizationOptions_t){pcclUint16, pcclQuantZeroPointScale};
        break;
    default:
        params.format = op->codec;
        params.block = 64;
        params.budget_ms = op->codec == pcclQuantAuto ? 20 : 0;
        if (pcclCreateCodec(&params, quantization) != pcclSuccess)
            history_give_up("codec", pcclGetLastError(NULL));
    }
}

/* Returns the member's factor in a premultiplied sum. */
static double factor_of(const struct op *op, const pcclPeerId_t *id)
{
    static const double factors[] = {1, 2, 0.5, -1};
    return factors[mix(hash_id(id), op->salt) % 4];
}

static bool draw_in_place(const struct op *op)
{
    return mix(op->salt, hash_id(&op->members.ids[op->members.self])) % 2 == 0;
}

void op_draw(struct op *op, enum op_kind kind, const char *key, uint64_t tag, const struct members *members,
             size_t bytes_max)
{
    memset(op, 0, sizeof *op);
    op->kind = kind;
    snprintf(op->key, sizeof op->key, "%s", key);
    op->salt = values_digest(key, strlen(key), 1);
    op->members = *members;
    op->type = (int)(mix(op->salt, 2) % 12);
    op->reduction = draw_reduction(op->type, mix(op->salt, 3));
    if (scans(op) && op->reduction == pcclAvg)
        op->reduction = pcclSum;
    draw_codec(op, mix(op->salt, 4));
    op->drawn = (uint32_t)mix(op->salt, 5);
    op->root = has_root(op) ? op->drawn % members->count : 0;
    op->in_place = draw_in_place(op);
    op->counted = needs_members(op) || mix(op->salt, 6) % 4 == 0;
    op->shares = kind == OP_REDUCE_SCATTER && op->codec == pcclQuantNone && mix(op->salt, 7) % 2 == 0;
    op->count = draw_bytes(mix(op->salt, 8), bytes_max) / values_element_bytes(op->type) + 1;
    op->options = (pcclCollectiveOptions_t)PCCL_COLLECTIVE_OPTIONS_INIT;
    op->options.tag = tag;
    set_codec(op);
}

/* ---- elements ---- */

static unsigned phase(const struct op *op, size_t i)
{
    return (unsigned)(((uint64_t)i + 1 + op->salt) * 0x9E3779B97F4A7C15u >> 58);
}

/*
 * A peer's input of an operation with a codec has one magnitude, and all peers have zeros, and for scaled formats the
 * same signs, at the same places. So each packing of it, and of each sum of several, is exact but for the rounding of
 * floats and the range of pcclQuantZeroPointScale (docs/CODECS.md), and the absence of one participant shows.
 */
static double packable(const struct op *op, uint64_t random, unsigned at)
{
    static const double patterns[] = {0, 1, 1, -1};
    double sign = patterns[mix(op->salt, at + 100) % 4];
    bool has_range = op->codec == pcclQuantMinMax || op->codec == pcclQuantZeroPointScale || op->codec == pcclQuantAuto;
    return (has_range && sign < 0 ? 0 : sign) * (double)(1 + random % 15);
}

/* Returns the input of `from` for `to` (0: the same for all) in elements of this phase. */
static double number(const struct op *op, int type, pcclRedOp_t reduction, uint64_t from, uint64_t to, unsigned at)
{
    static const double factors[] = {1, 2, 0.5, -1};
    uint64_t random = mix(mix(from, to), mix(op->salt, at + 100));
    bool small = values_datatype(type)->family == REAL;
    if (op->codec != pcclQuantNone)
        return packable(op, mix(mix(from, to), op->salt), at);
    if (reduction == pcclProd)
        return small ? factors[random % 4] : (double)(1 + random % 5);
    if (reduction == pcclAnd || reduction == pcclOr || reduction == pcclXor)
        return (double)(random % 128);
    return (double)(random % (small ? 8 : 16));
}

/* Fills the table with the result of these peers; of no peers with the identity, which an exclusive scan has. */
static void make_table(const struct op *op, int type, pcclRedOp_t reduction, const struct members *who, uint64_t to,
                       struct table *table)
{
    const struct datatype *datatype = values_datatype(type);
    union number given[MEMBERS_MAX];
    for (unsigned at = 0; at < PHASES; at++) {
        for (uint32_t i = 0; i < who->count; i++) {
            double factor = reduction == pcclPremulSum ? factor_of(op, &who->ids[i]) : 1;
            given[i] = number_of(datatype, factor * number(op, type, reduction, hash_id(&who->ids[i]), to, at));
        }
        union number result = reduce_numbers(datatype, reduction, given, who->count);
        table->numbers[at] = value_of(datatype, result);
        write_number(datatype, result, table->bytes[at]);
    }
}

static struct members only(const pcclPeerId_t *id)
{
    struct members one = {.count = 1};
    one.ids[0] = *id;
    return one;
}

/* Fills the table with the input of one peer, without its factor. */
static void make_own_table(const struct op *op, int type, pcclRedOp_t reduction, const pcclPeerId_t *from, uint64_t to,
                           struct table *table)
{
    struct members one = only(from);
    make_table(op, type, reduction == pcclPremulSum ? pcclSum : reduction, &one, to, table);
}

static void fill(const struct op *op, uint8_t *to, int type, size_t count, const struct table *table)
{
    size_t bytes = values_element_bytes(type);
    for (size_t i = 0; i < count; i++)
        memcpy(to + i * bytes, table->bytes[phase(op, i)], bytes);
}

/*
 * Returns the largest error of an element that travelled as `info` says, of `packs` participants, whose inputs are at
 * most 15 (see `packable`). Each of the partial sums, and the result, is packed once.
 */
static double tolerance(const struct op *op, uint32_t packs)
{
    if (op->info.codec == pcclQuantNone)
        return 0;
    double largest = op->reduction == pcclAvg ? 15 : 15.0 * packs;
    return (packs + 1) * largest * (op->info.codec == pcclQuantZeroPointScale ? 1.0 / 65532 : 1.0 / (1 << 20));
}

static bool check_codec(const struct op *op, char *wrong)
{
    pcclQuantizationAlgorithm_t used = op->info.codec;
    if (used == pcclQuantNone || used == op->codec ||
        (op->codec == pcclQuantAuto &&
         (used == pcclQuantZeroPointScale || used == pcclQuantE4M3 || used == pcclQuantE2M1)))
        return true;
    snprintf(wrong, WRONG_SIZE, "elements travelled by codec %d, not %d", (int)used, (int)op->codec);
    return false;
}

/* Returns false, and describes the first wrong element in `wrong`, unless all elements match the table. */
static bool check(const struct op *op, const uint8_t *at, int type, size_t count, const struct table *table,
                  double may_be_off, const char *what, char *wrong)
{
    const struct datatype *datatype = values_datatype(type);
    size_t bytes = datatype->bytes;
    for (size_t i = 0; i < count; i++) {
        unsigned p = phase(op, i);
        if (memcmp(at + i * bytes, table->bytes[p], bytes) == 0)
            continue;
        double got = value_of(datatype, read_number(datatype, at + i * bytes)), off = got - table->numbers[p];
        if (may_be_off > 0 && (off < 0 ? -off : off) <= may_be_off)
            continue;
        snprintf(wrong, WRONG_SIZE, "%s: element %zu of %zu of type %d is %g, not %g", what, i, count, type, got,
                 table->numbers[p]);
        return false;
    }
    return true;
}

/* ---- blobs ---- */

static size_t blob_length(const struct op *op, uint64_t from, uint64_t to)
{
    uint64_t random = mix(mix(from, to), op->salt);
    return random % 4 == 0 ? 0 : (random >> 8) % (op->count + 1);
}

static uint8_t blob_byte(const struct op *op, uint64_t from, uint64_t to, size_t i)
{
    return (uint8_t)mix(mix(from, to) ^ op->salt, i >> 3) ^ (uint8_t)(i * 37);
}

static void fill_blob(const struct op *op, uint8_t *at, uint64_t from, uint64_t to)
{
    for (size_t i = 0, length = blob_length(op, from, to); i < length; i++)
        at[i] = blob_byte(op, from, to, i);
}

static bool check_blob(const struct op *op, const uint8_t *at, size_t length, uint64_t from, uint64_t to,
                       const char *what, char *wrong)
{
    if (length != blob_length(op, from, to)) {
        snprintf(wrong, WRONG_SIZE, "%s: %zu bytes, not %zu", what, length, blob_length(op, from, to));
        return false;
    }
    for (size_t i = 0; i < length; i++)
        if (at[i] != blob_byte(op, from, to, i)) {
            snprintf(wrong, WRONG_SIZE, "%s: byte %zu of %zu is wrong", what, i, length);
            return false;
        }
    return true;
}

static bool in_parts(const struct op *op)
{
    return op->kind == OP_ALL_TO_ALL_V || (op->kind == OP_SCATTER_V && op->root == op->members.self);
}

static uint64_t part_to(const struct op *op, const struct members *who, uint32_t rank)
{
    return op->kind == OP_ALL_TO_ALL_V || op->kind == OP_SCATTER_V ? hash_id(&who->ids[rank]) : 0;
}

/* ---- buffers ---- */

static void free_blocks(struct op *op)
{
    for (int i = 0; i < 4; i++)
        free(op->blocks[i]);
    memset(op->blocks, 0, sizeof op->blocks);
}

/* Allocates a buffer with guard bytes behind its end. */
static uint8_t *block(struct op *op, int which, size_t bytes)
{
    op->blocks[which] = malloc(bytes + GUARD + 1);
    if (op->blocks[which] == NULL)
        history_give_up("buffer", "out of memory");
    memset(op->blocks[which], 0x5A, bytes + GUARD + 1);
    return op->blocks[which];
}

static size_t share(const struct op *op, uint32_t rank)
{
    return op->shares ? mix(op->salt, rank + 1000) % (op->count + 1) + (rank == 0) : op->count;
}

static size_t share_begin(const struct op *op, uint32_t rank)
{
    size_t begin = 0;
    for (uint32_t i = 0; i < rank; i++)
        begin += share(op, i);
    return begin;
}

static bool is_root(const struct op *op) { return op->root == op->members.self; }

/* Returns the numbers of parts of the two buffers. */
static void measure(const struct op *op, size_t *send, size_t *recv)
{
    size_t all = op->members.count;
    *send = *recv = 1;
    switch (op->kind) {
    case OP_BROADCAST:
    case OP_RECV: *send = 0; break;
    case OP_ALL_GATHER: *recv = all; break;
    case OP_REDUCE: *recv = is_root(op); break;
    case OP_GATHER: *recv = is_root(op) ? all : 0; break;
    case OP_SCATTER: *send = is_root(op) ? all : 0; break;
    case OP_ALL_TO_ALL: *send = *recv = all; break;
    case OP_REDUCE_SCATTER: *send = all; break;
    case OP_BARRIER: *send = *recv = 0; break;
    case OP_SEND: *recv = 0; break;
    default: break;
    }
}

static void arrange_blobs(struct op *op)
{
    const uint64_t self = hash_id(&op->members.ids[op->members.self]);
    const uint32_t parts = in_parts(op) ? op->members.count : 1;
    uint8_t *at = block(op, 0, parts * (op->count + 1));
    op->send = at;
    for (uint32_t i = 0; i < parts; i++, at += op->count + 1) {
        uint64_t to = in_parts(op) ? part_to(op, &op->members, i) : 0;
        op->parts[i] = (pcclPart_t){at, blob_length(op, self, to)};
        fill_blob(op, at, self, to);
    }
    op->blobs = (pcclBlobs_t)PCCL_BLOBS_INIT;
    op->options.max_bytes = 64 << 20;
}

/* Writes the input of the operation: to the buffer before it, and to a copy for comparison after it. */
static void fill_send(const struct op *op, uint8_t *send)
{
    struct table table;
    const pcclPeerId_t *self = &op->members.ids[op->members.self];
    size_t element = values_element_bytes(op->type), send_parts, recv_parts;
    bool to_each = op->kind == OP_SCATTER || op->kind == OP_ALL_TO_ALL || op->kind == OP_REDUCE_SCATTER;
    measure(op, &send_parts, &recv_parts);
    if (op->kind == OP_BROADCAST)
        send_parts = is_root(op);
    for (uint32_t i = 0; i < send_parts; i++) {
        make_own_table(op, op->type, op->reduction, self,
                       to_each               ? hash_id(&op->members.ids[i])
                       : op->kind == OP_SEND ? hash_id(&op->members.ids[op->root])
                                             : 0,
                       &table);
        size_t begin = op->kind == OP_REDUCE_SCATTER ? share_begin(op, i) : i * op->count;
        fill(op, send + begin * element, op->type, op->kind == OP_REDUCE_SCATTER ? share(op, i) : op->count, &table);
    }
}

static void arrange_coalesced(struct op *op)
{
    struct table table;
    size_t element = values_element_bytes(op->type), few = 7;
    const pcclPeerId_t *self = &op->members.ids[op->members.self];
    uint8_t *second = block(op, 2, few * 4);
    op->send = block(op, 0, op->send_bytes = op->count * element);
    op->recv = op->in_place ? op->send : block(op, 1, op->count * element);
    fill_send(op, op->send);
    make_own_table(op, pcclUint32, pcclMax, self, 0, &table);
    fill(op, second, pcclUint32, few, &table);
    op->tensors[0] = (pcclCoalescedTensor_t){op->send, op->recv, op->count, (pcclDataType_t)op->type, op->reduction};
    op->tensors[1] = (pcclCoalescedTensor_t){second, block(op, 3, few * 4), few, pcclUint32, pcclMax};
}

static bool may_be_in_place(const struct op *op)
{
    return op->kind == OP_ALL_REDUCE || op->kind == OP_ALL_GATHER || op->kind == OP_REDUCE_SCATTER ||
           (op->kind == OP_REDUCE && is_root(op)) || op->kind == OP_COALESCED || scans(op);
}

static void arrange_elements(struct op *op)
{
    size_t element = values_element_bytes(op->type), send, recv, self = op->members.self;
    measure(op, &send, &recv);
    op->send_bytes = send * op->count * element;
    op->recv_bytes = recv * op->count * element;
    if (op->kind == OP_REDUCE_SCATTER) {
        op->send_bytes = share_begin(op, op->members.count) * element;
        op->recv_bytes = share(op, op->members.self) * element;
    }
    op->in_place = op->in_place && may_be_in_place(op);
    if (op->in_place && op->kind == OP_ALL_GATHER) {
        op->recv = block(op, 1, op->recv_bytes);
        op->send = op->recv + self * op->count * element;
    } else {
        op->send = block(op, 0, op->send_bytes);
        op->recv = op->in_place ? op->send : block(op, 1, op->recv_bytes);
        if (op->in_place && op->kind == OP_REDUCE_SCATTER)
            op->recv = op->send + share_begin(op, op->members.self) * element;
    }
    fill_send(op, op->kind == OP_BROADCAST ? op->recv : op->send);
}

void op_arrange(struct op *op)
{
    op->info = (pcclOperationInfo_t)PCCL_OPERATION_INFO_INIT;
    op->info.participants = op->participants;
    op->info.participants_max = MEMBERS_MAX;
    op->options.members = op->counted ? op->members.ids : NULL;
    op->options.member_count = op->counted ? op->members.count : 0;
    if (reduces(op) && op->reduction == pcclPremulSum)
        op->options.factor = factor_of(op, &op->members.ids[op->members.self]);
    if (has_blobs(op))
        arrange_blobs(op);
    else if (op->kind == OP_COALESCED)
        arrange_coalesced(op);
    else
        arrange_elements(op);
    if (!op->shares)
        return;
    for (uint32_t i = 0; i < op->members.count; i++)
        op->counts[i] = share(op, i);
    op->options.counts = op->counts;
    op->options.counts_length = op->members.count;
}

void op_rearrange(struct op *op, const struct members *members)
{
    op->members = *members;
    op->root = has_root(op) ? op->drawn % members->count : 0;
    op->in_place = draw_in_place(op);
    free_blocks(op); /* not all may be needed again */
    op_arrange(op);
}

/* ---- calls ---- */

static size_t given_count(const struct op *op)
{
    return op->kind == OP_REDUCE_SCATTER && op->shares ? share_begin(op, op->members.count) : op->count;
}

static void arrived(const pcclBlob_t *part, void *user_data)
{
    struct op *op = user_data;
    op->arrivals += part->data != NULL;
}

void op_describe(struct op *op, pcclOperation_t *entry)
{
    *entry = (pcclOperation_t)PCCL_OPERATION_INIT;
    entry->collective = (pcclCollective_t)op->kind;
    entry->sendbuf = op->kind == OP_BROADCAST ? NULL : op->send;
    entry->recvbuf = op->recv;
    entry->count = given_count(op);
    entry->datatype = (pcclDataType_t)op->type;
    entry->op = op->reduction;
    entry->root = op->root;
    entry->options = &op->options;
    entry->info = &op->info;
    if (has_blobs(op)) {
        entry->blobs = &op->blobs;
        entry->recvbuf = NULL;
        entry->count = in_parts(op) ? op->members.count : op->parts[0].length;
        entry->sendbuf = in_parts(op) ? (const void *)op->parts : op->parts[0].data;
    }
    if (op->kind == OP_COALESCED) {
        entry->sendbuf = op->tensors;
        entry->recvbuf = NULL;
        entry->count = 2;
    }
}

static pcclResult_t launch(struct op *op, const pcclComm_t *comm)
{
    const pcclDataType_t type = (pcclDataType_t)op->type;
    const pcclCollectiveOptions_t *options = &op->options;
    pcclAsyncReduceOp_t *handle = &op->handle;
    const void *blob = op->parts[0].data;
    size_t length = op->parts[0].length, count = given_count(op), parts = op->members.count;
    switch (op->kind) {
    case OP_ALL_REDUCE:
        return pcclAllReduceWithOptionsAsync(op->send, op->recv, count, type, op->reduction, options, comm, handle);
    case OP_BROADCAST: return pcclBroadcastAsync(op->recv, count, type, op->root, options, comm, handle);
    case OP_ALL_GATHER: return pcclAllGatherAsync(op->send, op->recv, count, type, options, comm, handle);
    case OP_REDUCE_SCATTER:
        return pcclReduceScatterAsync(op->send, op->recv, count, type, op->reduction, options, comm, handle);
    case OP_BARRIER: return pcclBarrierAsync(options, comm, handle);
    case OP_ALL_GATHER_V: return pcclAllGatherVAsync(blob, length, options, comm, &op->blobs, handle);
    case OP_REDUCE:
        return pcclReduceAsync(op->send, op->recv, count, type, op->reduction, op->root, options, comm, handle);
    case OP_GATHER: return pcclGatherAsync(op->send, op->recv, count, type, op->root, options, comm, handle);
    case OP_SCATTER: return pcclScatterAsync(op->send, op->recv, count, type, op->root, options, comm, handle);
    case OP_ALL_TO_ALL: return pcclAllToAllAsync(op->send, op->recv, count, type, options, comm, handle);
    case OP_GATHER_V: return pcclGatherVAsync(blob, length, op->root, options, comm, &op->blobs, handle);
    case OP_SCATTER_V: return pcclScatterVAsync(op->parts, parts, op->root, options, comm, &op->blobs, handle);
    case OP_ALL_TO_ALL_V: return pcclAllToAllVAsync(op->parts, parts, options, comm, &op->blobs, handle);
    case OP_COALESCED: return pcclAllReduceCoalescedAsync(op->tensors, 2, options, comm, handle);
    case OP_SEND: return pcclSendAsync(op->send, count, type, op->root, options, comm, handle);
    case OP_RECV: return pcclRecvAsync(op->recv, count, type, op->root, options, comm, handle);
    case OP_EXCLUSIVE_SCAN:
        return pcclExclusiveScanAsync(op->send, op->recv, count, type, op->reduction, options, comm, handle);
    case OP_INCLUSIVE_SCAN:
        return pcclInclusiveScanAsync(op->send, op->recv, count, type, op->reduction, options, comm, handle);
    case OP_KINDS: break;
    }
    return pcclInvalidArgument;
}

pcclResult_t op_ended(struct op *op, pcclResult_t result, const pcclComm_t *comm)
{
    if (result != pcclSuccess)
        snprintf(op->words, sizeof op->words, "%s", pcclGetLastError(comm));
    return result;
}

/* Returns true if a shortage at this peer prevented the launch. Programs retry then, because other members wait. */
static bool op_is_refused(struct op *op, pcclResult_t result, const pcclComm_t *comm)
{
    pcclFailure_t failure = PCCL_FAILURE_INIT;
    op->refused = (result == pcclInternalError || result == pcclOutOfMemory) &&
                  pcclGetLastFailure(comm, &failure) == pcclSuccess && !failure.launched;
    return op->refused;
}

pcclResult_t op_launch(struct op *op, const pcclComm_t *comm)
{
    if (has_blobs(op)) {
        op->options.on_arrival = arrived;
        op->options.user_data = op;
    }
    op->number = history_begin(op_name(op), op->key);
    pcclResult_t result;
    for (int tries = 0; op_is_refused(op, result = launch(op, comm), comm) && tries < TRIES; tries++)
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    op->launched = result == pcclSuccess;
    return op_ended(op, result, comm);
}

static pcclResult_t call(struct op *op, const pcclComm_t *comm)
{
    const pcclDataType_t type = (pcclDataType_t)op->type;
    const pcclCollectiveOptions_t *options = &op->options;
    size_t count = given_count(op);
    switch (op->kind) {
    case OP_ALL_REDUCE:
        return pcclAllReduceWithOptions(op->send, op->recv, count, type, op->reduction, options, comm, &op->info);
    case OP_BROADCAST: return pcclBroadcast(op->recv, count, type, op->root, options, comm, &op->info);
    case OP_REDUCE_SCATTER:
        return pcclReduceScatter(op->send, op->recv, count, type, op->reduction, options, comm, &op->info);
    case OP_BARRIER: return pcclBarrier(options, comm, &op->info);
    case OP_ALL_GATHER: return pcclAllGather(op->send, op->recv, count, type, options, comm, &op->info);
    case OP_ALL_TO_ALL: return pcclAllToAll(op->send, op->recv, count, type, options, comm, &op->info);
    case OP_SEND: return pcclSend(op->send, count, type, op->root, options, comm, &op->info);
    case OP_RECV: return pcclRecv(op->recv, count, type, op->root, options, comm, &op->info);
    case OP_EXCLUSIVE_SCAN:
        return pcclExclusiveScan(op->send, op->recv, count, type, op->reduction, options, comm, &op->info);
    case OP_INCLUSIVE_SCAN:
        return pcclInclusiveScan(op->send, op->recv, count, type, op->reduction, options, comm, &op->info);
    default: break;
    }
    pcclResult_t result = launch(op, comm);
    op->launched = result == pcclSuccess;
    return op->launched ? pcclAwaitOperation(&op->handle, UINT32_MAX, &op->info) : result;
}

pcclResult_t op_carry_out(struct op *op, const pcclComm_t *comm)
{
    pcclResult_t result;
    op->number = history_begin(op_name(op), op->key);
    for (int tries = 0; op_is_refused(op, result = call(op, comm), comm) && tries < TRIES; tries++)
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    return op_ended(op, result, comm);
}

/* ---- results ---- */

static bool check_guards(const struct op *op, char *wrong)
{
    const size_t ends[] = {op->send_bytes, op->recv_bytes};
    for (int which = 0; which < 2; which++)
        for (size_t i = 0; op->blocks[which] != NULL && !has_blobs(op) && op->kind != OP_COALESCED && i < GUARD; i++)
            if (op->blocks[which][ends[which] + i] != 0x5A) {
                snprintf(wrong, WRONG_SIZE, "byte %zu behind the end of a buffer was written", i);
                return false;
            }
    return true;
}

/* Returns true if the input is unchanged, or replaced by the result of a success in place. */
static bool check_intact(const struct op *op, bool success, char *wrong)
{
    bool replaced = success && (op->in_place || op->kind == OP_BROADCAST);
    if (replaced || op->kind == OP_BARRIER)
        return true;
    if (has_blobs(op)) {
        uint64_t self = hash_id(&op->members.ids[op->members.self]);
        for (uint32_t i = 0; i < (in_parts(op) ? op->members.count : 1); i++)
            if (!check_blob(op, op->parts[i].data, op->parts[i].length, self,
                            in_parts(op) ? part_to(op, &op->members, i) : 0, "the input has changed", wrong))
                return false;
        return true;
    }
    size_t bytes = op->kind == OP_BROADCAST ? (is_root(op) ? op->recv_bytes : 0) : op->send_bytes;
    if (op->kind == OP_ALL_GATHER)
        bytes = op->count * values_element_bytes(op->type);
    const uint8_t *now = op->kind == OP_BROADCAST ? op->recv : op->send;
    uint8_t *before = malloc(bytes + 1);
    if (before == NULL)
        history_give_up("buffer", "out of memory");
    fill_send(op, before);
    size_t i = 0;
    while (i < bytes && now[i] == before[i])
        i++;
    free(before);
    if (i < bytes)
        snprintf(wrong, WRONG_SIZE, "byte %zu of %zu of the input has changed%s", i, bytes,
                 op->in_place ? ", in place" : "");
    return i == bytes;
}

static bool check_blobs(const struct op *op, const struct members *who, char *wrong)
{
    uint64_t self = hash_id(&op->members.ids[op->members.self]);
    bool from_root = op->kind == OP_SCATTER_V;
    size_t want = from_root ? 1 : op->kind == OP_GATHER_V && !is_root(op) ? 0 : who->count;
    if (op->blobs.count != want) {
        snprintf(wrong, WRONG_SIZE, "%zu blobs, not %zu", op->blobs.count, want);
        return false;
    }
    if (op->options.on_arrival != NULL && op->arrivals != want) {
        snprintf(wrong, WRONG_SIZE, "%u parts were shown, not %zu", op->arrivals, want);
        return false;
    }
    for (uint32_t i = 0; i < want; i++) {
        const pcclBlob_t *blob = &op->blobs.blobs[i];
        const pcclPeerId_t *from = &who->ids[from_root ? op->root : i];
        if (strcmp(blob->peer.digits, from->digits) != 0) {
            snprintf(wrong, WRONG_SIZE, "blob %u is of another peer", i);
            return false;
        }
        uint64_t to = op->kind == OP_ALL_TO_ALL_V || from_root ? self : 0;
        if (!check_blob(op, blob->data, blob->length, hash_id(from), to, "blob", wrong))
            return false;
    }
    return true;
}

/* Checks parts, each of which is the input of one peer. */
static bool check_parts(const struct op *op, const struct members *who, uint32_t parts, bool from_root, char *wrong)
{
    struct table table;
    const pcclPeerId_t *self = &op->members.ids[op->members.self];
    bool to_each = op->kind == OP_SCATTER || op->kind == OP_ALL_TO_ALL || op->kind == OP_RECV;
    size_t bytes = op->count * values_element_bytes(op->type);
    for (uint32_t i = 0; i < parts; i++) {
        const pcclPeerId_t *from = &who->ids[from_root ? op->root : i];
        char what[40];
        snprintf(what, sizeof what, "part %u, of %.8s", i, from->digits);
        make_own_table(op, op->type, op->reduction, from, to_each ? hash_id(self) : 0, &table);
        if (!check(op, op->recv + i * bytes, op->type, op->count, &table, tolerance(op, 1), what, wrong))
            return false;
    }
    return true;
}

static bool check_reduced(const struct op *op, const struct members *who, char *wrong)
{
    struct table table;
    size_t count = op->kind == OP_REDUCE_SCATTER ? share(op, op->members.self) : op->count;
    uint64_t to = op->kind == OP_REDUCE_SCATTER ? hash_id(&op->members.ids[op->members.self]) : 0;
    make_table(op, op->type, op->reduction, who, to, &table);
    if (op->kind == OP_REDUCE && !is_root(op))
        return true;
    if (!check(op, op->recv, op->type, count, &table, tolerance(op, who->count), "result", wrong))
        return false;
    if (op->kind != OP_COALESCED)
        return true;
    make_table(op, pcclUint32, pcclMax, who, 0, &table);
    return check(op, op->tensors[1].recvbuf, pcclUint32, op->tensors[1].count, &table, 0, "second tensor", wrong);
}

static bool check_scan(const struct op *op, const struct members *who, char *wrong)
{
    struct table table;
    struct members lower = *who;
    lower.count = 0;
    while (lower.count < who->count &&
           strcmp(who->ids[lower.count].digits, op->members.ids[op->members.self].digits) != 0)
        lower.count++;
    lower.count += op->kind == OP_INCLUSIVE_SCAN;
    make_table(op, op->type, op->reduction, &lower, 0, &table);
    return check(op, op->recv, op->type, op->count, &table, 0, "scan", wrong);
}

static bool check_result(const struct op *op, const struct members *who, char *wrong)
{
    struct members sender;
    switch (op->kind) {
    case OP_BARRIER:
    case OP_SEND: return true;
    case OP_ALL_GATHER:
    case OP_ALL_TO_ALL: return check_parts(op, who, who->count, false, wrong);
    case OP_GATHER: return check_parts(op, who, is_root(op) ? who->count : 0, false, wrong);
    case OP_BROADCAST:
    case OP_SCATTER: return check_parts(op, who, 1, true, wrong);
    case OP_RECV: sender = only(&op->participants[0]); return check_parts(op, &sender, 1, false, wrong);
    case OP_EXCLUSIVE_SCAN:
    case OP_INCLUSIVE_SCAN: return check_scan(op, who, wrong);
    default: return has_blobs(op) ? check_blobs(op, who, wrong) : check_reduced(op, who, wrong);
    }
}

/*
 * Checks an operation of unknown outcome: the input is unchanged or, in place, replaced by the whole result of this
 * peer and any others of its members.
 */
static bool check_unknown(struct op *op, char *wrong)
{
    char why[WRONG_SIZE];
    const uint32_t count = op->members.count, all = (1u << count) - 1;
    if (check_intact(op, false, wrong))
        return true;
    if (!op->in_place && op->kind != OP_BROADCAST)
        return false;
    op->info.codec = op->codec == pcclQuantAuto ? pcclQuantZeroPointScale : op->codec;
    for (uint32_t set = 1; set <= all; set++) {
        struct members who = {.count = 0};
        for (uint32_t i = 0; i < count; i++)
            if ((set >> i & 1) != 0)
                who.ids[who.count++] = op->members.ids[i];
        bool possible = set == all || (!op->counted && !op->of_group && (set >> op->members.self & 1) != 0);
        if (possible && check_result(op, &who, why)) {
            wrong[0] = 0;
            return true;
        }
    }
    snprintf(wrong + strlen(wrong), WRONG_SIZE - strlen(wrong), "; nor has it the result of all: %.99s", why);
    return false;
}

uint64_t op_digest(const struct op *op)
{
    uint64_t digest = 0;
    switch (op->kind) {
    case OP_ALL_REDUCE:
    case OP_BROADCAST:
    case OP_ALL_GATHER: return values_digest(op->recv, op->recv_bytes, 0);
    case OP_COALESCED:
        digest = values_digest(op->recv, op->count * values_element_bytes(op->type), 0);
        return values_digest(op->tensors[1].recvbuf, op->tensors[1].count * 4, digest);
    case OP_ALL_GATHER_V:
        for (size_t i = 0; i < op->blobs.count; i++)
            digest = values_digest(op->blobs.blobs[i].data, op->blobs.blobs[i].length, digest);
        return digest;
    default: return 0;
    }
}

void op_free(struct op *op)
{
    (void)pcclFreeBlobs(&op->blobs);
    free_blocks(op);
}

/* Writes short ids as the rest of a JSON list. Returns the length. */
static int put_ids(char *room, size_t size, const struct members *who)
{
    int at = 0;
    for (uint32_t i = 0; i < who->count; i++)
        at += snprintf(room + at, size - (size_t)at, "%s\"%.12s\"", i > 0 ? "," : "", who->ids[i].digits);
    return at + snprintf(room + at, size - (size_t)at, "]");
}

/* Adds the first wrong element to the end of a call. */
static void put_wrong(char *room, size_t size, bool right, const char *wrong)
{
    char quoted[WRONG_SIZE * 2];
    room[0] = 0;
    if (!right)
        snprintf(room, size, ",\"wrong\":%s", history_quote(wrong, quoted, sizeof quoted));
}

void op_forget(struct op *op, pcclResult_t result)
{
    char more[HISTORY_LINE / 2], wrong[WRONG_SIZE] = "";
    bool right = check_unknown(op, wrong) && check_guards(op, wrong);
    int at = snprintf(more, sizeof more, "%s", result == pcclSuccess ? ",\"left\":1" : "");
    put_wrong(more + at, sizeof more - (size_t)at, right, wrong);
    history_end(op->number, result, op->words, more);
    op_free(op);
}

void op_finish(struct op *op, pcclResult_t result)
{
    char more[HISTORY_LINE / 2], wrong[WRONG_SIZE] = "";
    struct members who = {.count = 0};
    int at = 0;
    bool success = result == pcclSuccess;
    if (success) {
        who.count = op->info.world < MEMBERS_MAX ? op->info.world : MEMBERS_MAX;
        memcpy(who.ids, op->participants, sizeof who.ids);
        at = snprintf(more, sizeof more, ",\"digest\":\"%016" PRIx64 "\",\"rank\":%u,\"who\":[", op_digest(op),
                      op->info.rank);
        at += put_ids(more + at, sizeof more - (size_t)at, &who);
        if (!is_send(op) && (op->counted || op->of_group)) {
            at += snprintf(more + at, sizeof more - (size_t)at, ",\"named\":[");
            at += put_ids(more + at, sizeof more - (size_t)at, &op->members);
        }
    }
    bool right = check_intact(op, success, wrong) && check_guards(op, wrong) &&
                 (!success || (check_codec(op, wrong) && check_result(op, &who, wrong)));
    put_wrong(more + at, sizeof more - (size_t)at, right, wrong);
    history_end(op->number, result, op->words, more);
    op_free(op);
}

/* Random valid messages, made from the field tables, for round-trip tests and as seeds for fuzzers. */
#include "support/wire_random.h"

#include "kernels/reduce.h"
#include "wire/choice.h"
#include "wire/packing.h"
#include "wire/subgroup.h"

#include <string.h>

struct maker {
    struct pccl_prng *prng;
    struct pccl_wire_scratch *scratch;
    size_t used;
};

static void make_object(struct maker *m, const struct pccl_wire_layout *layout, void *object);

static uint8_t *reserve(struct maker *m, size_t bytes)
{
    size_t start = (m->used + 15) / 16 * 16;
    PCCL_ASSERT(start + bytes <= PCCL_WIRE_SCRATCH_BYTES); /* wire.c proves it for every message */
    m->used = start + bytes;
    return m->scratch->bytes + start;
}

/* Mostly edge values and small numbers, where mistakes are likely. */
static uint64_t make_integer(struct maker *m, uint64_t least, uint64_t most)
{
    uint64_t span = most - least;
    switch (pccl_prng_below(m->prng, 8)) {
    case 0: return least;
    case 1: return most;
    case 2:
    case 3: return least + pccl_prng_below(m->prng, pccl_min_u64(span, 8) + 1);
    default: return least + (span == UINT64_MAX ? pccl_prng_u64(m->prng) : pccl_prng_below(m->prng, span + 1));
    }
}

static uint32_t make_length(struct maker *m, uint32_t cap)
{
    if (pccl_prng_chance(m->prng, 10000))
        return cap;
    uint64_t bound = pccl_prng_chance(m->prng, 700000) ? 5 : 70;
    return (uint32_t)pccl_prng_below(m->prng, pccl_min_u64(bound, cap) + 1);
}

static struct pccl_id make_id(struct maker *m, bool not_zero)
{
    struct pccl_id id = pccl_prng_id(m->prng);
    if (not_zero)
        id.bytes[15] |= 1;
    else if (pccl_prng_chance(m->prng, 200000))
        memset(&id, 0, sizeof id);
    return id;
}

static struct pccl_address make_address(struct maker *m)
{
    uint64_t ip = pccl_prng_u64(m->prng);
    uint16_t port = (uint16_t)make_integer(m, 0, UINT16_MAX);
    struct pccl_address address =
        pccl_address_v4((uint8_t)ip, (uint8_t)(ip >> 8), (uint8_t)(ip >> 16), (uint8_t)(ip >> 24), port);
    if (pccl_prng_chance(m->prng, 300000)) {
        struct pccl_id random = pccl_prng_id(m->prng);
        memcpy(address.ip, random.bytes, sizeof address.ip);
    }
    return address;
}

static struct pccl_bytes make_bytes(struct maker *m, const struct pccl_wire_field *field)
{
    uint32_t length = make_length(m, field->cap);
    uint8_t *bytes = reserve(m, length);
    for (uint32_t i = 0; i < length; i++)
        bytes[i] = (uint8_t)pccl_prng_u64(m->prng);
    return (struct pccl_bytes){bytes, length};
}

/* Letters, now and then a character of several bytes. */
static struct pccl_bytes make_text(struct maker *m, const struct pccl_wire_field *field)
{
    static const struct {
        const char *bytes;
        uint32_t size;
    } wide[] = {{"\xc3\xa9", 2}, {"\xe2\x82\xac", 3}, {"\xf0\x9f\x90\x8c", 4}};
    uint32_t length = make_length(m, field->cap);
    uint8_t *bytes = reserve(m, length);
    for (uint32_t at = 0, size; at < length; at += size) {
        uint64_t which = pccl_prng_below(m->prng, 40);
        size = which < PCCL_COUNT_OF(wide) ? wide[which].size : 1;
        if (size == 1 || size > length - at) {
            size = 1;
            bytes[at] = (uint8_t)(' ' + pccl_prng_below(m->prng, 95));
        } else {
            memcpy(bytes + at, wide[which].bytes, size);
        }
    }
    return (struct pccl_bytes){bytes, length};
}

static void mend_codec(struct pccl_descriptor *descriptor)
{
    if (descriptor->codec < PCCL_PACKING_SCALED) {
        descriptor->codec_scale = descriptor->codec_rounding = 0;
        descriptor->codec_block = 0;
    } else {
        descriptor->codec_datatype = 0;
        descriptor->codec_block = (uint16_t)(PCCL_SCALED_BLOCK_MIN << descriptor->codec_block % 5);
    }
}

static uint8_t level_of(const struct pccl_descriptor *descriptor)
{
    return (uint8_t)((descriptor->budget_ms + descriptor->budget_percent) % PCCL_LEVELS);
}

static bool chooses(const struct pccl_descriptor *descriptor, uint8_t tiny)
{
    return pccl_choice_is_automatic(descriptor) && tiny == 0;
}

/* One in four that may have an automatic codec has one, one in two of these with a share of the time. */
static void mend_budget(struct pccl_descriptor *descriptor)
{
    if (descriptor->budget_ms % 16 >= 4 || pccl_choice_misfit(descriptor) != NULL)
        descriptor->budget_ms = descriptor->budget_percent = 0;
    if (descriptor->budget_percent > PCCL_BUDGET_PERCENT_MAX / 2)
        descriptor->budget_ms = 0;
    else
        descriptor->budget_percent = 0;
    if (!pccl_choice_is_automatic(descriptor))
        return;
    descriptor->codec_block = PCCL_SCALED_BLOCK_MIN;
    pccl_choice_apply((enum pccl_level)level_of(descriptor), descriptor, descriptor);
}

/* Returns how many there are. With a choice, it is of the level. */
static uint32_t mend_choice(struct maker *m, const struct pccl_choice **choice, uint32_t count, bool is_one,
                            uint8_t level)
{
    if (!is_one)
        return 0;
    struct pccl_choice *made = (void *)reserve(m, sizeof *made);
    *made = count > 0 ? **choice : (struct pccl_choice){.why = PCCL_CHOICE_KEPT};
    made->level = level;
    *choice = made;
    return 1;
}

/* Clears fields that the collective does not use. A descriptor with random fields would rarely be valid. */
static void mend_operation(struct pccl_instance *instance, struct pccl_descriptor *descriptor)
{
    const uint8_t collective = descriptor->collective;
    const struct pccl_collective_row *row = pccl_collective(collective);
    if (collective == PCCL_FOUND)
        instance->subgroup = PCCL_FOUNDING;
    else
        instance->subgroup /= 2;
    if (collective == PCCL_SEND)
        instance->pair |= 1;
    else
        instance->pair = 0;
    if (!row->reduces)
        descriptor->operation = 0;
    if (row->of == PCCL_OF_TENSORS) {
        descriptor->datatype = PCCL_U8;
        descriptor->operation = PCCL_SUM;
        descriptor->counts.bytes[0] |= 1;
    }
    if (!row->has_counts || (row->of == PCCL_OF_BLOBS && descriptor->count % 2 != 0))
        memset(&descriptor->counts, 0, sizeof descriptor->counts);
    if (pccl_row_has_root(row))
        descriptor->root.bytes[0] |= 1;
    else
        memset(&descriptor->root, 0, sizeof descriptor->root);
    if (row->of == PCCL_OF_NOTHING)
        descriptor->datatype = descriptor->codec = 0;
    if (row->of == PCCL_OF_ELEMENTS && row->codecs == PCCL_NEVER_PACKED)
        descriptor->codec = descriptor->codec_datatype = 0;
    if (pccl_row_misfit(row, descriptor->datatype, descriptor->operation) != NULL)
        descriptor->operation = PCCL_MAX;
    mend_codec(descriptor);
    mend_budget(descriptor);
    if (collective == PCCL_BARRIER)
        descriptor->count = 0;
    if (collective == PCCL_FOUND)
        descriptor->count = 2 + descriptor->count % (PCCL_PEERS_MAX - 1);
}

static void mend_payload(const struct pccl_instance *instance, struct pccl_bytes *payload)
{
    if (instance->subgroup != PCCL_FOUNDING && payload->length > PCCL_TINY_BYTES_MAX)
        payload->length = PCCL_TINY_BYTES_MAX;
}

static void mend_done(struct maker *m, struct pccl_msg_done *done)
{
    mend_operation(&done->instance, &done->descriptor);
    mend_payload(&done->instance, &done->payload);
    done->choice_count = mend_choice(m, &done->choice, done->choice_count, chooses(&done->descriptor, done->tiny),
                                     level_of(&done->descriptor));
}

static void mend_resume_operation(struct maker *m, struct pccl_msg_resume_operation *operation)
{
    mend_operation(&operation->instance, &operation->descriptor);
    mend_payload(&operation->instance, &operation->payload);
    const bool chosen = operation->state == PCCL_RESUME_DONE || operation->state == PCCL_RESUME_COMMITTED;
    operation->choice_count =
        mend_choice(m, &operation->choice, operation->choice_count,
                    chosen && chooses(&operation->descriptor, operation->tiny), level_of(&operation->descriptor));
}

/* Links in ascending order, of different peers, and operations in ascending order, with different keys. */
static void sort_report(struct maker *m, struct pccl_msg_sight *telemetry)
{
    struct pccl_seen_link *links = (void *)reserve(m, telemetry->links_count * sizeof *links);
    for (uint32_t i = 0; i < telemetry->links_count; i++) {
        links[i] = telemetry->links[i];
        links[i].peer.bytes[0] = (uint8_t)(i + 1);
    }
    telemetry->links = links;
    struct pccl_seen_round *rounds = (void *)reserve(m, telemetry->rounds_count * sizeof *rounds);
    for (uint32_t i = 0; i < telemetry->rounds_count; i++) {
        rounds[i] = telemetry->rounds[i];
        rounds[i].key = rounds[i].key >> 4 | (uint64_t)i << 60;
    }
    telemetry->rounds = rounds;
}

static void mend(struct maker *m, struct pccl_msg *msg)
{
    switch (msg->type) {
    case PCCL_MSG_vote:
        if (msg->as.vote.kind != PCCL_ROUND_OPTIMIZE)
            msg->as.vote.unable.length = 0;
        else
            msg->as.vote.drain = 0;
        if (msg->as.vote.kind == PCCL_ROUND_SYNC)
            msg->as.vote.drain = 0;
        break;
    case PCCL_MSG_done: mend_done(m, &msg->as.done); break;
    case PCCL_MSG_resume_operation: mend_resume_operation(m, &msg->as.resume_operation); break;
    case PCCL_MSG_ready: mend_operation(&msg->as.ready.instance, &msg->as.ready.descriptor); break;
    case PCCL_MSG_outcome:
        mend_payload(&msg->as.outcome.instance, &msg->as.outcome.result);
        if (msg->as.outcome.class != PCCL_CLASS_NONE || msg->as.outcome.tiny != 0)
            msg->as.outcome.choice_count = 0;
        break;
    case PCCL_MSG_sight: sort_report(m, &msg->as.sight); break;
    case PCCL_MSG_resume_subgroup:
        msg->as.resume_subgroup.founding.subgroup = PCCL_FOUNDING;
        msg->as.resume_subgroup.founding.pair = 0;
        break;
    default: break;
    }
}

static void make_list(struct maker *m, const struct pccl_wire_field *field, void *object)
{
    const struct pccl_wire_layout *item = field->layout();
    uint32_t count = make_length(m, field->cap);
    uint8_t *items = reserve(m, (size_t)count * item->size);
    for (uint32_t i = 0; i < count; i++)
        make_object(m, item, items + (size_t)i * item->size);
    const void *list = items;
    memcpy((uint8_t *)object + field->offset, &list, sizeof list);
    memcpy((uint8_t *)object + field->count_offset, &count, sizeof count);
}

static void make_field(struct maker *m, const struct pccl_wire_field *field, void *object)
{
    void *target = (uint8_t *)object + field->offset;
    switch (field->kind) {
    case PCCL_WIRE_U8: *(uint8_t *)target = (uint8_t)make_integer(m, field->least, field->most); break;
    case PCCL_WIRE_U16: *(uint16_t *)target = (uint16_t)make_integer(m, field->least, field->most); break;
    case PCCL_WIRE_U32: *(uint32_t *)target = (uint32_t)make_integer(m, field->least, field->most); break;
    case PCCL_WIRE_U64: *(uint64_t *)target = make_integer(m, field->least, field->most); break;
    case PCCL_WIRE_ID:
    case PCCL_WIRE_SECRET: *(struct pccl_id *)target = make_id(m, field->least > 0); break;
    case PCCL_WIRE_ADDRESS: *(struct pccl_address *)target = make_address(m); break;
    case PCCL_WIRE_BYTES: *(struct pccl_bytes *)target = make_bytes(m, field); break;
    case PCCL_WIRE_TEXT: *(struct pccl_bytes *)target = make_text(m, field); break;
    case PCCL_WIRE_STRUCT: make_object(m, field->layout(), target); break;
    case PCCL_WIRE_LIST: make_list(m, field, object); break;
    }
}

static void make_object(struct maker *m, const struct pccl_wire_layout *layout, void *object)
{
    memset(object, 0, layout->size);
    for (uint32_t i = 0; i < layout->field_count; i++)
        make_field(m, &layout->fields[i], object);
}

void pccl_wire_random(uint16_t type, struct pccl_prng *prng, struct pccl_wire_scratch *scratch, struct pccl_msg *msg)
{
    const struct pccl_wire_layout *layout = pccl_wire_layout_of(type);
    PCCL_ASSERT(layout != NULL);
    do { /* at least one message in seven satisfies the rules over several fields */
        struct maker maker = {prng, scratch, 0};
        memset(msg, 0, sizeof *msg);
        msg->type = type;
        make_object(&maker, layout, &msg->as);
        mend(&maker, msg);
    } while (pccl_wire_invalid(msg) != NULL);
}

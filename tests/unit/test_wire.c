/*
 * The codec compared with its own description. Golden bytes: tests/wire/golden.txt has printed messages and their
 * frames; it is written again after each change of the schema or of PCCL_PROTOCOL_VERSION:
 *   test_wire --write-golden > tests/wire/golden.txt
 */
#include "unit.h"
#include "kernels/reduce.h"
#include "support.h"
#include "support/wire_print.h"
#include "support/wire_random.h"
#include "wire/choice.h"
#include "wire/frame.h"
#include "wire/packing.h"
#include "wire/subgroup.h"

static struct pccl_wire_scratch made, decoded;
static uint8_t bytes[PCCL_FRAME_BODY_MAX * 2], again[PCCL_FRAME_BODY_MAX];

static bool decodes(uint16_t type, size_t length, struct pccl_msg *msg, struct pccl_text *reason)
{
    pccl_text_clear(reason);
    bool ok = pccl_wire_decode(type, bytes, length, &decoded, msg, reason) == PCCL_OK;
    assert_int_equal(reason->length > 0, !ok);
    return ok;
}

static void must_be_malformed(const struct pccl_msg *msg, const char *part)
{
    struct pccl_msg back;
    struct pccl_text reason;
    pccl_wire_encode(msg, bytes);
    if (decodes(msg->type, pccl_wire_size(msg), &back, &reason))
        fail_msg("%s accepted in spite of %s", pccl_wire_name(msg->type), part);
    if (strstr(reason.bytes, part) == NULL)
        fail_msg("reason \"%s\" does not say \"%s\"", reason.bytes, part);
    assert_int_equal(back.type, 0);
}

static void round_trip(const struct pccl_msg *msg)
{
    struct pccl_msg back;
    struct pccl_text reason, a, b;
    size_t length = pccl_wire_size(msg);
    assert_true(length <= PCCL_FRAME_BODY_MAX);
    memset(bytes, 0x5a, length + 1);
    pccl_wire_encode(msg, bytes);
    assert_int_equal(bytes[length], 0x5a);
    if (!decodes(msg->type, length, &back, &reason))
        fail_msg("%s", reason.bytes);
    assert_int_equal(back.type, msg->type);
    assert_int_equal(pccl_wire_size(&back), length);
    pccl_wire_encode(&back, again);
    assert_memory_equal(bytes, again, length);
    pccl_wire_print(msg, &a);
    pccl_wire_print(&back, &b);
    assert_string_equal(a.bytes, b.bytes);
}

TEST(test_random_messages_round_trip)
{
    struct pccl_prng prng = unit_prng(1);
    uint32_t count = 0;
    while (count < 20000) {
        for (uint16_t type = 0; type < PCCL_MSG_TYPES_MAX; type++) {
            if (pccl_wire_layout_of(type) == NULL)
                continue;
            struct pccl_msg msg;
            pccl_wire_random(type, &prng, &made, &msg);
            round_trip(&msg);
            count++;
        }
    }
}

TEST(test_truncated_and_trailing)
{
    struct pccl_prng prng = unit_prng(2);
    for (uint16_t type = 0; type < PCCL_MSG_TYPES_MAX; type++) {
        for (int round = 0; round < 10 && pccl_wire_layout_of(type) != NULL; round++) {
            struct pccl_msg msg, back;
            struct pccl_text reason;
            do
                pccl_wire_random(type, &prng, &made, &msg);
            while (pccl_wire_size(&msg) > 4000);
            size_t length = pccl_wire_size(&msg);
            pccl_wire_encode(&msg, bytes);
            bytes[length] = 0;
            for (size_t cut = 0; cut < length; cut++) {
                /* an exact copy: a read past the end is caught by the sanitizer */
                uint8_t *exact = malloc(cut + 1);
                memcpy(exact, bytes, cut);
                assert_int_equal(pccl_wire_decode(type, cut == 0 ? NULL : exact, cut, &decoded, &back, &reason),
                                 PCCL_MALFORMED);
                free(exact);
            }
            assert_false(decodes(type, length + 1, &back, &reason));
            assert_non_null(strstr(reason.bytes, "unexpected bytes after the last field"));
        }
    }
}

/* Every body that is accepted is the only encoding of its message. */
TEST(test_flipped_bits_stay_canonical)
{
    struct pccl_prng prng = unit_prng(3);
    uint32_t accepted = 0;
    for (uint16_t type = 0; type < PCCL_MSG_TYPES_MAX; type++) {
        for (int round = 0; round < 300 && pccl_wire_layout_of(type) != NULL; round++) {
            struct pccl_msg msg, back;
            struct pccl_text reason;
            pccl_wire_random(type, &prng, &made, &msg);
            size_t length = pccl_wire_size(&msg);
            pccl_wire_encode(&msg, bytes);
            for (uint64_t flips = 1 + pccl_prng_below(&prng, 3); flips > 0; flips--)
                bytes[pccl_prng_below(&prng, length)] ^= (uint8_t)(1u << pccl_prng_below(&prng, 8));
            if (!decodes(type, length, &back, &reason))
                continue;
            accepted++;
            assert_int_equal(pccl_wire_size(&back), length);
            pccl_wire_encode(&back, again);
            assert_memory_equal(bytes, again, length);
        }
    }
    assert_true(accepted > 100);
}

TEST(test_unknown_types)
{
    struct pccl_msg msg;
    struct pccl_text reason;
    uint32_t known = 0;
    memset(bytes, 0, 100);
    for (uint32_t type = 0; type <= UINT16_MAX; type++) {
        known += pccl_wire_layout_of((uint16_t)type) != NULL;
        if (pccl_wire_layout_of((uint16_t)type) != NULL)
            continue;
        assert_false(decodes((uint16_t)type, 100, &msg, &reason));
        assert_string_equal(pccl_wire_name((uint16_t)type), "?");
    }
    assert_true(known >= 30);
    memset(&msg, 0, sizeof msg);
    msg.type = 9999;
    pccl_wire_print(&msg, &reason);
    assert_string_equal(reason.bytes, "?{}");
}

/* ---- the rules of single fields, each broken once, also inside structs and list items ---- */

static uint32_t rules_broken;

static void break_integer(const struct pccl_msg *msg, const struct pccl_wire_field *field, void *target, uint32_t width)
{
    uint8_t saved[8];
    memcpy(saved, target, width);
    uint64_t values[2] = {field->least - 1, field->most + 1};
    uint64_t greatest = width == 8 ? UINT64_MAX : (UINT64_C(1) << (8 * width)) - 1;
    for (int i = 0; i < 2; i++) {
        if (i == 0 ? field->least == 0 : field->most == greatest)
            continue;
        for (uint32_t at = 0; at < width; at++) /* the tests run on little-endian machines */
            ((uint8_t *)target)[at] = (uint8_t)(values[i] >> (8 * at));
        must_be_malformed(msg, field->name);
        rules_broken++;
    }
    memcpy(target, saved, width);
}

static void break_object(const struct pccl_msg *msg, const struct pccl_wire_layout *layout, void *object);

static void break_field(const struct pccl_msg *msg, const struct pccl_wire_field *field, void *object)
{
    uint8_t *target = (uint8_t *)object + field->offset;
    switch (field->kind) {
    case PCCL_WIRE_U8: break_integer(msg, field, target, 1); break;
    case PCCL_WIRE_U16: break_integer(msg, field, target, 2); break;
    case PCCL_WIRE_U32: break_integer(msg, field, target, 4); break;
    case PCCL_WIRE_U64: break_integer(msg, field, target, 8); break;
    case PCCL_WIRE_ID:
    case PCCL_WIRE_SECRET:
        if (field->least > 0) {
            struct pccl_id saved = *(struct pccl_id *)(void *)target;
            memset(target, 0, sizeof saved);
            must_be_malformed(msg, "is zero");
            memcpy(target, &saved, sizeof saved);
            rules_broken++;
        }
        break;
    case PCCL_WIRE_ADDRESS:
    case PCCL_WIRE_BYTES: break;
    case PCCL_WIRE_TEXT: {
        struct pccl_bytes *text = (struct pccl_bytes *)(void *)target, saved = *text;
        *text = pccl_bytes_of_string("two\nlines");
        must_be_malformed(msg, "printable");
        *text = saved;
        rules_broken++;
        break;
    }
    case PCCL_WIRE_STRUCT: break_object(msg, field->layout(), target); break;
    case PCCL_WIRE_LIST: {
        const struct pccl_wire_layout *item = field->layout();
        uint8_t *items;
        uint32_t count;
        memcpy(&items, target, sizeof items);
        memcpy(&count, (uint8_t *)object + field->count_offset, sizeof count);
        for (uint32_t i = 0; i < count; i++)
            break_object(msg, item, items + (size_t)i * item->size);
        break;
    }
    }
}

static void break_object(const struct pccl_msg *msg, const struct pccl_wire_layout *layout, void *object)
{
    for (uint32_t i = 0; i < layout->field_count; i++)
        break_field(msg, &layout->fields[i], object);
}

TEST(test_every_rule_of_every_field)
{
    struct pccl_prng prng = unit_prng(4);
    for (uint16_t type = 0; type < PCCL_MSG_TYPES_MAX; type++) {
        for (int round = 0; round < 10 && pccl_wire_layout_of(type) != NULL; round++) {
            struct pccl_msg msg;
            do
                pccl_wire_random(type, &prng, &made, &msg);
            while (pccl_wire_size(&msg) > 2000);
            break_object(&msg, pccl_wire_layout_of(type), &msg.as);
        }
    }
    assert_true(rules_broken > 1000);
}

/* ---- lengths ---- */

static size_t least_size(const struct pccl_wire_layout *layout, uint32_t fields);

static size_t least_size_of_field(const struct pccl_wire_field *field)
{
    static const uint8_t sizes[] = {
        [PCCL_WIRE_U8] = 1,   [PCCL_WIRE_U16] = 2,     [PCCL_WIRE_U32] = 4,      [PCCL_WIRE_U64] = 8,
        [PCCL_WIRE_ID] = 16,  [PCCL_WIRE_SECRET] = 16, [PCCL_WIRE_ADDRESS] = 18, [PCCL_WIRE_BYTES] = 4,
        [PCCL_WIRE_TEXT] = 4, [PCCL_WIRE_LIST] = 4,
    };
    if (field->kind != PCCL_WIRE_STRUCT)
        return sizes[field->kind];
    return least_size(field->layout(), field->layout()->field_count);
}

static size_t least_size(const struct pccl_wire_layout *layout, uint32_t fields)
{
    size_t size = 0;
    for (uint32_t i = 0; i < fields; i++)
        size += least_size_of_field(&layout->fields[i]);
    return size;
}

/* Encodes a message whose lists, bytes and texts are all empty. */
static size_t encode_bare(uint16_t type, struct pccl_prng *prng)
{
    const struct pccl_wire_layout *layout = pccl_wire_layout_of(type);
    struct pccl_msg msg;
    do
        pccl_wire_random(type, prng, &made, &msg);
    while (pccl_wire_size(&msg) != least_size(layout, layout->field_count));
    pccl_wire_encode(&msg, bytes);
    return pccl_wire_size(&msg);
}

/*
 * A length above the limit is refused for that reason, even when all the bytes are there; so is the longest length, at
 * once.
 */
TEST(test_lengths_over_the_cap)
{
    struct pccl_prng prng = unit_prng(5);
    uint32_t checked = 0;
    for (uint16_t type = 0; type < PCCL_MSG_TYPES_MAX; type++) {
        const struct pccl_wire_layout *layout = pccl_wire_layout_of(type);
        for (uint32_t i = 0; layout != NULL && i < layout->field_count; i++) {
            const struct pccl_wire_field *field = &layout->fields[i];
            if (field->kind != PCCL_WIRE_BYTES && field->kind != PCCL_WIRE_TEXT && field->kind != PCCL_WIRE_LIST)
                continue;
            struct pccl_msg msg;
            struct pccl_text reason;
            uint64_t lengths[2] = {(uint64_t)field->cap + 1, UINT32_MAX};
            for (int k = 0; k < 2; k++) {
                size_t length = encode_bare(type, &prng), at = least_size(layout, i);
                for (int byte = 0; byte < 4; byte++)
                    bytes[at + (size_t)byte] = (uint8_t)(lengths[k] >> (8 * byte));
                memset(bytes + length, 'a', PCCL_FRAME_BODY_MAX);
                assert_false(decodes(type, PCCL_FRAME_BODY_MAX, &msg, &reason));
                assert_non_null(strstr(reason.bytes, field->name));
                assert_non_null(strstr(reason.bytes, "at most"));
                checked++;
            }
        }
    }
    assert_true(checked > 30);
}

TEST(test_everything_at_its_cap)
{
    static struct pccl_member members[PCCL_PEERS_MAX];
    static struct pccl_id ids[PCCL_PEERS_MAX];
    static struct pccl_instance instances[PCCL_OPS_HELD_MAX];
    static uint8_t payload[PCCL_TINY_BYTES_MAX], reason[PCCL_REASON_MAX];
    memset(reason, 'w', sizeof reason);
    for (uint32_t i = 0; i < PCCL_PEERS_MAX; i++) {
        ids[i].bytes[i % 16] = (uint8_t)(i % 255 + 1);
        members[i] = (struct pccl_member){.peer = ids[i], .group = i, .admitted = UINT64_MAX - i};
    }
    for (uint32_t i = 0; i < PCCL_OPS_HELD_MAX; i++)
        instances[i] = (struct pccl_instance){i, i, i, i, UINT64_MAX - i, i};
    struct pccl_msg change = {.type = PCCL_MSG_epoch_change};
    change.as.epoch_change = (struct pccl_msg_epoch_change){.full = 1,
                                                            .added = members,
                                                            .added_count = PCCL_PEERS_MAX,
                                                            .removed = ids,
                                                            .removed_count = PCCL_PEERS_MAX,
                                                            .view_changed = 1,
                                                            .ring = ids,
                                                            .ring_count = PCCL_PEERS_MAX,
                                                            .reason = {reason, sizeof reason}};
    round_trip(&change);
    struct pccl_msg ack = {.type = PCCL_MSG_view_ack};
    ack.as.view_ack = (struct pccl_msg_view_ack){.instances = instances, .instances_count = PCCL_OPS_HELD_MAX};
    round_trip(&ack);
    struct pccl_msg outcome = {.type = PCCL_MSG_outcome};
    outcome.as.outcome =
        (struct pccl_msg_outcome){.tiny = 1, .result = {payload, sizeof payload}, .reason = {reason, sizeof reason}};
    round_trip(&outcome);
}

TEST(test_names_at_their_caps)
{
    static struct pccl_named names[PCCL_NAMES_SENT_MAX];
    static uint8_t name[PCCL_NAME_MAX];
    memset(name, 'n', sizeof name);
    for (uint32_t i = 0; i < PCCL_NAMES_SENT_MAX; i++)
        names[i] = (struct pccl_named){.peer = {{1, (uint8_t)i}}, .name = {name, sizeof name}};
    struct pccl_msg msg = {.type = PCCL_MSG_names};
    msg.as.names = (struct pccl_msg_names){.names = names, .names_count = PCCL_NAMES_SENT_MAX};
    round_trip(&msg);
}

TEST(test_shared_states_at_their_caps)
{
    static struct pccl_shape shapes[PCCL_TENSORS_MAX];
    static struct pccl_proof proofs[PCCL_STATE_DIGESTS_MAX];
    static struct pccl_address candidates[PCCL_CANDIDATES_MAX];
    static uint8_t reason[PCCL_REASON_MAX];
    memset(reason, 'w', sizeof reason);
    for (uint32_t i = 0; i < PCCL_TENSORS_MAX; i++)
        shapes[i].hash = UINT32_MAX - i;
    for (uint32_t i = 0; i < PCCL_STATE_DIGESTS_MAX; i++)
        memset(&proofs[i], (int)(i % 255), sizeof proofs[i]);
    for (uint32_t i = 0; i < PCCL_CANDIDATES_MAX; i++)
        candidates[i] = pccl_address_v4(10, 0, 0, (uint8_t)i, 7000);
    struct pccl_msg vote = {.type = PCCL_MSG_sync_vote};
    vote.as.sync_vote =
        (struct pccl_msg_sync_vote){.revision = UINT64_MAX - 1, .shapes = shapes, .shapes_count = PCCL_TENSORS_MAX};
    round_trip(&vote);
    struct pccl_msg done = {.type = PCCL_MSG_sync_done};
    done.as.sync_done = (struct pccl_msg_sync_done){.failed = 1, .reason = {reason, sizeof reason}};
    round_trip(&done);
    struct pccl_msg donor = {.type = PCCL_MSG_sync_donor};
    donor.as.sync_donor =
        (struct pccl_msg_sync_donor){.peer = {{1}}, .candidates = candidates, .candidates_count = PCCL_CANDIDATES_MAX};
    round_trip(&donor);
    struct pccl_msg answer = {.type = PCCL_MSG_state_proofs};
    answer.as.state_proofs = (struct pccl_msg_state_proofs){
        .what = PCCL_WANT_CHUNKS, .proofs = proofs, .proofs_count = PCCL_STATE_DIGESTS_MAX};
    round_trip(&answer);
}

/* ---- rules over several fields ---- */

TEST(test_rules_over_several_fields)
{
    struct pccl_msg msg = {.type = PCCL_MSG_done};
    msg.as.done.payload = pccl_bytes_of_string("abcd");
    must_be_malformed(&msg, "not tiny");
    msg.as.done.tiny = 1;
    round_trip(&msg);

    msg = (struct pccl_msg){.type = PCCL_MSG_vote, .as.vote = {.kind = PCCL_ROUND_OPTIMIZE, .drain = 1}};
    must_be_malformed(&msg, "that is not for a topology update");
    msg.as.vote.kind = PCCL_ROUND_PENDING;
    round_trip(&msg);

    msg = (struct pccl_msg){.type = PCCL_MSG_resume_operation};
    msg.as.resume_operation.state = PCCL_RESUME_ABORTED;
    must_be_malformed(&msg, "without a class");
    msg.as.resume_operation.class = PCCL_CLASS_PEER_LOST;
    round_trip(&msg);
    msg.as.resume_operation.state = PCCL_RESUME_COMMITTED;
    must_be_malformed(&msg, "an abort's class");
    msg.as.resume_operation.class = PCCL_CLASS_NONE;
    round_trip(&msg);
    msg.as.resume_operation.payload = pccl_bytes_of_string("abcd");
    must_be_malformed(&msg, "not tiny");

    static const uint8_t long_list[PCCL_TINY_BYTES_MAX + 1];
    msg = (struct pccl_msg){.type = PCCL_MSG_done};
    msg.as.done.tiny = 1;
    msg.as.done.payload = (struct pccl_bytes){long_list, sizeof long_list};
    must_be_malformed(&msg, "a payload that is too long");
    msg.as.done.instance.subgroup = PCCL_FOUNDING;
    must_be_malformed(&msg, "disagree about creating a subgroup");
    msg.as.done.payload.length = 0;
    msg.as.done.instance.subgroup = 0;
    msg.as.done.instance.pair = pccl_pair_name(1, 2);
    must_be_malformed(&msg, "disagree about a pair");
    msg.as.done.instance.subgroup = PCCL_FOUNDING;
    msg.as.done.descriptor.collective = PCCL_FOUND;
    must_be_malformed(&msg, "disagree about a pair");
    msg.as.done.instance.pair = 0;
    msg.as.done.payload.length = sizeof long_list;
    msg.as.done.descriptor = (struct pccl_descriptor){.collective = PCCL_FOUND, .count = PCCL_PEERS_MAX};
    round_trip(&msg);
    msg = (struct pccl_msg){.type = PCCL_MSG_outcome};
    msg.as.outcome.tiny = 1;
    msg.as.outcome.result = (struct pccl_bytes){long_list, sizeof long_list};
    must_be_malformed(&msg, "a payload that is too long");
    msg.as.outcome.instance.subgroup = PCCL_FOUNDING;
    round_trip(&msg);
    msg = (struct pccl_msg){.type = PCCL_MSG_resume_subgroup};
    must_be_malformed(&msg, "not the creation of a subgroup");
    msg.as.resume_subgroup.founding.subgroup = PCCL_FOUNDING;
    round_trip(&msg);

    struct pccl_seen_round rounds[] = {{7, 1, 0}, {7, 2, 0}};
    msg = (struct pccl_msg){.type = PCCL_MSG_sight, .as.sight = {.window_ms = 1, .rounds = rounds, .rounds_count = 2}};
    must_be_malformed(&msg, "an operation twice");
    rounds[1].key = 8;
    round_trip(&msg);

    msg = (struct pccl_msg){.type = PCCL_MSG_outcome};
    msg.as.outcome.class = PCCL_CLASS_MISMATCH;
    round_trip(&msg);
    msg.as.outcome.result = pccl_bytes_of_string("abcd");
    must_be_malformed(&msg, "with a result");
    msg.as.outcome.class = PCCL_CLASS_NONE;
    must_be_malformed(&msg, "not tiny");
    msg.as.outcome.tiny = 1;
    round_trip(&msg);
    msg.as.outcome.result.length = 0;
    msg.as.outcome.class = PCCL_CLASS_MISMATCH;
    must_be_malformed(&msg, "with a result");

    struct pccl_id ring = {{1}};
    msg = (struct pccl_msg){.type = PCCL_MSG_epoch_change};
    msg.as.epoch_change.ring = &ring;
    msg.as.epoch_change.ring_count = 1;
    must_be_malformed(&msg, "without a new view");
    msg.as.epoch_change.replans = msg.as.epoch_change.view_changed = 1;
    round_trip(&msg);
    msg.as.epoch_change.full = 1;
    must_be_malformed(&msg, "a re-plan");
    msg.as.epoch_change.full = 0;
    msg.as.epoch_change.removed = &ring;
    msg.as.epoch_change.removed_count = 1;
    must_be_malformed(&msg, "with other members");
}

static bool is_of_blobs(uint8_t collective)
{
    return collective == PCCL_ALL_GATHER_V || (collective >= PCCL_GATHER_V && collective <= PCCL_ALL_TO_ALL_V);
}

/* Checks that this descriptor is valid in all messages that have one, or invalid for this reason. */
static void judge_descriptor(const struct pccl_descriptor *descriptor, const char *reason)
{
    struct pccl_msg messages[] = {
        {.type = PCCL_MSG_done}, {.type = PCCL_MSG_resume_operation}, {.type = PCCL_MSG_ready}};
    bool barrier = descriptor->collective == PCCL_BARRIER, blobs = is_of_blobs(descriptor->collective);
    bool founds = descriptor->collective == PCCL_FOUND;
    messages[0].as.done.instance.subgroup = messages[1].as.resume_operation.instance.subgroup =
        messages[2].as.ready.instance.subgroup = founds ? PCCL_FOUNDING : 0;
    messages[0].as.done.instance.pair = messages[1].as.resume_operation.instance.pair =
        messages[2].as.ready.instance.pair = descriptor->collective == PCCL_SEND ? pccl_pair_name(1, 2) : 0;
    messages[0].as.done.descriptor = *descriptor;
    messages[0].as.done.tiny = 1;
    messages[1].as.resume_operation.descriptor = *descriptor;
    messages[1].as.resume_operation.tiny = 1;
    messages[2].as.ready.descriptor = *descriptor;
    messages[2].as.ready.segment_elements = 1;
    for (size_t i = 0; i < PCCL_COUNT_OF(messages); i++) {
        if (i == 2 && (barrier || founds))
            must_be_malformed(&messages[i], "a barrier or the creation of a subgroup that is not tiny");
        else if (blobs && (i == 2) == pccl_id_is_zero(&descriptor->counts))
            must_be_malformed(&messages[i], i == 2 ? "blobs of unknown lengths" : "blobs of known lengths");
        else if (reason != NULL)
            must_be_malformed(&messages[i], reason);
        else
            round_trip(&messages[i]);
    }
}

static void judge_codecs(const struct pccl_descriptor *valid)
{
    struct pccl_descriptor changed = *valid;
    changed.codec_block = 64;
    judge_descriptor(&changed, "scales in a codec without them");
    for (unsigned codec = PCCL_PACKING_SCALED; codec < PCCL_PACKING_KINDS; codec++) {
        changed = *valid;
        changed.codec = (uint8_t)codec;
        changed.codec_block = 64;
        judge_descriptor(&changed, NULL);
        changed.codec_datatype = 1;
        judge_descriptor(&changed, "a packed data type in a codec with scales");
        changed.codec_datatype = 0;
        changed.codec_block = 63;
        judge_descriptor(&changed, "an unknown codec");
    }
}

/* An automatic codec: its descriptor, the codecs it may choose, and that the choice is sent with the operation. */
TEST(test_automatic_codecs)
{
    struct pccl_descriptor valid = {
        .datatype = PCCL_F32, .count = 40, .budget_ms = 50, .codec_block = PCCL_SCALED_BLOCK_MIN};
    struct pccl_msg done = {.type = PCCL_MSG_done}, outcome = {.type = PCCL_MSG_outcome};
    pccl_choice_apply(PCCL_LEVEL_8, &valid, &valid);
    judge_descriptor(&valid, NULL);
    struct pccl_descriptor changed = valid;
    changed.operation = PCCL_MAX;
    judge_descriptor(&changed, "an automatic codec requires a sum or an average");
    changed = valid;
    changed.codec = PCCL_PACKING_SCALED + PCCL_SCALED_INT4;
    judge_descriptor(&changed, "an automatic codec at an unknown level");
    changed = valid;
    changed.budget_percent = 20;
    judge_descriptor(&changed, "an automatic codec with two budgets");
    changed.budget_ms = 0;
    judge_descriptor(&changed, NULL);
    struct pccl_choice choice = {.why = PCCL_CHOICE_KEPT, .level = PCCL_LEVEL_8};
    done.as.done.descriptor = valid;
    done.as.done.choice = outcome.as.outcome.choice = &choice;
    must_be_malformed(&done, "an automatic codec without a choice");
    done.as.done.choice_count = outcome.as.outcome.choice_count = 1;
    round_trip(&done);
    choice.level = PCCL_LEVEL_4;
    must_be_malformed(&done, "a codec that differs from the choice");
    choice.level = PCCL_LEVEL_8;
    done.as.done.tiny = 1;
    must_be_malformed(&done, "a choice without an automatic codec");
    round_trip(&outcome);
    outcome.as.outcome.tiny = 1;
    must_be_malformed(&outcome, "a choice with an outcome that allows none");
    outcome.as.outcome.tiny = 0;
    outcome.as.outcome.class = PCCL_CLASS_PEER_LOST;
    must_be_malformed(&outcome, "a choice with an outcome that allows none");
}

TEST(test_coalesced_descriptors)
{
    const char *const wrong = "several tensors with a common type or reduction, or without a digest";
    const struct pccl_descriptor valid = {.collective = PCCL_COALESCED, .count = 40, .counts = {{7}}};
    struct pccl_descriptor changed = valid;
    judge_descriptor(&valid, NULL);
    changed.counts = (struct pccl_id){{0}};
    judge_descriptor(&changed, wrong);
    changed = valid;
    changed.operation = PCCL_MAX;
    judge_descriptor(&changed, wrong);
    changed = valid;
    changed.datatype = PCCL_F32;
    judge_descriptor(&changed, wrong);
    changed = valid;
    changed.root = changed.counts;
    judge_descriptor(&changed, "a root in an operation without one");
}

TEST(test_descriptors)
{
    const struct pccl_id some = {{7}};
    for (uint8_t collective = 0; collective < PCCL_COLLECTIVES; collective++) {
        bool receives = collective == PCCL_REDUCE || collective == PCCL_GATHER || collective == PCCL_GATHER_V;
        bool scans = collective == PCCL_EXCLUSIVE_SCAN || collective == PCCL_INCLUSIVE_SCAN;
        bool exact = scans || collective == PCCL_SEND;
        bool reduces =
            collective == PCCL_ALL_REDUCE || collective == PCCL_REDUCE_SCATTER || collective == PCCL_REDUCE || scans;
        bool has_parts = is_of_blobs(collective) || collective == PCCL_REDUCE_SCATTER;
        bool rooted = receives || collective == PCCL_BROADCAST || collective == PCCL_SCATTER ||
                      collective == PCCL_SCATTER_V || collective == PCCL_SEND;
        bool barrier = collective == PCCL_BARRIER;
        bool founds = collective == PCCL_FOUND;
        struct pccl_descriptor valid = {.collective = collective, .count = founds ? 2 : 0};
        valid.root = rooted ? some : valid.root;
        if (collective == PCCL_COALESCED)
            continue; /* the next test */
        judge_descriptor(&valid, NULL);
        struct pccl_descriptor changed = valid;
        changed.root = rooted ? changed.counts : some;
        judge_descriptor(&changed, "a root in an operation without one, or no root in an operation with one");
        changed = valid;
        changed.operation = PCCL_PROD;
        judge_descriptor(&changed, reduces ? NULL : "a reduction in an operation");
        changed = valid;
        changed.counts = some;
        judge_descriptor(&changed, has_parts ? NULL : "counts in an operation with equal parts");
        changed = valid;
        changed.count = 1;
        judge_descriptor(&changed, barrier  ? "elements in a barrier"
                                   : founds ? "a subgroup of fewer than two members"
                                            : NULL);
        changed = valid;
        changed.codec_datatype = 1;
        judge_descriptor(&changed, exact ? "quantization in a collective that does not support it" : NULL);
        changed = valid;
        changed.datatype = 1;
        judge_descriptor(&changed, barrier || founds ? "a data type in an operation without elements" : NULL);
        if (!barrier && !founds && !exact)
            judge_codecs(&valid);
    }
}

/* Every type has exactly the reductions that are defined for it. */
TEST(test_reductions)
{
    for (int type = 0; type < PCCL_DATATYPES; type++)
        for (int reduction = 0; reduction < PCCL_REDUCE_OPS; reduction++) {
            struct pccl_descriptor one = {.datatype = (uint8_t)type, .operation = (uint8_t)reduction, .count = 1};
            judge_descriptor(&one, pccl_reduction_misfit((enum pccl_datatype)type, (enum pccl_reduce_op)reduction));
        }
    judge_descriptor(&(struct pccl_descriptor){.datatype = PCCL_F32, .operation = PCCL_AND}, "not floats");
    struct pccl_descriptor scan = {.collective = PCCL_INCLUSIVE_SCAN, .datatype = PCCL_F32, .operation = PCCL_AVG};
    judge_descriptor(&scan, "an average cannot be scanned");
}

static void set_round(struct pccl_msg *msg, uint16_t type, uint8_t kind, uint8_t outcome)
{
    *msg = (struct pccl_msg){.type = type};
    if (type == PCCL_MSG_round) {
        msg->as.round.kind = kind;
        msg->as.round.outcome = outcome;
    } else {
        msg->as.resume_round.kind = kind;
        msg->as.resume_round.outcome = outcome;
    }
}

TEST(test_outcomes_of_rounds)
{
    static const uint16_t types[] = {PCCL_MSG_round, PCCL_MSG_resume_round};
    for (uint32_t i = 0; i < PCCL_COUNT_OF(types) * PCCL_ROUND_KINDS; i++) {
        uint16_t type = types[i / PCCL_ROUND_KINDS];
        uint8_t kind = (uint8_t)(i % PCCL_ROUND_KINDS);
        struct pccl_msg msg;
        set_round(&msg, type, kind, PCCL_ROUND_DONE);
        round_trip(&msg);
        set_round(&msg, type, kind, PCCL_ROUND_WITHDRAWN);
        round_trip(&msg);
        set_round(&msg, type, kind, PCCL_ROUND_TRUE);
        if (kind == PCCL_ROUND_PENDING)
            round_trip(&msg);
        else
            must_be_malformed(&msg, "the outcome true outside");
        set_round(&msg, type, kind, PCCL_ROUND_FAILED);
        if (kind == PCCL_ROUND_SYNC || kind == PCCL_ROUND_OPTIMIZE)
            round_trip(&msg);
        else
            must_be_malformed(&msg, "the outcome failed outside");
    }
}

TEST(test_print_hides_the_token)
{
    struct pccl_msg msg = {.type = PCCL_MSG_hello};
    msg.as.hello.token.bytes[0] = 0xab;
    msg.as.hello.peer.bytes[0] = 0xcd;
    struct pccl_address candidate = pccl_address_v4(10, 0, 0, 1, 7000);
    msg.as.hello.candidates = &candidate;
    msg.as.hello.candidates_count = 1;
    msg.as.hello.name = pccl_bytes_of_string("me");
    struct pccl_text text;
    pccl_wire_print(&msg, &text);
    assert_string_equal(
        text.bytes,
        "hello{magic=0 build{version=0 digest=0 capabilities=0 release=0 commit=0 committed=0} run_key=* boot=0 "
        "peer=cd000000 token=* link_key=* group=0 "
        "received=0 port=0 candidates[1]{address=10.0.0.1:7000} name=\"me\" authentication=0 bytes named=0}");
}

TEST(test_small_helpers)
{
    struct pccl_epoch a = {1, 9}, b = {2, 0}, c = {2, 1};
    assert_true(pccl_epoch_compare(&a, &b) < 0 && pccl_epoch_compare(&c, &b) > 0 && pccl_epoch_compare(&c, &c) == 0);
    assert_true(pccl_epoch_equal(&a, &a) && !pccl_epoch_equal(&b, &c));
    struct pccl_instance instances[] = {{1, 0, 2, 3, 4, 5}, {9, 0, 2, 3, 4, 5}, {1, 0, 9, 3, 4, 5},
                                        {1, 0, 2, 9, 4, 5}, {1, 0, 2, 3, 9, 5}, {1, 0, 2, 3, 4, 9}};
    const struct pccl_instance sent = {1, 1, 2, 3, 4, 5}; /* it has no codec, and so no seed */
    const struct pccl_id one = {{1}};
    struct pccl_descriptor descriptors[] = {{.collective = 1, .count = 5},
                                            {.collective = 2, .count = 5},
                                            {.collective = 1, .count = 6},
                                            {.collective = 1, .count = 5, .root = one},
                                            {.count = 5, .counts = one},
                                            {.count = 5, .datatype = 2},
                                            {.count = 5, .operation = 2},
                                            {.count = 5, .codec = 2},
                                            {.count = 5, .codec_datatype = 2},
                                            {.count = 5, .budget_ms = 2},
                                            {.count = 5, .codec = 5, .codec_block = 16},
                                            {.count = 5, .codec = 5, .codec_block = 32},
                                            {.count = 5, .codec = 5, .codec_block = 16, .codec_scale = 1},
                                            {.count = 5, .codec = 5, .codec_block = 16, .codec_rounding = 1}};
    struct pccl_hash_key key;
    pccl_hash_key_init(&key, 1);
    assert_true(pccl_packing_seed(&instances[0], 0) == UINT64_C(0xbe60973550b0a242)); /* PROTOCOL 7.9 */
    assert_false(pccl_instance_equal(&sent, &instances[0]));
    assert_true(pccl_instance_hash(&key, &sent) != pccl_instance_hash(&key, &instances[0]));
    for (size_t i = 0; i < PCCL_COUNT_OF(instances); i++) {
        assert_true(pccl_packing_seed(&instances[i], 0) != pccl_packing_seed(&instances[i], 1));
        for (size_t j = 0; j < PCCL_COUNT_OF(instances); j++) {
            assert_int_equal(pccl_instance_equal(&instances[i], &instances[j]), i == j);
            assert_int_equal(pccl_packing_seed(&instances[i], 0) == pccl_packing_seed(&instances[j], 0), i == j);
            assert_int_equal(pccl_instance_hash(&key, &instances[i]) == pccl_instance_hash(&key, &instances[j]),
                             i == j);
        }
    }
    for (size_t i = 0; i < PCCL_COUNT_OF(descriptors); i++)
        for (size_t j = 0; j < PCCL_COUNT_OF(descriptors); j++)
            assert_int_equal(pccl_descriptor_equal(&descriptors[i], &descriptors[j]), i == j);
    struct pccl_text text;
    pccl_text_format(&text, "abc");
    assert_int_equal(pccl_bytes_of_text(&text).length, 3);
    struct pccl_label label, other;
    assert_true(pccl_label_of("", &label) && pccl_id_is_zero(&label.head) && pccl_id_is_zero(&label.tail));
    assert_true(pccl_label_of("step 2 of the run, in 32 bytes. ", &label) && pccl_label_equal(&label, &label));
    assert_true(pccl_label_of("step 2 of the run, in 32 bytes.", &other) && !pccl_label_equal(&label, &other));
    assert_false(pccl_label_of("step 2 of the run, in 33 bytes. x", &label) || pccl_label_of("\n", &label));
    assert_int_equal(pccl_bytes_of_string("abcde").length, 5);
}

/* ---- golden bytes ---- */

static void print_hex(FILE *file, const uint8_t *data, size_t length)
{
    for (size_t i = 0; i < length; i++)
        fprintf(file, "%02x", data[i]);
    fprintf(file, "\n");
}

static void write_golden(void)
{
    printf("# Frames of protocol version %u: each message as the log shows it, then its frame in hexadecimal.\n"
           "# Compared by tests/unit/test_wire.c. Written anew with each change of the schema or its version, by\n"
           "#   test_wire --write-golden > tests/wire/golden.txt\n"
           "version %u\n",
           PCCL_PROTOCOL_VERSION, PCCL_PROTOCOL_VERSION);
    struct pccl_prng prng = unit_prng(PCCL_PROTOCOL_VERSION);
    for (uint16_t type = 0; type < PCCL_MSG_TYPES_MAX; type++) {
        for (int count = 0; count < 2 && pccl_wire_layout_of(type) != NULL; count++) {
            struct pccl_msg msg;
            struct pccl_text text;
            do { /* short enough to be shown whole */
                pccl_wire_random(type, &prng, &made, &msg);
                pccl_wire_print(&msg, &text);
            } while (text.length >= PCCL_REASON_MAX || pccl_wire_size(&msg) > 400);
            pccl_frame_encode(&msg, pccl_prng_u64(&prng), pccl_prng_u64(&prng), bytes);
            printf("%s\n", text.bytes);
            print_hex(stdout, bytes, pccl_frame_size(&msg));
        }
    }
}

static FILE *open_golden(void)
{
    FILE *file = fopen(GOLDEN_FRAMES, "r");
    if (file == NULL)
        fail_msg("cannot open %s", GOLDEN_FRAMES);
    return file;
}

static size_t parse_hex(const char *line, uint8_t *out)
{
    size_t length = 0;
    unsigned value;
    for (; sscanf(line, "%2x", &value) == 1; line += 2)
        out[length++] = (uint8_t)value;
    assert_true(*line == '\n');
    return length;
}

static void check_golden_frame(struct test_memory *m, const char *shown, const char *hex, uint32_t *seen)
{
    struct pccl_frame_reader reader;
    struct pccl_frame frame;
    struct pccl_text reason, text;
    struct pccl_msg msg;
    size_t length = parse_hex(hex, bytes), room;
    pccl_frame_reader_init(&reader, &m->memory);
    uint8_t *space = pccl_frame_reader_space(&reader, &room);
    assert_true(space != NULL && room >= length);
    memcpy(space, bytes, length);
    pccl_frame_reader_filled(&reader, length);
    assert_int_equal(pccl_frame_reader_next(&reader, &frame, &reason), 1);
    assert_int_equal(frame.length + PCCL_FRAME_HEADER_BYTES, length);
    if (pccl_wire_decode(frame.type, frame.body, frame.length, &decoded, &msg, &reason) != PCCL_OK)
        fail_msg("golden %s: %s", shown, reason.bytes);
    pccl_wire_print(&msg, &text);
    assert_memory_equal(text.bytes, shown, text.length);
    assert_int_equal(shown[text.length], '\n');
    pccl_frame_encode(&msg, frame.sequence, frame.acknowledged, again);
    assert_memory_equal(again, bytes, length);
    seen[frame.type]++;
    pccl_frame_reader_fini(&reader);
}

TEST(test_golden_bytes)
{
    struct test_memory m;
    test_memory_init(&m);
    static char shown[2048], hex[2048];
    uint32_t seen[PCCL_MSG_TYPES_MAX] = {0};
    unsigned version = 0;
    FILE *file = open_golden();
    while (fgets(shown, sizeof shown, file) != NULL) {
        if (shown[0] == '#' || sscanf(shown, "version %u", &version) == 1)
            continue;
        assert_non_null(fgets(hex, sizeof hex, file));
        check_golden_frame(&m, shown, hex, seen);
    }
    fclose(file);
    assert_int_equal(version, PCCL_PROTOCOL_VERSION);
    for (uint16_t type = 0; type < PCCL_MSG_TYPES_MAX; type++)
        assert_int_equal(seen[type] > 0, pccl_wire_layout_of(type) != NULL);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--write-golden") == 0) {
        write_golden();
        return 0;
    }
    return unit_run(NULL, NULL);
}

/* Launches of callers. Their input depends on the peer, the step and the tag, so that the checkers know it, too. */
#include "sim.h"
#include "support/peer_check.h"
#include "wire/choice.h"
#include "wire/packing.h"

#include <string.h>

enum { ELEMENT_BYTES = 8, BLOB_BYTES_MAX = 40 };

bool sim_is_of_blobs(uint8_t collective)
{
    return collective == PCCL_ALL_GATHER_V || collective == PCCL_GATHER_V || collective == PCCL_SCATTER_V ||
           collective == PCCL_ALL_TO_ALL_V;
}

/* Returns the number of blobs of a member. */
static uint32_t blobs_of(uint8_t collective, uint32_t world, bool is_root)
{
    if (collective == PCCL_SCATTER_V)
        return is_root ? world : 0;
    return collective == PCCL_ALL_TO_ALL_V ? world : 1;
}

/* Returns the largest length of a blob for which the result of all is not too long with its lengths. */
static uint32_t blob_bytes_most(const struct sim_peer *peer, uint8_t collective, uint32_t world)
{
    uint32_t all = peer->process.sim->plan.master.tiny_bytes_max, count = blobs_of(collective, world, true);
    uint32_t each = (collective == PCCL_SCATTER_V ? all / world : all / world / count);
    uint32_t taken = 12; /* a length, and at least its share of the contribution's length */
    return each < taken ? 0 : each - taken < BLOB_BYTES_MAX ? each - taken : BLOB_BYTES_MAX;
}

static uint64_t element(uint64_t step, uint64_t tag, const struct sim_peer *peer, uint32_t i)
{
    return sim_mix(sim_mix(step, tag), peer->process.number * UINT64_C(4096) + i) >> 8;
}

/* Returns the number of elements of this size, independent of the machines' count. */
static uint32_t elements_of(const struct pccl_descriptor *descriptor, uint32_t world, const struct sim_peer *peer)
{
    bool is_root = pccl_id_equal(&descriptor->root, &peer->id);
    switch (descriptor->collective) {
    case PCCL_ALL_TO_ALL:
    case PCCL_REDUCE_SCATTER: return (uint32_t)descriptor->count * world;
    case PCCL_SEND:
    case PCCL_BROADCAST: return is_root ? (uint32_t)descriptor->count : 0;
    case PCCL_SCATTER: return is_root ? (uint32_t)descriptor->count * world : 0;
    case PCCL_BARRIER: return 0;
    default: return (uint32_t)descriptor->count;
    }
}

/*
 * Fills in two sections of a coalesced operation: the requested one, and one element with the operation MAX. The digest
 * identifies them.
 */
uint32_t sim_sections(const struct pccl_descriptor *descriptor, struct pccl_section sections[2])
{
    const uint32_t table = (uint32_t)pccl_sections_table_bytes(2);
    sections[0] =
        (struct pccl_section){PCCL_U64, descriptor->counts.bytes[1], (descriptor->count - table) / ELEMENT_BYTES - 1};
    sections[1] = (struct pccl_section){PCCL_U64, PCCL_MAX, 1};
    return table;
}

static void describe_sections(const struct sim_request *request, struct pccl_descriptor *descriptor)
{
    descriptor->datatype = PCCL_U8;
    descriptor->operation = 0;
    descriptor->count = pccl_sections_table_bytes(2) + ELEMENT_BYTES * (request->count + 1);
    descriptor->counts = (struct pccl_id){{1, (uint8_t)request->reduction, (uint8_t)request->count}};
}

/* Writes lengths, and mostly the blobs; some peers send only the lengths. */
static uint32_t contribute_blobs(uint64_t step, uint64_t tag, uint32_t count, uint32_t most,
                                 const struct sim_peer *peer, uint8_t *bytes)
{
    const bool here = count > 0 && element(step, tag, peer, 0) % 4 != 0;
    uint32_t at = 8 * count;
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t drawn = element(step, tag, peer, i), length = drawn / 4 % (here ? most + 1 : 1000);
        memcpy(bytes + 8 * i, &length, sizeof length);
        for (uint32_t k = 0; here && k < length; k++)
            bytes[at++] = (uint8_t)(sim_mix(drawn, k / 8) >> k % 8 * 8);
    }
    return at;
}

uint32_t sim_contribution(const struct pccl_descriptor *descriptor, uint64_t step, uint64_t tag, uint32_t world,
                          const struct sim_peer *peer, uint8_t bytes[PCCL_TINY_BYTES_MAX])
{
    uint32_t length = ELEMENT_BYTES * elements_of(descriptor, world, peer);
    if (sim_is_of_blobs(descriptor->collective)) {
        uint32_t count = blobs_of(descriptor->collective, world, pccl_id_equal(&descriptor->root, &peer->id));
        uint32_t most = blob_bytes_most(peer, descriptor->collective, world);
        return contribute_blobs(step, tag, count, most, peer, bytes);
    }
    if (descriptor->collective == PCCL_COALESCED) {
        struct pccl_section sections[2];
        length = (uint32_t)descriptor->count - sim_sections(descriptor, sections);
        pccl_sections_write(sections, 2, bytes);
        bytes += descriptor->count - length;
    }
    PCCL_ASSERT(length <= PCCL_TINY_BYTES_MAX);
    for (uint32_t i = 0; i * ELEMENT_BYTES < length; i++) {
        uint64_t value = element(step, tag, peer, i);
        memcpy(bytes + i * ELEMENT_BYTES, &value, pccl_min_u64(ELEMENT_BYTES, length - i * ELEMENT_BYTES));
    }
    return descriptor->collective == PCCL_COALESCED ? (uint32_t)descriptor->count : length;
}

bool sim_follows(const struct pccl_peer_op *op, uint32_t world, struct sim_request *request)
{
    bool all_here = true;
    uint64_t digest = 1;
    const uint8_t *at = op->payload;
    const uint8_t collective = op->descriptor.collective;
    if (op->class != PCCL_CLASS_NONE || !op->tiny || !sim_is_of_blobs(collective))
        return false;
    *request =
        (struct sim_request){.subgroup = op->instance.subgroup, .tag = op->instance.tag, .collective = collective};
    for (uint32_t i = 0; i < world; i++) {
        uint32_t contributed;
        memcpy(&contributed, at, sizeof contributed);
        at += sizeof contributed;
        const uint32_t count = blobs_of(collective, world, contributed > 0);
        uint64_t all = 0;
        for (uint32_t k = 0; k < count; k++) {
            uint64_t length;
            memcpy(&length, at + k * sizeof length, sizeof length);
            all += length;
            digest = sim_mix(digest, length);
        }
        request->count += all;
        all_here = all_here && contributed == count * sizeof all + all;
        at += contributed;
    }
    PCCL_ASSERT(at == op->payload + op->payload_bytes);
    memcpy(request->counts.bytes, &digest, sizeof digest);
    request->counts.bytes[8] = 1;
    return !all_here;
}

uint32_t sim_members(const struct sim_peer *peer, struct pccl_id *members, uint32_t most)
{
    uint32_t count, taken = 0;
    const struct pccl_member *list = pccl_peer_members(peer->machine, &count);
    for (; taken < count && taken < most; taken++)
        members[taken] = list[taken].peer;
    return taken;
}

/* Uses every codec in turn: in the simulator it is a part of the descriptor only. */
static void use_codec(struct pccl_descriptor *descriptor, uint64_t number)
{
    descriptor->codec = (uint8_t)(number % PCCL_PACKING_KINDS);
    if (descriptor->codec >= PCCL_PACKING_SCALED) {
        descriptor->codec_scale = (uint8_t)(number % PCCL_SCALED_SCALES);
        descriptor->codec_rounding = (uint8_t)(number / 2 % PCCL_SCALED_ROUNDINGS);
        descriptor->codec_block = PCCL_SCALED_BLOCK_MIN;
    }
}

/* Uses an automatic codec if possible. The machine chooses its level. */
static void use_automatic_codec(struct pccl_descriptor *descriptor, const struct sim_request *request)
{
    struct pccl_descriptor automatic = *descriptor;
    if (automatic.collective != PCCL_COALESCED)
        automatic.datatype = PCCL_F32;
    automatic.codec_block = PCCL_SCALED_BLOCK_MIN;
    automatic.codec_scale = automatic.codec_rounding = 0;
    automatic.budget_ms = request->budget_ms;
    automatic.budget_percent = request->budget_percent;
    if (pccl_choice_misfit(&automatic) == NULL)
        *descriptor = automatic;
}

/* Describes a request; callers fill in only the fields of their operation. */
static struct pccl_descriptor describe(const struct sim_request *request)
{
    const struct pccl_collective_row *row = pccl_collective(request->collective);
    bool reduces = row->reduces && row->of == PCCL_OF_ELEMENTS;
    struct pccl_descriptor descriptor = {.collective = request->collective,
                                         .datatype = row->of == PCCL_OF_NOTHING ? 0 : PCCL_U64,
                                         .operation = reduces ? (uint8_t)request->reduction : 0,
                                         .count = request->count,
                                         .counts = request->counts};
    bool labeled = pccl_label_of(request->label != NULL ? request->label : "", &descriptor.label);
    PCCL_ASSERT(labeled);
    if (row->of == PCCL_OF_TENSORS)
        describe_sections(request, &descriptor);
    if (reduces && row->codecs != PCCL_NEVER_PACKED)
        use_codec(&descriptor, request->tag);
    if ((request->budget_ms != 0 || request->budget_percent != 0) && !request->tiny)
        use_automatic_codec(&descriptor, request);
    return descriptor;
}

enum pccl_status sim_app_launch(struct sim *sim, struct sim_peer *peer, const struct sim_request *request,
                                struct pccl_peer_op **op)
{
    static struct pccl_id own[PCCL_PEERS_MAX];
    static uint8_t payload[PCCL_TINY_BYTES_MAX];
    const struct pccl_peer_subgroup *subgroup = pccl_peer_subgroup(peer->machine, request->subgroup);
    const struct pccl_collective_row *row = pccl_collective(request->collective);
    struct pccl_launch launch = {.subgroup = request->subgroup,
                                 .other = request->other,
                                 .tag = request->tag,
                                 .descriptor = describe(request),
                                 .tiny = request->tiny,
                                 .members = request->members,
                                 .member_count = request->member_count,
                                 .after = request->after,
                                 .timeout_ms = request->timeout_ms,
                                 .deadline_us = request->deadline_us,
                                 .given_up = request->given_up,
                                 .user = request->user};
    if (launch.members == NULL && request->subgroup == 0 &&
        (request->counted || (row->ranks_matter && request->collective != PCCL_SEND))) {
        launch.members = own;
        launch.member_count = sim_members(peer, own, PCCL_PEERS_MAX);
    }
    uint32_t world = subgroup != NULL ? subgroup->all.count : launch.member_count;
    if (request->collective == PCCL_SEND)
        launch.descriptor.root = request->anybody ? (struct pccl_id){{0}} : request->sends ? peer->id : request->other;
    else if (request->after != NULL)
        launch.descriptor.root = request->after->descriptor.root;
    else if (pccl_row_has_root(row))
        launch.descriptor.root = subgroup != NULL ? *pccl_peer_member_at(&subgroup->all, request->root % world)
                                                  : launch.members[request->root % world];
    if (launch.members == NULL && subgroup == NULL)
        (void)pccl_peer_view_members(peer->machine, &world);
    /* The bytes of all pairs: with many members more than the limit of the master. */
    uint64_t all_to_all = request->count * world * world * ELEMENT_BYTES;
    if (request->collective == PCCL_ALL_TO_ALL && all_to_all > sim->plan.master.tiny_bytes_max)
        launch.tiny = false;
    if (launch.tiny && request->collective != PCCL_FOUND) {
        launch.payload_bytes = sim_contribution(&launch.descriptor, request->step, request->tag, world, peer, payload);
        launch.payload = launch.payload_bytes > 0 ? payload : NULL;
    }
    launch.followed = launch.tiny && row->of == PCCL_OF_BLOBS && request->given_up == PCCL_CLASS_NONE;
    if (request->given_up != PCCL_CLASS_NONE) { /* the driver does not prepare this kind of request */
        launch.tiny = false;
        launch.payload = NULL;
        launch.payload_bytes = 0;
        if (request->collective != PCCL_SEND)
            launch.descriptor.root = (struct pccl_id){{0}};
        if (row->of == PCCL_OF_BLOBS)
            launch.descriptor.counts = (struct pccl_id){{0}};
    }
    const bool automatic = pccl_choice_is_automatic(&launch.descriptor);
    if (automatic && request->given_up != PCCL_CLASS_NONE)
        pccl_choice_apply(PCCL_LEVEL_EXACT, &launch.descriptor, &launch.descriptor);
    else if (automatic)
        launch.choice = pccl_peer_choose(peer->machine, launch.subgroup, launch.tag, &launch.descriptor);
    sim_check_about_to_launch(sim, peer, request->step, &launch);
    if (request->anybody)
        launch.other = (struct pccl_id){{0}};
    struct pccl_peer_event event = {.kind = PCCL_PEER_LAUNCH, .launch = &launch};
    enum pccl_status status = sim_peer_step(sim, peer, &event);
    if (status == PCCL_OK)
        *op = event.op;
    sim_check_launched(sim, peer, status == PCCL_OK ? *op : NULL);
    if (status == PCCL_OK && request->given_up != PCCL_CLASS_NONE)
        sim_check_failing(sim, peer, *op);
    sim_note(sim, "p%u launches tag %llu use %d step %llx collective %u %s%s", peer->process.number,
             (unsigned long long)request->tag, status == PCCL_OK ? (int)(*op)->instance.use : -1,
             (unsigned long long)request->step, request->collective,
             request->tiny ? "tiny: " : "bulk: ", pccl_status_name(status));
    return status;
}

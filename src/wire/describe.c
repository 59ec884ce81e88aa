#include "wire/describe.h"

#include "wire/choice.h"
#include "wire/packing.h"

/* Details that are only mentioned if the peers differ in them. */
struct details {
    bool codec, way, label;
};

static void describe_codec(struct pccl_text *words, const struct pccl_descriptor *descriptor)
{
    pccl_text_add(words, " (");
    if (pccl_choice_is_automatic(descriptor)) {
        pccl_text_add(words, "automatic within ");
        pccl_choice_describe_budget(words, descriptor);
        pccl_text_add(words, ", now ");
    }
    pccl_text_add(words, "quantization ");
    pccl_packing_describe(words, descriptor);
    pccl_text_add(words, ")");
}

static void describe_label(struct pccl_text *words, const struct pccl_label *label)
{
    struct pccl_bytes bytes = pccl_bytes_of_label(label);
    pccl_text_append(words, bytes.length > 0 ? " labeled '" : " without a label");
    pccl_text_add_bytes(words, (const char *)bytes.data, bytes.length);
    pccl_text_add(words, bytes.length > 0 ? "'" : "");
}

const char *pccl_link_end_name(enum pccl_link_end end)
{
    switch (end) {
    case PCCL_LINK_CLOSED: return "closed by the other side";
    case PCCL_LINK_REFUSED: return "refused";
    case PCCL_LINK_OTHER: return "another peer answers there";
    case PCCL_LINK_TIMEOUT: return "no answer";
    default: return "broken";
    }
}

/*
 * Appends the size. If the shares have given sizes, includes the first digits of their digest, so that a difference is
 * visible.
 */
static void describe_size(struct pccl_text *words, const struct pccl_descriptor *descriptor)
{
    const enum pccl_matter of = pccl_collective(descriptor->collective)->of;
    const bool lengths_are_known = !pccl_id_is_zero(&descriptor->counts);
    if (of == PCCL_OF_NOTHING && descriptor->collective != PCCL_FOUND)
        return;
    pccl_text_add(words, " of ");
    if (of == PCCL_OF_NOTHING) {
        pccl_text_append(words, "%" PRIu64, descriptor->count);
    } else if (of == PCCL_OF_TENSORS) {
        pccl_text_append(words, "tensors of %" PRIu64 " bytes in all (%s)", descriptor->count,
                         pccl_id_str(&descriptor->counts));
    } else if (of == PCCL_OF_BLOBS) {
        const char *how = lengths_are_known ? "" : "at most ";
        pccl_text_append(words, "%s%" PRIu64 " bytes in all", how, descriptor->count);
    } else {
        const char *type = pccl_datatype_name((enum pccl_datatype)descriptor->datatype);
        pccl_text_append(words, "%" PRIu64 " %s", descriptor->count, type);
        if (lengths_are_known)
            pccl_text_append(words, " in specified shares (%s)", pccl_id_str(&descriptor->counts));
    }
}

/*
 * Appends a request such as "sum of 10 f32", "broadcast of 10 f32 from peer a", "receive of 10 f32 from peer a" or
 * "barrier".
 */
static void describe_request(struct pccl_text *words, const struct pccl_id *peer,
                             const struct pccl_descriptor *descriptor)
{
    const struct pccl_collective_row *row = pccl_collective(descriptor->collective);
    const bool is_root = pccl_id_equal(peer, &descriptor->root), is_send = descriptor->collective == PCCL_SEND;
    const char *reduction = pccl_reduce_op_name((enum pccl_reduce_op)descriptor->operation);
    if (!row->reduces || row->of == PCCL_OF_TENSORS)
        pccl_text_add(words, is_send && !is_root ? "receive" : row->name);
    else if (descriptor->collective == PCCL_ALL_REDUCE)
        pccl_text_add(words, reduction);
    else
        pccl_text_append(words, "%s, %s", row->name, reduction);
    describe_size(words, descriptor);
    if (pccl_row_has_root(row) && !(is_send && is_root))
        pccl_text_append(words, " %s peer %s", row->result.by == PCCL_BY_ROOT ? "to" : "from",
                         pccl_id_str(&descriptor->root));
}

static void describe(struct pccl_text *words, const struct pccl_described *one, struct details details)
{
    const struct pccl_descriptor *descriptor = one->descriptor;
    pccl_text_append(words, "peer %s called ", pccl_id_str(one->peer));
    describe_request(words, one->peer, descriptor);
    if (details.codec)
        describe_codec(words, descriptor);
    if (details.way)
        pccl_text_append(words, one->tiny ? " through the master" : " peer to peer");
    if (details.label)
        describe_label(words, &descriptor->label);
}

void pccl_describe_difference(struct pccl_text *words, const struct pccl_described *a, const struct pccl_described *b)
{
    const struct details details = {
        .codec = !pccl_packing_equal(a->descriptor, b->descriptor) || !pccl_budget_equal(a->descriptor, b->descriptor),
        /* otherwise the count explains the difference */
        .way = a->tiny != b->tiny && a->descriptor->count == b->descriptor->count,
        .label = !pccl_label_equal(&a->descriptor->label, &b->descriptor->label),
    };
    pccl_text_clear(words);
    describe(words, a, details);
    pccl_text_append(words, ", but ");
    describe(words, b, details);
}

void pccl_describe_call(struct pccl_text *text, uint8_t call, uint8_t collective, uint64_t detail)
{
    switch (call) {
    case PCCL_CALL_UPDATE: pccl_text_append(text, "update topology (round %" PRIu64 ")", detail); break;
    case PCCL_CALL_PENDING: pccl_text_append(text, "are peers pending (round %" PRIu64 ")", detail); break;
    case PCCL_CALL_SYNC: pccl_text_append(text, "synchronize shared state (round %" PRIu64 ")", detail); break;
    case PCCL_CALL_OPTIMIZE: pccl_text_append(text, "optimize topology (round %" PRIu64 ")", detail); break;
    case PCCL_CALL_OPERATION:
        pccl_text_add(text, pccl_collective_name(collective));
        if (collective != PCCL_FOUND) /* the tag of a founding is a digest */
            pccl_text_append(text, " tag %" PRIu64, detail);
        break;
    default: pccl_text_append(text, "its own code"); break;
    }
}

static void describe_place(struct pccl_text *text, const struct pccl_place *place)
{
    pccl_text_append(text, "peer %s (", pccl_id_str(&place->peer));
    if (place->state == PCCL_PLACE_DISCONNECTED)
        pccl_text_append(text, "disconnected, last seen %s ago; ", pccl_duration_str(place->since_us));
    else if (place->state == PCCL_PLACE_SILENT)
        pccl_text_append(text, "silent for %s; ", pccl_duration_str(place->since_us));
    pccl_text_append(text, "in ");
    pccl_describe_call(text, place->call, place->collective, place->detail);
    if (place->state == PCCL_PLACE_ELSEWHERE)
        pccl_text_append(text, " for %s", pccl_duration_str(place->since_us));
    pccl_text_append(text, ")");
}

void pccl_describe_places(struct pccl_text *text, const struct pccl_place *places, uint32_t count, uint32_t missing)
{
    for (uint32_t i = 0; i < count; i++) {
        pccl_text_add(text, i > 0 ? ", " : "");
        describe_place(text, &places[i]);
    }
    if (missing > count)
        pccl_text_append(text, " and %u more", missing - count);
}

#define UPDATE "comm.update_topology(), in C pcclUpdateTopology,"
#define OPTIMIZE "comm.optimize_topology(), in C pcclOptimizeTopology,"
#define SYNC "comm.sync_shared_state(), in C pcclSynchronizeSharedState,"
#define PENDING "comm.are_peers_pending(), in C pcclArePeersPending,"
#define NEWCOMER "; a newcomer skips it after connect: the update that admitted it counts"

static const struct {
    enum pccl_call one, two; /* in either order */
    const char *words;
} remedies[] = {
    {PCCL_CALL_UPDATE, PCCL_CALL_OPERATION,
     "call " UPDATE " on all peers or on no peer before the operation" NEWCOMER
     "; a step of pccl.loop() or pcclLoopNext() must have the same operations on all peers"},
    {PCCL_CALL_UPDATE, PCCL_CALL_SYNC,
     "call " UPDATE " on all peers or on no peer before the synchronization" NEWCOMER},
    {PCCL_CALL_UPDATE, PCCL_CALL_OPTIMIZE,
     "call " UPDATE " on all peers or on no peer before the optimization" NEWCOMER},
    {PCCL_CALL_UPDATE, PCCL_CALL_PENDING,
     "call " PENDING " on all peers or on no peer before the update; a newcomer begins with the calls that members "
     "make after the update that admitted it"},
    {PCCL_CALL_SYNC, PCCL_CALL_OPERATION, "call " SYNC " on all peers of the group or on no peer before the operation"},
    {PCCL_CALL_SYNC, PCCL_CALL_OPTIMIZE, "call " OPTIMIZE " on all peers or on no peer before the synchronization"},
    {PCCL_CALL_SYNC, PCCL_CALL_PENDING, "call " PENDING " on all peers or on no peer before the synchronization"},
    {PCCL_CALL_OPTIMIZE, PCCL_CALL_OPERATION, "call " OPTIMIZE " on all peers or on no peer before the operation"},
    {PCCL_CALL_OPTIMIZE, PCCL_CALL_PENDING, "call " PENDING " on all peers or on no peer before the optimization"},
    {PCCL_CALL_OPERATION, PCCL_CALL_PENDING, "call " PENDING " on all peers or on no peer before the operation"},
    {PCCL_CALL_OPERATION, PCCL_CALL_OPERATION,
     "call both operations in the same order on all peers, or launch both before awaiting one"},
};

const char *pccl_describe_correction(uint8_t call, uint8_t other)
{
    for (size_t i = 0; i < PCCL_COUNT_OF(remedies); i++)
        if ((remedies[i].one == call && remedies[i].two == other) ||
            (remedies[i].one == other && remedies[i].two == call))
            return remedies[i].words;
    return "make the same joint calls in the same order on all peers";
}

const char *pccl_verdict_name(uint8_t class)
{
    switch (class) {
    case PCCL_VERDICT_NOT_ENTERED: return "not entered";
    case PCCL_VERDICT_HANG: return "hang";
    case PCCL_VERDICT_SLOW_LINK: return "slow link";
    case PCCL_VERDICT_SLOW_SENDER: return "slow sender";
    case PCCL_VERDICT_SLOW_RECEIVER: return "slow receiver";
    case PCCL_VERDICT_SLOW_PEER: return "slow peer";
    case PCCL_VERDICT_SLOW_COMPUTATION: return "slow computation";
    default: return "unknown";
    }
}

void pccl_describe_verdict(struct pccl_text *text, uint8_t class, const struct pccl_id *peer,
                           const struct pccl_id *other, const char *evidence)
{
    bool link = !pccl_id_is_zero(other);
    pccl_text_append(text, "%s: %speer %s", pccl_verdict_name(class), link ? "from " : "", pccl_id_str(peer));
    if (link)
        pccl_text_append(text, " to peer %s", pccl_id_str(other));
    pccl_text_append(text, ": %s", evidence);
}

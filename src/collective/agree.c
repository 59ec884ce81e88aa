/* Compares the descriptions of an operation on two peers, and fails the operation with a reason if they differ. */
#include "collective/internal.h"

#include "wire/describe.h"
#include "wire/packing.h"

/* A difference between two peers, either in a name or in a number. */
struct difference {
    const char *what;                    /* plural, for example "data types" */
    const char *ours_name, *theirs_name; /* NULL: numbers */
    uint64_t ours, theirs;
};

static const char *schedule_name(uint8_t algorithm)
{
    return algorithm < PCCL_ALGORITHMS ? pccl_schedules[algorithm]->name : "unknown algorithm";
}

/* Finds the first difference. Returns false if the peers agree. */
static bool find_difference(const struct pccl_transfer *transfer, const struct pccl_msg_ready *ready,
                            struct difference *found)
{
    const struct pccl_descriptor *ours = &transfer->config->descriptor, *theirs = &ready->descriptor;
    const struct pccl_plan *plan = &transfer->plan;
    if (ours->datatype != theirs->datatype)
        *found = (struct difference){"data types", pccl_datatype_name(ours->datatype),
                                     pccl_datatype_name(theirs->datatype), 0, 0};
    else if (ours->operation != theirs->operation)
        *found = (struct difference){"reductions", pccl_reduce_op_name(ours->operation),
                                     pccl_reduce_op_name(theirs->operation), 0, 0};
    else if (ours->count != theirs->count)
        *found = (struct difference){"numbers of elements", NULL, NULL, ours->count, theirs->count};
    else if (plan->algorithm != ready->algorithm)
        *found = (struct difference){"algorithms", pccl_schedules[plan->algorithm]->name,
                                     schedule_name(ready->algorithm), 0, 0};
    else if (plan->segment_elements != ready->segment_elements)
        *found = (struct difference){"numbers of elements in a segment", NULL, NULL, plan->segment_elements,
                                     ready->segment_elements};
    else
        return false;
    return true;
}

static void fail_as_different(struct pccl_transfer *transfer, const struct pccl_id *peer,
                              const struct difference *found)
{
    const struct pccl_id *self = &transfer->exchange->config.self;
    if (found->ours_name != NULL)
        pccl_transfer_fail(transfer, PCCL_CLASS_MISMATCH, "different %s: %s on peer %s, %s on peer %s", found->what,
                           found->ours_name, pccl_id_str(self), found->theirs_name, pccl_id_str(peer));
    else
        pccl_transfer_fail(transfer, PCCL_CLASS_MISMATCH,
                           "different %s: %" PRIu64 " on peer %s, %" PRIu64 " on peer %s", found->what, found->ours,
                           pccl_id_str(self), found->theirs, pccl_id_str(peer));
}

/*
 * Returns true if the descriptions belong to different operations, because labels, collectives, codecs or lengths of
 * parts differ. In that case other fields are not compared.
 */
static bool is_another(const struct pccl_descriptor *ours, const struct pccl_descriptor *theirs)
{
    return ours->collective != theirs->collective || !pccl_label_equal(&ours->label, &theirs->label) ||
           !pccl_packing_equal(ours, theirs) || !pccl_id_equal(&ours->counts, &theirs->counts);
}

static void fail_as_another(struct pccl_transfer *transfer, const struct pccl_id *peer,
                            const struct pccl_descriptor *theirs)
{
    struct pccl_text reason;
    pccl_describe_difference(
        &reason, &(struct pccl_described){&transfer->exchange->config.self, &transfer->config->descriptor, false},
        &(struct pccl_described){peer, theirs, false});
    pccl_transfer_fail(transfer, PCCL_CLASS_MISMATCH, "%s", reason.bytes);
}

static void fail_as_rooted_elsewhere(struct pccl_transfer *transfer, const struct pccl_id *peer,
                                     const struct pccl_id *theirs)
{
    pccl_transfer_fail(transfer, PCCL_CLASS_MISMATCH, "different roots: peer %s on peer %s, peer %s on peer %s",
                       pccl_id_str(&transfer->config->descriptor.root), pccl_id_str(&transfer->exchange->config.self),
                       pccl_id_str(theirs), pccl_id_str(peer));
}

/*
 * Returns true if the descriptions differ, and fails the transfer. A transfer that is done does not fail, because all
 * its receivers agree; the member before `peer` in the ring fails instead.
 */
static bool is_different(struct pccl_transfer *transfer, const struct pccl_id *peer, const struct pccl_msg_ready *ready)
{
    const struct pccl_descriptor *ours = &transfer->config->descriptor, *theirs = &ready->descriptor;
    const bool another = is_another(ours, theirs), elsewhere = !pccl_id_equal(&ours->root, &theirs->root);
    struct difference difference = {0};
    if (!another && !elsewhere && !find_difference(transfer, ready, &difference))
        return false;
    if (transfer->stage != PCCL_TRANSFER_MOVING)
        return true;
    if (another)
        fail_as_another(transfer, peer, theirs);
    else if (elsewhere)
        fail_as_rooted_elsewhere(transfer, peer, &theirs->root);
    else
        fail_as_different(transfer, peer, &difference);
    return true;
}

bool pccl_agree_take_ready(struct pccl_transfer *transfer, const struct pccl_lane *lane,
                           const struct pccl_msg_ready *ready)
{
    if (transfer->failed || transfer->stage == PCCL_TRANSFER_AT_REST || is_different(transfer, &lane->peer, ready))
        return true;
    struct pccl_flow *flow = pccl_flow_find(transfer, lane);
    if (flow == NULL)
        return false;
    uint64_t granted = pccl_min_u64(ready->granted, transfer->plan.stripes);
    pccl_telemetry_grant(flow->telemetry, pccl_max_u64(granted, flow->granted), transfer->exchange->now_us);
    pccl_flow_credit(flow, granted);
    pccl_transfer_report(transfer);
    return true;
}

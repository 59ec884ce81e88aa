/* Rules that involve several fields of a message, which the ranges of single fields in schema.h cannot express. */
#include "kernels/reduce.h"
#include "wire/choice.h"
#include "wire/packing.h"
#include "wire/subgroup.h"

static const char *invalid_round(uint8_t kind, uint8_t outcome)
{
    if (outcome == PCCL_ROUND_TRUE && kind != PCCL_ROUND_PENDING)
        return "the outcome true outside a pending query";
    if (outcome == PCCL_ROUND_FAILED && kind != PCCL_ROUND_SYNC && kind != PCCL_ROUND_OPTIMIZE)
        return "the outcome failed outside a synchronization or an optimization";
    return NULL;
}

/* Requires that the fields of the other kinds of codecs are 0. */
static const char *invalid_codec(const struct pccl_descriptor *descriptor)
{
    struct pccl_packing packing;
    struct pccl_text reason;
    if (descriptor->codec < PCCL_PACKING_SCALED)
        return descriptor->codec_scale != 0 || descriptor->codec_rounding != 0 || descriptor->codec_block != 0
                   ? "scales in a codec without them"
                   : NULL;
    if (descriptor->codec_datatype != 0)
        return "a packed data type in a codec with scales";
    return pccl_packing_find(descriptor, PCCL_F32, &packing, &reason) ? NULL : "an unknown codec";
}

/* Requires a codec that a choice can produce. */
static const char *invalid_budget(const struct pccl_descriptor *descriptor)
{
    if (!pccl_choice_is_automatic(descriptor))
        return NULL;
    if (descriptor->budget_ms != 0 && descriptor->budget_percent != 0)
        return "an automatic codec with two budgets";
    for (unsigned level = 0; level < PCCL_LEVELS; level++)
        if (pccl_choice_is_applied((enum pccl_level)level, descriptor))
            return pccl_choice_misfit(descriptor);
    return "an automatic codec at an unknown level";
}

const char *pccl_wire_invalid_descriptor(const struct pccl_descriptor *descriptor, bool tiny)
{
    const struct pccl_collective_row *row = pccl_collective(descriptor->collective);
    if (!tiny && row->of == PCCL_OF_NOTHING)
        return "a barrier or the creation of a subgroup that is not tiny";
    if (row->of == PCCL_OF_BLOBS && !tiny == pccl_id_is_zero(&descriptor->counts))
        return tiny ? "blobs of known lengths in an operation that is tiny"
                    : "blobs of unknown lengths in an operation that is not tiny";
    if (!row->reduces && descriptor->operation != 0)
        return "a reduction in an operation that does not reduce";
    const char *misfit = pccl_row_misfit(row, descriptor->datatype, descriptor->operation);
    if (misfit != NULL)
        return misfit;
    if (pccl_row_has_root(row) == pccl_id_is_zero(&descriptor->root))
        return "a root in an operation without one, or no root in an operation with one";
    if (row->of == PCCL_OF_ELEMENTS && row->codecs == PCCL_NEVER_PACKED &&
        (descriptor->codec != 0 || descriptor->codec_datatype != 0))
        return "quantization in a collective that does not support it";
    if (!row->has_counts && !pccl_id_is_zero(&descriptor->counts))
        return "counts in an operation with equal parts";
    if (row->of == PCCL_OF_TENSORS &&
        (descriptor->datatype != PCCL_U8 || descriptor->operation != PCCL_SUM || pccl_id_is_zero(&descriptor->counts)))
        return "several tensors with a common type or reduction, or without a digest";
    bool founds = descriptor->collective == PCCL_FOUND, is_barrier = row->of == PCCL_OF_NOTHING && !founds;
    if (row->of == PCCL_OF_NOTHING && (descriptor->datatype != 0 || descriptor->codec != 0))
        return "a data type in an operation without elements";
    if (is_barrier && descriptor->count > 0)
        return "elements in a barrier";
    if (founds && (descriptor->count < 2 || descriptor->count > PCCL_PEERS_MAX))
        return "a subgroup of fewer than two members";
    const char *invalid = invalid_budget(descriptor);
    return invalid != NULL ? invalid : invalid_codec(descriptor);
}

static bool chooses(const struct pccl_descriptor *descriptor, uint8_t tiny)
{
    return pccl_choice_is_automatic(descriptor) && tiny == 0;
}

/*
 * Requires a choice if and only if the operation has an automatic codec. The other values of a choice are not checked.
 */
static const char *invalid_choice(uint32_t count, bool is_one)
{
    if (is_one != (count == 1))
        return is_one ? "an automatic codec without a choice" : "a choice without an automatic codec";
    return NULL;
}

/* Requires that the choice of a launch matches its descriptor. */
static const char *invalid_launched(const struct pccl_choice *choice, uint32_t count,
                                    const struct pccl_descriptor *descriptor, uint8_t tiny)
{
    const char *invalid = invalid_choice(count, chooses(descriptor, tiny));
    if (invalid != NULL || count == 0)
        return invalid;
    return pccl_choice_is_applied((enum pccl_level)choice->level, descriptor) ? NULL
                                                                              : "a codec that differs from the choice";
}

static const char *invalid_payload(const struct pccl_instance *instance, uint32_t payload_bytes)
{
    return payload_bytes > PCCL_TINY_BYTES_MAX && instance->subgroup != PCCL_FOUNDING ? "a payload that is too long"
                                                                                      : NULL;
}

/* Checks that this payload is allowed for the operation, depending on whether it is tiny or bulk. */
static const char *invalid_way(const struct pccl_instance *instance, const struct pccl_descriptor *descriptor,
                               uint8_t tiny, uint32_t payload_bytes)
{
    if (tiny == 0 && payload_bytes > 0)
        return "a payload in an operation that is not tiny";
    const char *invalid = invalid_payload(instance, payload_bytes);
    return invalid != NULL ? invalid : pccl_wire_invalid_descriptor(descriptor, tiny != 0);
}

/* Checks a launched operation. */
static const char *invalid_launch(const struct pccl_instance *instance, const struct pccl_descriptor *descriptor,
                                  uint8_t tiny, uint32_t payload_bytes)
{
    if ((descriptor->collective == PCCL_FOUND) != (instance->subgroup == PCCL_FOUNDING))
        return "the name of an operation and its collective disagree about creating a subgroup";
    if ((descriptor->collective == PCCL_SEND) != (instance->pair != 0))
        return "the name of an operation and its collective disagree about a pair";
    return invalid_way(instance, descriptor, tiny, payload_bytes);
}

static const char *invalid_done(const struct pccl_msg_done *done)
{
    const char *invalid = invalid_launched(done->choice, done->choice_count, &done->descriptor, done->tiny);
    return invalid != NULL ? invalid
                           : invalid_launch(&done->instance, &done->descriptor, done->tiny, done->payload.length);
}

static const char *invalid_resume_operation(const struct pccl_msg_resume_operation *operation)
{
    if (operation->state == PCCL_RESUME_ABORTED && operation->class == PCCL_CLASS_NONE)
        return "aborted without a class";
    if (operation->state == PCCL_RESUME_COMMITTED && operation->class != PCCL_CLASS_NONE)
        return "committed with an abort's class";
    bool launched = operation->state != PCCL_RESUME_ABORTED; /* an aborted operation may have any descriptor */
    const char *invalid = NULL;
    if (operation->state == PCCL_RESUME_DONE)
        invalid = invalid_launched(operation->choice, operation->choice_count, &operation->descriptor, operation->tiny);
    else
        invalid = invalid_choice(operation->choice_count, operation->state == PCCL_RESUME_COMMITTED &&
                                                              chooses(&operation->descriptor, operation->tiny));
    if (invalid != NULL)
        return invalid;
    return (launched ? invalid_launch : invalid_way)(&operation->instance, &operation->descriptor, operation->tiny,
                                                     operation->payload.length);
}

static const char *invalid_outcome(const struct pccl_msg_outcome *outcome)
{
    if (outcome->class != PCCL_CLASS_NONE && (outcome->tiny != 0 || outcome->result.length > 0))
        return "an aborted operation with a result";
    if ((outcome->class != PCCL_CLASS_NONE || outcome->tiny != 0) && outcome->choice_count > 0)
        return "a choice with an outcome that allows none";
    if (outcome->tiny == 0 && outcome->result.length > 0)
        return "a result of an operation that is not tiny";
    return invalid_payload(&outcome->instance, outcome->result.length);
}

static const char *invalid_resume_subgroup(const struct pccl_msg_resume_subgroup *resume)
{
    return resume->founding.subgroup != PCCL_FOUNDING ? "not the creation of a subgroup" : NULL;
}

static const char *invalid_epoch_change(const struct pccl_msg_epoch_change *change)
{
    if (change->view_changed == 0 && change->ring_count > 0)
        return "a ring without a new view";
    if (change->replans != 0 && (change->view_changed == 0 || change->full != 0))
        return "a re-plan without a ring, or with a member list";
    return change->replans != 0 && change->added_count + change->removed_count > 0 ? "a re-plan with other members"
                                                                                   : NULL;
}

static const char *invalid_state_want(const struct pccl_msg_state_want *want)
{
    if (want->what == PCCL_WANT_ROOTS && want->first != 0)
        return "a first chunk in a request for roots";
    if (want->what == PCCL_WANT_DATA && want->count != 1)
        return "a request for several chunks at once";
    return NULL;
}

static const char *invalid_sync_plan(const struct pccl_msg_sync_plan *plan)
{
    if (plan->takes_unequal != 0 && plan->requests == 0)
        return "a member that both serves and fetches";
    return NULL;
}

/* Checks that the links are sorted by peer, and the operations by key, without duplicates. */
static const char *invalid_sight(const struct pccl_msg_sight *telemetry)
{
    for (uint32_t i = 1; i < telemetry->links_count; i++)
        if (pccl_id_compare(&telemetry->links[i - 1].peer, &telemetry->links[i].peer) >= 0)
            return "links in a report that are not in the order of their peers, or two links to one peer";
    for (uint32_t i = 1; i < telemetry->rounds_count; i++)
        if (telemetry->rounds[i - 1].key >= telemetry->rounds[i].key)
            return "operations in a report that are not in the order of their keys, or an operation twice";
    return NULL;
}

static const char *invalid_vote(const struct pccl_msg_vote *vote)
{
    if (vote->drain != 0 && vote->kind != PCCL_ROUND_UPDATE && vote->kind != PCCL_ROUND_PENDING)
        return "a drain in a vote that is not for a topology update";
    return vote->unable.length > 0 && vote->kind != PCCL_ROUND_OPTIMIZE
               ? "a reason in a vote that is not for an optimization"
               : NULL;
}

const char *pccl_wire_invalid(const struct pccl_msg *msg)
{
    switch (msg->type) {
    case PCCL_MSG_vote: return invalid_vote(&msg->as.vote);
    case PCCL_MSG_done: return invalid_done(&msg->as.done);
    case PCCL_MSG_resume_operation: return invalid_resume_operation(&msg->as.resume_operation);
    case PCCL_MSG_resume_round: return invalid_round(msg->as.resume_round.kind, msg->as.resume_round.outcome);
    case PCCL_MSG_round: return invalid_round(msg->as.round.kind, msg->as.round.outcome);
    case PCCL_MSG_sync_plan: return invalid_sync_plan(&msg->as.sync_plan);
    case PCCL_MSG_state_want: return invalid_state_want(&msg->as.state_want);
    case PCCL_MSG_ready: return invalid_launch(&msg->as.ready.instance, &msg->as.ready.descriptor, 0, 0);
    case PCCL_MSG_resume_subgroup: return invalid_resume_subgroup(&msg->as.resume_subgroup);
    case PCCL_MSG_outcome: return invalid_outcome(&msg->as.outcome);
    case PCCL_MSG_sight: return invalid_sight(&msg->as.sight);
    case PCCL_MSG_epoch_change: return invalid_epoch_change(&msg->as.epoch_change);
    default: return NULL;
    }
}

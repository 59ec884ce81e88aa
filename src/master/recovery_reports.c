/* Stores the reports of members of an older boot after a restart of the master (PROTOCOL 12.2). */
#include "master/links.h"
#include "master/operations.h"
#include "master/output.h"
#include "master/recovery_internal.h"
#include "master/roster.h"
#include "wire/subgroup.h"
#include "wire/tiny.h"

#include <string.h>

/* Maximum inc in a report, so that a next epoch exists. */
#define INC_MOST (UINT32_MAX - PCCL_INC_SPREAD)
/* Maximum number of a round or an outcome. Numbers begin at 0 and grow by one, so valid ones are far lower. */
#define COUNTER_MOST (UINT64_MAX / 4)

/* ---- contents ---- */

void pccl_master_free_report(struct pccl_master *m, struct pccl_remote *remote)
{
    struct pccl_report *report = remote->report;
    if (report == NULL)
        return;
    pccl_release(&m->memory, report->members, report->fields.members_count * sizeof *report->members);
    pccl_release(&m->memory, report->ring, report->fields.ring_count * sizeof *report->ring);
    while (report->ops != NULL) {
        struct pccl_reported_op *op = report->ops;
        report->ops = op->next;
        pccl_release(&m->memory, op, sizeof *op + op->bytes_length);
    }
    while (report->subgroups != NULL) {
        struct pccl_reported_subgroup *subgroup = report->subgroups;
        report->subgroups = subgroup->next;
        pccl_release(&m->memory, subgroup, sizeof *subgroup + subgroup->length);
    }
    pccl_release(&m->memory, report, sizeof *report);
    remote->report = NULL;
}

static bool can_be_counted(const struct pccl_msg_resume *resume)
{
    for (uint32_t i = 0; i < resume->members_count; i++)
        if (resume->members[i].admitted >= COUNTER_MOST)
            return false;
    return resume->update < COUNTER_MOST && resume->optimize < COUNTER_MOST && resume->query < COUNTER_MOST &&
           resume->sync < COUNTER_MOST && resume->decisions < COUNTER_MOST;
}

/* Stores the first part of a report. Returns MALFORMED if it is inconsistent, MEMORY if out of memory. */
static enum pccl_status take_resume(struct pccl_master *m, struct pccl_report *report,
                                    const struct pccl_msg_resume *resume)
{
    if (report->begun || resume->members_count == 0 || resume->ring_count == 0 || resume->epoch.inc > INC_MOST ||
        pccl_epoch_compare(&resume->view, &resume->epoch) > 0 || !can_be_counted(resume))
        return PCCL_MALFORMED;
    report->members = pccl_allocate(&m->memory, resume->members_count * sizeof *report->members);
    report->ring = pccl_allocate(&m->memory, resume->ring_count * sizeof *report->ring);
    if (report->members == NULL || report->ring == NULL) {
        pccl_release(&m->memory, report->members, resume->members_count * sizeof *report->members);
        pccl_release(&m->memory, report->ring, resume->ring_count * sizeof *report->ring);
        report->members = NULL;
        report->ring = NULL;
        return PCCL_MEMORY;
    }
    memcpy(report->members, resume->members, resume->members_count * sizeof *report->members);
    memcpy(report->ring, resume->ring, resume->ring_count * sizeof *report->ring);
    report->fields = *resume;
    report->fields.members = report->members;
    report->fields.ring = report->ring;
    report->begun = true;
    return PCCL_OK;
}

/*
 * Returns true if the reported result, which may be sent again later, fits its operation. Contributions are checked
 * later, when the number of participants is known. The previous master may have had another tiny_bytes_max.
 */
static bool is_plausible(const struct pccl_msg_resume_operation *fields)
{
    if (fields->state == PCCL_RESUME_DONE)
        return true;
    if (fields->state != PCCL_RESUME_COMMITTED || fields->tiny == 0)
        return fields->payload.length == 0;
    return fields->world > 0 && fields->world <= PCCL_PEERS_MAX &&
           pccl_tiny_result_fits(&fields->descriptor, fields->world, &fields->payload, PCCL_TINY_BYTES_MAX);
}

/* Returns OK if this is the result of a founding in which this peer took part. The name depends on the members. */
static enum pccl_status judge_founded(struct pccl_master *m, const struct pccl_remote *from,
                                      const struct pccl_instance *founding, const struct pccl_bytes *founded)
{
    uint32_t count = pccl_founded_count(founded);
    uint32_t bytes = pccl_founding_bytes(count);
    if (count < 2 || !pccl_founded_has_ring(founded))
        return PCCL_MALFORMED;
    struct pccl_id *ids = pccl_allocate(&m->memory, bytes);
    if (ids == NULL)
        return PCCL_MEMORY;
    pccl_founded_list(founded, ids);
    bool valid = pccl_founding_is_valid(founding, &(struct pccl_bytes){ids->bytes, bytes}) &&
                 pccl_id_find(ids, count, &from->id) < count;
    pccl_release(&m->memory, ids, bytes);
    return valid ? PCCL_OK : PCCL_MALFORMED;
}

static enum pccl_status take_subgroup(struct pccl_master *m, struct pccl_remote *from,
                                      const struct pccl_msg_resume_subgroup *fields)
{
    struct pccl_report *report = from->report;
    uint32_t seats = pccl_founded_count(&fields->founded), length = fields->founded.length;
    if (!report->begun || report->subgroup_count == PCCL_SUBGROUPS_MAX ||
        report->seat_count + seats > PCCL_SUBGROUP_SEATS_MAX)
        return PCCL_MALFORMED;
    enum pccl_status status = judge_founded(m, from, &fields->founding, &fields->founded);
    if (status != PCCL_OK)
        return status;
    struct pccl_reported_subgroup *subgroup = pccl_allocate(&m->memory, sizeof *subgroup + length);
    if (subgroup == NULL)
        return PCCL_MEMORY;
    subgroup->founding = fields->founding;
    subgroup->length = length;
    memcpy(subgroup->founded, fields->founded.data, length);
    subgroup->next = report->subgroups;
    report->subgroups = subgroup;
    report->subgroup_count++;
    report->seat_count += seats;
    return PCCL_OK;
}

static enum pccl_status take_operation(struct pccl_master *m, struct pccl_remote *from,
                                       const struct pccl_msg_resume_operation *fields)
{
    struct pccl_report *report = from->report;
    uint32_t length = fields->payload.length + fields->reason.length;
    bool aborted = fields->state == PCCL_RESUME_ABORTED;
    if (!report->begun || report->op_count >= PCCL_OPS_PER_PEER_MAX + PCCL_TOMBSTONES_MAX ||
        (!aborted && report->launched_count >= PCCL_OPS_PER_PEER_MAX) || !is_plausible(fields))
        return PCCL_MALFORMED;
    if (fields->state == PCCL_RESUME_COMMITTED && fields->descriptor.collective == PCCL_FOUND) {
        enum pccl_status status = judge_founded(m, from, &fields->instance, &fields->payload);
        if (status != PCCL_OK)
            return status;
    }
    struct pccl_reported_op *op = pccl_allocate(&m->memory, sizeof *op + length);
    if (op == NULL)
        return PCCL_MEMORY;
    op->fields = *fields;
    op->bytes_length = length;
    if (fields->payload.length > 0)
        memcpy(op->bytes, fields->payload.data, fields->payload.length);
    if (fields->reason.length > 0)
        memcpy(op->bytes + fields->payload.length, fields->reason.data, fields->reason.length);
    if (fields->choice_count > 0)
        op->choice = fields->choice[0];
    op->fields.choice = &op->choice;
    op->fields.payload.data = op->bytes;
    op->fields.reason.data = op->bytes + fields->payload.length;
    op->next = report->ops;
    report->ops = op;
    report->op_count++;
    report->launched_count += !aborted;
    return PCCL_OK;
}

static enum pccl_status take_round(struct pccl_report *report, const struct pccl_msg_resume_round *round)
{
    if (round->attributes.epoch.inc > INC_MOST)
        return PCCL_MALFORMED;
    report->rounds[round->kind] = *round;
    report->rounds[round->kind].reason = (struct pccl_bytes){NULL, 0};
    report->round_known[round->kind] = true;
    pccl_text_clear(&report->round_reason[round->kind]);
    pccl_text_add_bytes(&report->round_reason[round->kind], (const char *)round->reason.data, round->reason.length);
    return PCCL_OK;
}

void pccl_master_resume_received(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg *msg)
{
    struct pccl_report *report = from->report;
    enum pccl_status status = PCCL_OK;
    report->received_us = m->now_us;
    PCCL_ASSERT(m->recovering);
    switch (report->ended ? 0 : msg->type) {
    case PCCL_MSG_resume: status = take_resume(m, report, &msg->as.resume); break;
    case PCCL_MSG_resume_operation: status = take_operation(m, from, &msg->as.resume_operation); break;
    case PCCL_MSG_resume_subgroup: status = take_subgroup(m, from, &msg->as.resume_subgroup); break;
    case PCCL_MSG_resume_round: status = take_round(report, &msg->as.resume_round); break;
    case PCCL_MSG_resume_end:
        report->ended = report->begun;
        status = report->begun ? PCCL_OK : PCCL_MALFORMED;
        for (uint32_t i = 0; i < msg->as.resume_end.dead_count; i++)
            pccl_master_note_edge(
                m, &from->id,
                &(struct pccl_msg_link_lost){.peer = msg->as.resume_end.dead[i], .how = PCCL_LINK_REFUSED});
        pccl_master_mark(m, PCCL_STAGE_RECOVERY);
        break;
    default: status = PCCL_MALFORMED; break;
    }
    if (status == PCCL_MEMORY)
        pccl_master_remove(m, from, PCCL_REFUSAL_FULL, "out of memory for its report of the run");
    else if (status != PCCL_OK)
        pccl_master_remove(m, from, PCCL_REFUSAL_PROTOCOL, "its report of the run is invalid (%s)",
                           pccl_wire_name(msg->type));
}

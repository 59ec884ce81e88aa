/*
 * Report to a restarted master, which has no state of the run (PROTOCOL 12.2), and the continuation after the master
 * has recovered.
 */
#include "peer/control.h"
#include "peer/links.h"
#include "peer/optimize.h"
#include "peer/output.h"
#include "peer/progress.h"
#include "peer/receives.h"
#include "peer/op_table.h"
#include "peer/rounds.h"
#include "peer/subgroups.h"
#include "wire/subgroup.h"

/* Even the report of a peer that has reached all limits fits into a new session. */
_Static_assert(PCCL_OPS_PER_PEER_MAX + PCCL_TOMBSTONES_MAX + PCCL_SUBGROUPS_MAX < PCCL_SESSION_QUEUE_MAX, "messages");
_Static_assert((uint64_t)PCCL_OPS_PER_PEER_MAX *PCCL_TINY_BYTES_MAX +
                       3 * (uint64_t)PCCL_SUBGROUP_SEATS_MAX * PCCL_FOUNDED_SEAT_BYTES <
                   PCCL_SESSION_BYTES_MAX,
               "their payload; seats count at a launch, and again in the subgroup that it founds");

/*
 * Returns the descriptor to report. It is empty for an operation that was given up, as for a tombstone, unless it
 * belongs to a pair.
 */
static struct pccl_descriptor descriptor_of(const struct pccl_peer_op *op)
{
    return op->given_up && op->instance.pair == 0 ? (struct pccl_descriptor){0} : op->descriptor;
}

static void resume_operation(struct pccl_peer *p, const struct pccl_peer_op *op)
{
    struct pccl_msg msg = {.type = PCCL_MSG_resume_operation,
                           .as.resume_operation = {.instance = op->instance,
                                                   .view = op->start_view,
                                                   .tiny = op->tiny,
                                                   .world = op->world,
                                                   .descriptor = descriptor_of(op)}};
    struct pccl_msg_resume_operation *fields = &msg.as.resume_operation;
    if (pccl_peer_is_decided(op)) {
        fields->state = op->class == PCCL_CLASS_NONE ? PCCL_RESUME_COMMITTED : PCCL_RESUME_ABORTED;
        fields->class = (uint8_t)op->class;
        fields->reason = pccl_bytes_of_text(&op->reason);
    } else {
        fields->state = op->complete ? PCCL_RESUME_DONE : PCCL_RESUME_RUNNING;
    }
    if (fields->state == PCCL_RESUME_COMMITTED || fields->state == PCCL_RESUME_DONE) {
        fields->choice = fields->state == PCCL_RESUME_COMMITTED ? &op->next_choice : &op->choice;
        fields->choice_count = fields->choice->why != PCCL_CHOICE_NONE;
    }
    if (op->tiny && (fields->state == PCCL_RESUME_COMMITTED || fields->state == PCCL_RESUME_DONE))
        fields->payload = (struct pccl_bytes){op->payload, op->payload_bytes};
    pccl_peer_send(p, &msg);
}

static void resume_rounds(struct pccl_peer *p)
{
    for (uint8_t kind = 0; kind < PCCL_ROUND_KINDS; kind++) {
        if (!p->round_known[kind])
            continue;
        struct pccl_msg msg = {.type = PCCL_MSG_resume_round,
                               .as.resume_round = {.kind = kind,
                                                   .round = p->rounds[kind] - 1,
                                                   .outcome = p->last_outcome[kind],
                                                   .attributes = p->last_attributes[kind]}};
        if (kind == PCCL_ROUND_SYNC) {
            msg.as.resume_round.revision = p->sync.revision;
            msg.as.resume_round.reason = pccl_bytes_of_text(&p->sync.reason);
        }
        if (kind == PCCL_ROUND_OPTIMIZE)
            msg.as.resume_round.reason = pccl_bytes_of_text(&p->optimize_reason);
        pccl_peer_send(p, &msg);
    }
}

static void resume_end(struct pccl_peer *p)
{
    size_t bytes = pccl_max_u64(1, p->link_count) * sizeof(struct pccl_id);
    struct pccl_id *dead = pccl_allocate(&p->memory, bytes);
    uint32_t count = 0;
    for (uint32_t i = 0; dead != NULL && i < p->link_count; i++) {
        const struct pccl_peer_link *link = &p->links[i];
        bool refused =
            link->failed && link->reached && (link->how == PCCL_LINK_REFUSED || link->how == PCCL_LINK_OTHER);
        if (link->out != PCCL_DIAL_UP && refused)
            dead[count++] = link->id;
    }
    struct pccl_msg msg = {.type = PCCL_MSG_resume_end, .as.resume_end = {.dead = dead, .dead_count = count}};
    pccl_peer_send(p, &msg);
    pccl_release(&p->memory, dead, bytes);
}

void pccl_peer_send_resume(struct pccl_peer *p)
{
    PCCL_ASSERT(p->state == PCCL_PEER_MEMBER && p->greeted);
    pccl_peer_log(p, PCCL_LOG_INFO, "the master restarted: reporting this peer's state to it");
    p->resuming = true;
    p->test.outstanding = false; /* no master waits for the result; the restarted one may request the same test */
    for (uint32_t i = 0; i < p->link_count; i++)
        p->links[i].warm = false; /* the restarted master requests its links again */
    struct pccl_msg msg = {.type = PCCL_MSG_resume,
                           .as.resume = {.epoch = p->epoch,
                                         .view = p->view,
                                         .update = p->rounds[PCCL_ROUND_UPDATE],
                                         .optimize = p->rounds[PCCL_ROUND_OPTIMIZE],
                                         .sync = p->rounds[PCCL_ROUND_SYNC],
                                         .query = p->rounds[PCCL_ROUND_PENDING],
                                         .revision = p->revision,
                                         .decisions = p->decisions,
                                         .members = p->members,
                                         .members_count = p->member_count,
                                         .ring = p->group.ring,
                                         .ring_count = p->group.count,
                                         .cost = p->group.cost}};
    pccl_peer_send(p, &msg);
    pccl_peer_resume_subgroups(p);
    for (const struct pccl_peer_op *op = p->oldest; op != NULL; op = op->newer)
        if (pccl_peer_is_current(p, &op->instance) && op->lost_by == PCCL_OK && op->instance.pair != PCCL_OPEN_PAIR)
            resume_operation(p, op);
    resume_rounds(p);
    resume_end(p);
    if (p->state == PCCL_PEER_MEMBER)
        pccl_peer_forget_warm_ups(p);
}

/*
 * Continues after the recovery. Outcomes, views and answers have arrived before `recovered`. Open requests are sent
 * only now, because the master could not have decided them before.
 */
void pccl_peer_recovered(struct pccl_peer *p, const struct pccl_msg_recovered *recovered)
{
    if (!p->resuming) {
        pccl_peer_give_up(p, PCCL_MASTER_LOST, "the master recovered twice");
        return;
    }
    p->decisions = pccl_max_u64(p->decisions, recovered->decisions);
    p->resuming = false;
    pccl_peer_links_follow_view(p, false);
    if (p->state == PCCL_PEER_OVER)
        return;
    pccl_peer_log(p, PCCL_LOG_INFO, "the run continues after the restart of the master");
    pccl_peer_resend_operations(p);
    pccl_peer_resend_gone(p);
    pccl_peer_forget_requests(p);
    p->has_news = true; /* requests all offers again */
    pccl_peer_resend_closings(p);
    pccl_peer_resend_votes(p);
    pccl_peer_resend_describe(p);
}

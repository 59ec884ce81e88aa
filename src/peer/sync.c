/*
 * This peer's part in a synchronization of shared state (PROTOCOL 10.5): its vote, the plan that the master makes from
 * all votes, and the result of the transfer, which the driver performs.
 *
 * After a restart of the master, the peer votes again with its present content: the original content if no transfer has
 * changed it; the elected content after a complete transfer; or, after a partial one, torn content, which no peer may
 * fetch.
 */
#include "peer/calls.h"
#include "peer/members.h"
#include "peer/output.h"
#include "peer/queries.h"
#include "peer/sync.h"

void pccl_peer_begin_sync(struct pccl_peer *p, const struct pccl_sync_vote *vote)
{
    struct pccl_sync_call *sync = &p->sync;
    sync->vote = *vote;
    sync->planned = sync->done = sync->complete = sync->at_risk = false;
    pccl_text_clear(&sync->failure);
}

uint64_t pccl_peer_sync_round(const struct pccl_peer *p) { return p->rounds[PCCL_ROUND_SYNC]; }
uint64_t pccl_peer_sync_revision(const struct pccl_peer *p) { return p->sync.revision; }

/* Returns true if the driver may still write into memory for the last plan, because it has not reported the end. */
static bool is_writable_now(const struct pccl_peer *p)
{
    const struct pccl_sync_call *sync = &p->sync;
    bool through = sync->done && !p->calls[PCCL_ROUND_SYNC].withdrawn;
    return sync->planned && sync->plan.requests && !sync->complete && !through;
}

/*
 * Returns true if a transfer of this call has fetched all tensors, so that this peer's content is as complete as the
 * content of a member that has synchronized before.
 */
static bool holds_all(const struct pccl_sync_call *sync) { return sync->complete && sync->plan.takes_unequal; }

/*
 * Sends the vote, possibly again to a restarted master. Until the new plan arrives, the driver continues with the old
 * one and may write after this vote was sent. Therefore the vote reports torn content even if nothing has been written
 * yet.
 */
void pccl_peer_send_sync_vote(struct pccl_peer *p)
{
    struct pccl_sync_call *sync = &p->sync;
    sync->at_risk = sync->at_risk || is_writable_now(p);
    sync->planned = false;
    struct pccl_msg msg = {.type = PCCL_MSG_sync_vote,
                           .as.sync_vote = {.round = p->rounds[PCCL_ROUND_SYNC],
                                            .revision = sync->vote.revision,
                                            .strategy = sync->vote.strategy,
                                            .fresh = !sync->synced && !holds_all(sync),
                                            .torn = sync->torn || sync->at_risk,
                                            .unequal = sync->vote.unequal,
                                            .structure = sync->vote.structure,
                                            .content = sync->vote.content,
                                            .shapes = sync->vote.shapes,
                                            .shapes_count = sync->vote.shape_count,
                                            .lines = sync->vote.lines,
                                            .lines_count = sync->vote.line_count,
                                            .unable = pccl_bytes_of_text(&p->calls[PCCL_ROUND_SYNC].unable)}};
    pccl_peer_send(p, &msg);
}

static void send_done(struct pccl_peer *p)
{
    const struct pccl_sync_call *sync = &p->sync;
    PCCL_ASSERT(sync->done);
    if (p->resuming)
        return; /* the vote reports this, and the next plan is answered at once */
    struct pccl_msg msg = {.type = PCCL_MSG_sync_done,
                           .as.sync_done = {.round = p->rounds[PCCL_ROUND_SYNC],
                                            .failed = !sync->complete,
                                            .reason = pccl_bytes_of_text(&sync->failure)}};
    pccl_peer_send(p, &msg);
}

void pccl_peer_sync_proven(struct pccl_peer *p, const struct pccl_proof *proof)
{
    struct pccl_sync_call *sync = &p->sync;
    if (!p->calls[PCCL_ROUND_SYNC].outstanding || !sync->planned || !sync->vouches || p->resuming)
        return;
    sync->vouches = false;
    struct pccl_msg msg = {.type = PCCL_MSG_sync_proof, .as.sync_proof = {.round = p->rounds[PCCL_ROUND_SYNC]}};
    if (proof != NULL)
        msg.as.sync_proof.proof = *proof;
    pccl_peer_send(p, &msg);
}

static bool is_open(struct pccl_peer *p, uint64_t round, const char *what)
{
    if (p->calls[PCCL_ROUND_SYNC].outstanding && round == p->rounds[PCCL_ROUND_SYNC])
        return true;
    pccl_peer_give_up(p, PCCL_MASTER_LOST, "the master sent %s for a round that is not open", what);
    return false;
}

/*
 * Handles the plan. A failed transfer stays failed, so the driver receives no other plan to fetch. A transfer that was
 * complete before the master restarted counts as complete again if the new plan requires the same content.
 */
void pccl_peer_sync_planned(struct pccl_peer *p, const struct pccl_msg_sync_plan *plan)
{
    struct pccl_sync_call *sync = &p->sync;
    if (!is_open(p, plan->round, "a plan"))
        return;
    struct pccl_vote_call *call = &p->calls[PCCL_ROUND_SYNC];
    bool failed = call->withdrawn || (sync->done && !sync->complete);
    call->stuck = call->stuck && call->withdrawn; /* all peers have voted since then */
    if (call->withdrawn && sync->failure.length == 0)
        pccl_text_format(&sync->failure, "%s", pccl_peer_why_withdrawn(call));
    sync->planned = true;
    sync->done = sync->complete = false;
    sync->vouches = !(sync->torn || sync->at_risk) && pccl_digest_equal(&sync->vote.content, &plan->content);
    sync->plan = (struct pccl_sync_plan){.round = plan->round,
                                         .revision = plan->revision,
                                         .requests = plan->requests != 0,
                                         .takes_unequal = plan->takes_unequal != 0,
                                         .content = plan->content};
    if (sync->torn_unequal && plan->requests && !plan->takes_unequal) {
        pccl_text_format(&sync->failure, "tensors that may differ between peers are partly overwritten, and no peer is "
                                         "left to fetch them from; restore them from a checkpoint and reconnect");
        failed = true;
    }
    if (failed && plan->requests) {
        sync->vouches = false;
        sync->done = true;
        send_done(p);
        return;
    }
    p->effects.sync_plan(p->effects.context, &sync->plan);
}

void pccl_peer_sync_donor_named(struct pccl_peer *p, const struct pccl_msg_sync_donor *donor)
{
    if (!is_open(p, donor->round, "a donor") || p->sync.done)
        return;
    p->effects.sync_donor(p->effects.context, &donor->peer, &donor->ticket, donor->holds_unequal != 0, &donor->proof,
                          donor->candidates, donor->candidates_count, donor->reversed != 0);
}

void pccl_peer_sync_touched(struct pccl_peer *p)
{
    struct pccl_sync_call *sync = &p->sync;
    if (!p->calls[PCCL_ROUND_SYNC].outstanding)
        return;
    sync->torn = true;
    sync->torn_unequal = sync->torn_unequal || sync->plan.takes_unequal;
}

/* Records that the memory has the content of the plan, even if the caller has withdrawn. */
static void note_complete(struct pccl_sync_call *sync)
{
    sync->torn = sync->at_risk = false;
    sync->torn_unequal = sync->torn_unequal && !sync->plan.takes_unequal;
    sync->vote.content = sync->plan.content;
    sync->vote.revision = sync->plan.revision;
}

void pccl_peer_sync_done(struct pccl_peer *p, bool complete, const struct pccl_text *reason)
{
    struct pccl_sync_call *sync = &p->sync;
    if (!p->calls[PCCL_ROUND_SYNC].outstanding || !sync->planned || !sync->plan.requests)
        return;
    if (complete)
        note_complete(sync);
    if (sync->done)
        return;
    sync->done = true;
    sync->complete = complete;
    if (!complete) {
        sync->vouches = false; /* the master no longer waits for the proof */
        sync->failure = *reason;
        pccl_names_add_to(&p->names, &sync->failure);
    }
    send_done(p);
}

bool pccl_peer_withdraw_planned_sync(struct pccl_peer *p, const char *reason)
{
    struct pccl_text text;
    if (!p->sync.planned)
        return false;
    pccl_text_format(&text, "%s", reason);
    pccl_peer_sync_done(p, false, &text);
    return true;
}

enum pccl_status pccl_peer_sync_ended(struct pccl_peer *p, const struct pccl_msg_round *round)
{
    struct pccl_sync_call *sync = &p->sync;
    const struct pccl_vote_call *call = &p->calls[PCCL_ROUND_SYNC];
    PCCL_ASSERT(call->outstanding);
    pccl_peer_take_reason(p, &sync->reason, &round->reason);
    sync->revision = round->revision;
    if (round->outcome == PCCL_ROUND_FAILED) {
        p->last_reason = sync->reason;
        return PCCL_STATE;
    }
    p->revision = round->revision + 1;
    if (call->unable.length > 0) { /* only a faulty master ends a round with this vote as done */
        p->last_reason = call->unable;
        return PCCL_STATE;
    }
    if (sync->planned && sync->plan.requests && !sync->complete) {
        p->last_reason = sync->failure;
        return call->withdrawn ? call->why_withdrawn : PCCL_STATE;
    }
    sync->synced = true;
    return PCCL_OK;
}

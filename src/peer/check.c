/*
 * The rules about a peer's state that its functions rely on. They hold between two steps or calls,
 * whatever a correct master has sent and whether or not memory was short. This file must not know
 * how a state came about.
 */
#include "peer/check.h"

#include "core/check.h"
#include "peer/operations.h"
#include "peer/view.h"

/* ---- the master ---- */

static const char *check_master(const struct pccl_peer *p)
{
    bool known = p->state == PCCL_PEER_PENDING || p->state == PCCL_PEER_MEMBER;
    PCCL_RULE(!p->dialing || !p->up, "there is one connection to the master");
    PCCL_RULE(!p->greeted || p->up, "a greeting is of a connection that stands");
    PCCL_RULE(!p->greeted || p->lost_us == 0, "the master is lost until it has greeted");
    PCCL_RULE(!p->resuming || p->state == PCCL_PEER_MEMBER, "a member resumes");
    PCCL_RULE(!known || p->up || p->dialing || p->redial_us != 0, "who has lost the master comes back");
    PCCL_RULE(p->state != PCCL_PEER_OVER || (!p->up && !p->dialing && p->link_count == 0),
              "who is out has closed everything");
    PCCL_RULE(pccl_session_is_sound(&p->session), "a session keeps what is not acknowledged, and nothing else");
    return NULL;
}

/* ---- membership ---- */

static bool is_before(const struct pccl_member *a, const struct pccl_member *b)
{
    return a->group != b->group ? a->group < b->group : pccl_id_compare(&a->peer, &b->peer) < 0;
}

static const char *check_members(const struct pccl_peer *p)
{
    uint32_t in_group = 0, here = 0;
    if (p->state != PCCL_PEER_MEMBER)
        return NULL;
    for (uint32_t i = 0; i < p->member_count; i++) {
        PCCL_RULE(i == 0 || is_before(&p->members[i - 1], &p->members[i]), "members are sorted");
        in_group += p->members[i].group == p->config.group;
    }
    for (uint32_t i = 0; i < p->ring_count; i++) {
        here += pccl_id_equal(&p->ring[i], &p->config.id);
        PCCL_RULE(pccl_peer_is_in_group(p, &p->ring[i]), "a ring is of members of the group");
    }
    PCCL_RULE(here == 1 && p->ring_count == in_group, "a ring has all of the group, and this peer once");
    PCCL_RULE(pccl_epoch_compare(&p->view, &p->epoch) <= 0, "a view is an epoch that is known");
    return NULL;
}

/* ---- operations ---- */

static bool is_of_this_era(const struct pccl_peer *p, const struct pccl_instance *instance)
{
    return instance->group == p->config.group && instance->joint == pccl_peer_joint(p) &&
           instance->sync == p->rounds[PCCL_ROUND_SYNC];
}

static const char *check_open(const struct pccl_peer *p, const struct pccl_peer_op *op)
{
    PCCL_RULE(p->state == PCCL_PEER_MEMBER, "nothing is open when this peer is out");
    PCCL_RULE(op->held, "what is open has a caller");
    PCCL_RULE(pccl_epoch_equal(&op->start_view, &p->view), "what is open began in this view");
    PCCL_RULE(op->complete || op->state != PCCL_OP_DONE, "what is done is complete");
    PCCL_RULE(!op->tiny || op->payload != NULL, "a tiny operation has its payload");
    PCCL_RULE(!op->unstable, "an outcome is told for what is decided");
    return NULL;
}

static const char *check_op(const struct pccl_peer *p, const struct pccl_peer_op *op)
{
    bool tombstone = op->state == PCCL_OP_TOMBSTONE;
    PCCL_RULE(p->state == PCCL_PEER_OVER || is_of_this_era(p, &op->instance), "operations are of this era");
    PCCL_RULE(!op->started || !op->tiny, "a tiny operation moves no data");
    PCCL_RULE(!tombstone || (!op->held && op->class != PCCL_CLASS_NONE), "a tombstone is an abort that nobody holds");
    PCCL_RULE(!op->unstable || (op->confirmed && !tombstone && op->decision > p->stable),
              "an outcome is unstable when the master has told it and not everybody knows it");
    PCCL_RULE(op->decision <= p->decisions, "the latest outcome is known");
    return pccl_peer_is_decided(op) ? NULL : check_open(p, op);
}

static const char *check_operations(const struct pccl_peer *p)
{
    const char *broken = NULL;
    const struct pccl_peer_op *before = NULL;
    uint32_t count = 0, held = 0, awaited = 0, tombstones = 0, unstable = 0;
    for (const struct pccl_peer_op *op = p->oldest; broken == NULL && op != NULL; before = op, op = op->newer) {
        PCCL_RULE(op->older == before, "operations are linked both ways");
        count++;
        held += op->held;
        awaited += op->awaited && !pccl_peer_is_decided(op);
        tombstones += op->state == PCCL_OP_TOMBSTONE;
        unstable += op->unstable;
        broken = check_op(p, op);
    }
    if (broken != NULL)
        return broken;
    PCCL_RULE(p->newest == before, "the last operation is the newest");
    PCCL_RULE(p->op_count == count && p->by_instance.count == count, "operations are counted");
    PCCL_RULE(p->held_count == held && p->by_tag.count == held, "operations that callers hold are counted");
    PCCL_RULE(p->awaited_count == awaited, "operations that callers wait in are counted");
    PCCL_RULE(p->tombstone_count == tombstones, "tombstones are counted");
    before = NULL;
    for (const struct pccl_peer_op *op = p->first_unstable; op != NULL; before = op, op = op->after, unstable--) {
        PCCL_RULE(op->before == before && op->unstable, "unstable outcomes are linked both ways");
        PCCL_RULE(before == NULL || before->decision <= op->decision, "unstable outcomes are in order of decision");
    }
    PCCL_RULE(p->last_unstable == before && unstable == 0, "all unstable outcomes are in the list of them");
    return NULL;
}

static const char *check_uses(const struct pccl_peer *p)
{
    for (const struct pccl_peer_op *op = p->oldest; op != NULL && p->state == PCCL_PEER_MEMBER; op = op->newer) {
        struct pccl_table_node *node = pccl_table_find(&p->uses, op->instance.tag);
        uint32_t launches = node != NULL ? PCCL_CONTAINER_OF(node, const struct pccl_use, by_tag)->launches : 0;
        PCCL_RULE((op->instance.use < launches) == (op->state != PCCL_OP_TOMBSTONE),
                  "launches are counted, and a tombstone is of one to come");
    }
    for (struct pccl_table_node *node = pccl_table_first(&p->announcements); node != NULL;
         node = pccl_table_after(&p->announcements, node)) {
        const struct pccl_instance *instance =
            &PCCL_CONTAINER_OF(node, const struct pccl_announcement, by_instance)->instance;
        PCCL_RULE(p->state == PCCL_PEER_PENDING || p->state == PCCL_PEER_MEMBER, "announcements end with the run");
        PCCL_RULE(pccl_peer_find_instance(p, instance) == NULL, "what is announced is not launched here");
    }
    return NULL;
}

static const char *check_limits(const struct pccl_peer *p)
{
    PCCL_RULE(p->held_count <= PCCL_OPS_HELD_MAX, "callers hold as many operations as limits.h says");
    PCCL_RULE(p->op_count - p->tombstone_count <= PCCL_OPS_PER_PEER_MAX, "operations are as many as limits.h says");
    PCCL_RULE(p->tombstone_count <= PCCL_TOMBSTONES_MAX, "tombstones are as many as limits.h says");
    PCCL_RULE(p->announcements.count <= PCCL_OPS_PER_PEER_MAX, "announcements are as many as limits.h says");
    PCCL_RULE(p->uses.count <= PCCL_TAGS_PER_ERA_MAX, "tags of an era are as many as limits.h says");
    PCCL_RULE(p->link_count <= PCCL_PEERS_MAX, "links are as many as limits.h says");
    return NULL;
}

/* ---- calls ---- */

static const char *check_calls(const struct pccl_peer *p)
{
    uint32_t quiet = 0;
    for (uint32_t kind = 0; kind < PCCL_ROUND_KINDS; kind++) {
        PCCL_RULE(!p->calls[kind].outstanding || p->state == PCCL_PEER_MEMBER, "members make joint calls");
        quiet += kind != PCCL_ROUND_PENDING && p->calls[kind].outstanding;
    }
    PCCL_RULE(quiet <= 1, "one call at a time ends the era");
    PCCL_RULE(quiet == 0 || p->held_count == 0, "an era ends without operations");
    PCCL_RULE(!p->connect_outstanding || p->state == PCCL_PEER_CONNECTING || p->state == PCCL_PEER_PENDING,
              "connecting ends with the admission, or the life of this peer");
    PCCL_RULE(!p->describing || p->state == PCCL_PEER_MEMBER, "members ask how links are seen");
    PCCL_RULE(!p->test.outstanding || p->state != PCCL_PEER_MEMBER || p->calls[PCCL_ROUND_OPTIMIZE].outstanding,
              "ways are tested within an optimization");
    return NULL;
}

/* ---- links ---- */

static const char *check_link(const struct pccl_peer *p, const struct pccl_peer_link *link)
{
    bool wanted = link->ring || link->mesh || link->warm, down = link->out == PCCL_DIAL_DOWN;
    const struct pccl_id *successor = pccl_peer_successor(p);
    PCCL_RULE(wanted || link->in_up, "a link is wanted here, or by the other end");
    PCCL_RULE(wanted || down, "what nobody wants here is closed");
    PCCL_RULE(down || link->retry_us == 0, "a link that is dialed, or stands, is not dialed again");
    PCCL_RULE(!link->ring || !down || link->candidate_count == 0 || link->retry_us != 0,
              "the link to the successor is dialed again");
    PCCL_RULE(!link->ring || (successor != NULL && pccl_id_equal(&link->id, successor)),
              "the link of the ring is to the successor");
    return NULL;
}

static const char *check_links(const struct pccl_peer *p)
{
    const char *broken = NULL;
    uint32_t ring = 0;
    for (uint32_t i = 0; broken == NULL && i < p->link_count; i++) {
        ring += p->links[i].ring;
        broken = check_link(p, &p->links[i]);
    }
    if (broken != NULL)
        return broken;
    PCCL_RULE(p->state != PCCL_PEER_MEMBER || ring == (p->ring_count > 1), "a member has one link to its successor");
    return NULL;
}

/* ---- time: the machine is woken when something is due ---- */

static const char *check_deadlines_of_calls(const struct pccl_peer *p)
{
    for (uint32_t kind = 0; kind < PCCL_ROUND_KINDS; kind++) {
        const struct pccl_vote_call *call = &p->calls[kind];
        PCCL_RULE(!call->outstanding || call->withdrawn || p->deadline_us <= call->deadline_us, "a call ends in time");
        PCCL_RULE(!call->outstanding || p->deadline_us <= call->where_us, "a call asks who is where");
    }
    PCCL_RULE(!p->connect_outstanding || p->deadline_us <= p->connect_deadline_us, "connecting ends in time");
    for (const struct pccl_peer_op *op = p->oldest; op != NULL; op = op->newer) {
        if (pccl_peer_is_decided(op))
            continue;
        PCCL_RULE(op->abort_sent || p->deadline_us <= op->deadline_us, "an operation ends in time");
        PCCL_RULE(!op->awaited || p->deadline_us <= op->where_us, "an operation asks who is where");
    }
    return NULL;
}

static const char *check_deadlines(const struct pccl_peer *p)
{
    if (p->state == PCCL_PEER_IDLE || p->state == PCCL_PEER_OVER)
        return NULL;
    PCCL_RULE(p->redial_us == 0 || p->deadline_us <= p->redial_us, "the master is dialed again");
    PCCL_RULE(p->lost_us == 0 || p->deadline_us <= p->lost_us + p->config.master_lost_ms * UINT64_C(1000),
              "a master that is lost is given up");
    PCCL_RULE(!p->up || p->deadline_us <= p->heard_us + p->silence_ms * UINT64_C(1000), "silence is noticed");
    for (uint32_t i = 0; i < p->link_count; i++) {
        const struct pccl_peer_link *link = &p->links[i];
        PCCL_RULE(link->retry_us == 0 || p->deadline_us <= link->retry_us, "a link is dialed again");
        PCCL_RULE(!link->warm || p->state != PCCL_PEER_MEMBER ||
                      p->deadline_us <= pccl_max_u64(p->now_us, link->tell_us),
                  "a newcomer that waits to be admitted is spoken of");
    }
    return check_deadlines_of_calls(p);
}

const char *pccl_peer_check(const struct pccl_peer *p)
{
    static const char *(*const checks[])(const struct pccl_peer *) = {check_master, check_members,  check_operations,
                                                                      check_uses,   check_limits,   check_calls,
                                                                      check_links,  check_deadlines};
    const char *broken = NULL;
    for (size_t i = 0; broken == NULL && i < PCCL_COUNT_OF(checks); i++)
        broken = checks[i](p);
    return broken;
}

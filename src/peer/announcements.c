/*
 * Table of the operations that other peers have launched and this peer has not. The parts of a bulk operation meet on
 * the data links, the parts of a tiny operation at the master. Without announcements, an instance that some peers
 * launched as bulk and others as tiny would therefore wait forever. A receive from any peer chooses among announced
 * bulk sends and the tiny sends that the master has offered.
 */
#include "peer/announcements.h"
#include "peer/members.h"
#include "peer/output.h"
#include "peer/pairs.h"
#include "peer/progress.h"
#include "peer/queries.h"
#include "peer/op_table.h"
#include "peer/subgroups.h"
#include "wire/describe.h"
#include "wire/subgroup.h"

static struct pccl_announcement *of_node(struct pccl_table_node *node)
{
    return PCCL_CONTAINER_OF(node, struct pccl_announcement, by_instance);
}

struct pccl_announcement *pccl_peer_announcement(const struct pccl_peer *p, const struct pccl_instance *instance)
{
    if (p->announcements.count == 0)
        return NULL; /* the usual case */
    struct pccl_table_node *node = pccl_table_find(&p->announcements, pccl_instance_hash(&p->hash, instance));
    for (; node != NULL; node = pccl_table_find_next(node))
        if (pccl_instance_equal(&of_node(node)->instance, instance))
            return of_node(node);
    return NULL;
}

void pccl_peer_each_announcement(const struct pccl_peer *peer,
                                 void (*each)(void *context, const struct pccl_id *from,
                                              const struct pccl_instance *instance,
                                              const struct pccl_descriptor *descriptor),
                                 void *context)
{
    for (struct pccl_table_node *node = pccl_table_first(&peer->announcements); node != NULL;
         node = pccl_table_after(&peer->announcements, node))
        if (!of_node(node)->offered)
            each(context, &of_node(node)->from, &of_node(node)->instance, &of_node(node)->descriptor);
}

void pccl_peer_drop_announcement(struct pccl_peer *p, struct pccl_announcement *announcement)
{
    pccl_table_remove(&p->announcements, &announcement->by_instance);
    pccl_release(&p->memory, announcement, sizeof *announcement);
}

/*
 * Returns true if the instance may still be launched here. The announcing peer may be at most one era ahead, because no
 * era ends without this peer's vote. A newcomer knows no era before its welcome, and members may learn of its admission
 * earlier.
 */
static bool is_of_interest(const struct pccl_peer *p, const struct pccl_instance *instance)
{
    uint64_t joint = pccl_peer_joint(p), sync = p->rounds[PCCL_ROUND_SYNC];
    bool joint_ended = instance->joint == joint + 1 && instance->sync == sync;
    bool sync_ended = instance->joint == joint && instance->sync == sync + 1;
    const struct pccl_peer_participants *all = pccl_peer_all_of(p, instance->subgroup);
    if (all != NULL && all->ended)
        return false;
    return p->state == PCCL_PEER_PENDING ||
           (p->state == PCCL_PEER_MEMBER && (pccl_peer_is_current(p, instance) || joint_ended || sync_ended));
}

void pccl_peer_drop_announcements(struct pccl_peer *p, bool all)
{
    for (struct pccl_table_node *node = pccl_table_first(&p->announcements), *next; node != NULL; node = next) {
        next = pccl_table_after(&p->announcements, node);
        if (all || !is_of_interest(p, &of_node(node)->instance))
            pccl_peer_drop_announcement(p, of_node(node));
    }
}

/* Returns true if the instance is a send from a member to this peer. */
static bool is_send_to_this(const struct pccl_peer *p, const struct pccl_instance *instance)
{
    return p->state == PCCL_PEER_MEMBER && pccl_peer_source_of(p, instance->pair) != NULL;
}

/*
 * Returns NULL if the table is full or memory runs out. Without an announcement, a mismatch between the callers is not
 * reported early, and the operation ends only at its deadline. A receive from any peer would miss a send, so the peer
 * gives up if memory for an announced send runs out.
 */
static struct pccl_announcement *add(struct pccl_peer *p, const struct pccl_instance *instance, bool member)
{
    bool send = is_send_to_this(p, instance);
    uint32_t most = member ? PCCL_OPS_PER_PEER_MAX : PCCL_OPS_PER_PEER_MAX / 2;
    if (p->announcements.count >= (send ? PCCL_ANNOUNCED_SENDS_MAX : most))
        return NULL;
    struct pccl_announcement *announcement = pccl_allocate(&p->memory, sizeof *announcement);
    if (announcement == NULL && send)
        pccl_peer_give_up(p, PCCL_MEMORY, "out of memory for announcements of receives");
    if (announcement == NULL)
        return NULL;
    announcement->instance = *instance;
    announcement->arrival = ++p->arrivals;
    pccl_table_insert(&p->announcements, &announcement->by_instance, pccl_instance_hash(&p->hash, instance));
    p->has_news = true;
    return announcement;
}

/*
 * Stores an announcement. Announcements from peers that are not members yet take at most half of the table, and never
 * replace an announcement from a member.
 */
static void keep(struct pccl_peer *p, const struct pccl_id *from, const struct pccl_msg_ready *ready)
{
    bool member = pccl_peer_is_in_group(p, from);
    struct pccl_announcement *announcement = pccl_peer_announcement(p, &ready->instance);
    if (announcement == NULL)
        announcement = add(p, &ready->instance, member);
    else if (!member || pccl_peer_is_in_group(p, &announcement->from))
        return;
    if (announcement == NULL)
        return;
    announcement->from = *from;
    announcement->descriptor = ready->descriptor;
}

void pccl_peer_keep_offer(struct pccl_peer *p, const struct pccl_instance *instance)
{
    if (!pccl_peer_is_current(p, instance) || !is_send_to_this(p, instance) || pccl_peer_has_launched(p, instance) ||
        pccl_peer_find_instance(p, instance) != NULL || pccl_peer_announcement(p, instance) != NULL)
        return; /* a receive has already chosen the send, or it has ended */
    struct pccl_announcement *announcement = add(p, instance, true);
    if (announcement == NULL)
        return;
    announcement->from = *pccl_peer_source_of(p, instance->pair);
    announcement->offered = true;
}

/* Describes the mismatch without the size of the send, which an offer does not contain. */
static void describe_offered(const struct pccl_peer *p, const struct pccl_instance *instance,
                             const struct pccl_announcement *announcement, struct pccl_text *reason)
{
    pccl_text_clear(reason);
    pccl_describe_call(reason, PCCL_CALL_OPERATION, PCCL_SEND, instance->tag);
    pccl_text_append(reason, ": peer %s sends at most %u bytes, but peer %s receives more",
                     pccl_id_str(&announcement->from), p->tiny_bytes_max, pccl_id_str(&p->config.id));
}

void pccl_peer_refuse_announced(struct pccl_peer *p, struct pccl_peer_op *op,
                                const struct pccl_announcement *announcement)
{
    struct pccl_text reason;
    if (announcement->offered == op->tiny || !pccl_peer_takes_part(p, &op->instance, &announcement->from))
        return;
    if (announcement->offered)
        describe_offered(p, &op->instance, announcement, &reason);
    else
        pccl_describe_difference(&reason,
                                 &(struct pccl_described){&announcement->from, &announcement->descriptor, false},
                                 &(struct pccl_described){&p->config.id, &op->descriptor, true});
    pccl_peer_op_abort(p, op, PCCL_CLASS_MISMATCH, &reason);
}

void pccl_peer_announced(struct pccl_peer *p, const struct pccl_id *from, const struct pccl_msg_ready *ready)
{
    if (!is_of_interest(p, &ready->instance))
        return;
    struct pccl_peer_op *op = pccl_peer_find_instance(p, &ready->instance);
    bool current = pccl_peer_is_current(p, &ready->instance);
    if (op != NULL) {
        const struct pccl_announcement announcement = {.from = *from, .descriptor = ready->descriptor};
        pccl_peer_refuse_announced(p, op, &announcement);
    } else if (!current || !pccl_peer_has_launched(p, &ready->instance)) {
        keep(p, from, ready);
    }
}

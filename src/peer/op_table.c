/*
 * Operations of a peer, by instance and by tag; outcomes in order of decision; and the number of launches of each tag.
 */
#include "peer/op_table.h"
#include "peer/choices.h"
#include "peer/member_list.h"
#include "peer/subgroups.h"

/* ---- the table ---- */

static struct pccl_peer_op *op_of_node(struct pccl_table_node *node)
{
    return PCCL_CONTAINER_OF(node, struct pccl_peer_op, by_instance);
}

struct pccl_peer_op *pccl_peer_find_instance(const struct pccl_peer *p, const struct pccl_instance *instance)
{
    struct pccl_table_node *node = pccl_table_find(&p->by_instance, pccl_instance_hash(&p->hash, instance));
    for (; node != NULL; node = pccl_table_find_next(node))
        if (pccl_instance_equal(&op_of_node(node)->instance, instance))
            return op_of_node(node);
    return NULL;
}

/* Returns the key of a tag, which the tables hash again. */
static uint64_t key_of(const struct pccl_instance *instance)
{
    return instance->subgroup + instance->pair + instance->tag;
}

void pccl_peer_hold_op(struct pccl_peer *p, struct pccl_peer_op *op, struct pccl_use *use)
{
    PCCL_ASSERT(!op->held);
    op->held = true;
    p->held_count++;
    op->use = use;
    use->held++;
}

void pccl_peer_release_op(struct pccl_peer *p, struct pccl_peer_op *op)
{
    PCCL_ASSERT(op->held && p->held_count > 0);
    PCCL_ASSERT(p->followed_count > 0 || !op->followed);
    op->held = false;
    op->use->held--;
    p->held_count--;
    p->followed_count -= op->followed;
}

bool pccl_peer_is_decided(const struct pccl_peer_op *op)
{
    return op->state == PCCL_OP_DECIDED || op->state == PCCL_OP_TOMBSTONE;
}

struct pccl_peer_op *pccl_peer_add_op(struct pccl_peer *p, const struct pccl_instance *instance, uint32_t room)
{
    struct pccl_peer_op *op = pccl_allocate(&p->memory, sizeof *op + room);
    if (op == NULL)
        return NULL;
    op->payload_capacity = room;
    op->instance = *instance;
    pccl_list_init(&op->in_open);
    pccl_list_init(&op->in_unstable);
    op->older = p->newest;
    *(p->newest != NULL ? &p->newest->newer : &p->oldest) = op;
    p->newest = op;
    pccl_table_insert(&p->by_instance, &op->by_instance, pccl_instance_hash(&p->hash, instance));
    p->op_count++;
    return op;
}

void pccl_peer_rename_op(struct pccl_peer *p, struct pccl_peer_op *op, const struct pccl_instance *instance)
{
    struct pccl_use *use = pccl_peer_find_use(p, instance);
    PCCL_ASSERT(op->held && use != NULL && pccl_peer_find_instance(p, instance) == NULL);
    pccl_table_remove(&p->by_instance, &op->by_instance);
    op->instance = *instance;
    pccl_table_insert(&p->by_instance, &op->by_instance, pccl_instance_hash(&p->hash, instance));
    op->use->held--;
    op->use = use;
    use->held++;
}

/* ---- outcomes that some members may not know, in order of decision ---- */

/* Returns the operation of this node, or NULL for the head of the list. */
static struct pccl_peer_op *unstable_at(struct pccl_peer *p, struct pccl_list_node *node)
{
    return PCCL_LIST_ITEM(&p->unstable, node, struct pccl_peer_op, in_unstable);
}

static void await_stability(struct pccl_peer *p, struct pccl_peer_op *op)
{
    PCCL_ASSERT(op->confirmed && pccl_list_is_empty(&op->in_unstable));
    struct pccl_list_node *after = &p->unstable;
    const struct pccl_peer_op *before; /* decisions arrive in order, except for a tombstone that is launched late */
    while ((before = unstable_at(p, after->previous)) != NULL && before->decision > op->decision)
        after = after->previous;
    pccl_list_append(after, &op->in_unstable);
}

void pccl_peer_confirm(struct pccl_peer *p, struct pccl_peer_op *op, uint64_t decision)
{
    pccl_list_remove(&op->in_unstable);
    op->decision = decision;
    op->confirmed = true;
    if (op->state != PCCL_OP_TOMBSTONE && decision > p->stable)
        await_stability(p, op);
}

/* Removes the operation from all tables and lists. */
static void remove_op(struct pccl_peer *p, struct pccl_peer_op *op)
{
    PCCL_ASSERT(p->op_count > 0 && (p->tombstone_count > 0 || op->state != PCCL_OP_TOMBSTONE));
    pccl_list_remove(&op->in_unstable);
    pccl_table_remove(&p->by_instance, &op->by_instance);
    if (op->held)
        pccl_peer_release_op(p, op);
    if (op->seats > 0)
        pccl_peer_count_seats(p, op->seats, false);
    *(op->older != NULL ? &op->older->newer : &p->oldest) = op->newer;
    *(op->newer != NULL ? &op->newer->older : &p->newest) = op->older;
    p->tombstone_count -= op->state == PCCL_OP_TOMBSTONE;
    pccl_peer_drop_member_list(p, op->member_list);
    op->member_list = NULL;
    p->op_count--;
}

void pccl_peer_op_free(const struct pccl_memory *memory, struct pccl_peer_op *op)
{
    pccl_release(memory, op, sizeof *op + op->payload_capacity);
}

static void free_op(struct pccl_peer *p, struct pccl_peer_op *op)
{
    remove_op(p, op);
    pccl_peer_op_free(&p->memory, op);
}

void pccl_peer_op_detach(struct pccl_peer *p, struct pccl_peer_op *op)
{
    PCCL_ASSERT(op->held && op->state == PCCL_OP_DECIDED);
    remove_op(p, op);
}

bool pccl_peer_is_current(const struct pccl_peer *p, const struct pccl_instance *instance)
{
    return instance->joint == pccl_peer_joint(p) && instance->sync == p->rounds[PCCL_ROUND_SYNC];
}

/*
 * Returns true if the operation may be freed. An outcome is kept until all members know it, a tombstone until its era
 * ends or its instance is launched.
 */
static bool may_forget(const struct pccl_peer *p, const struct pccl_peer_op *op)
{
    if (op->held || !pccl_peer_is_decided(op))
        return false;
    if (!pccl_peer_is_current(p, &op->instance) || p->state == PCCL_PEER_OVER)
        return true;
    if (op->orphaned && (op->state == PCCL_OP_TOMBSTONE || !op->confirmed))
        return true;
    return op->state == PCCL_OP_DECIDED && op->confirmed && op->decision <= p->stable;
}

void pccl_peer_forget_op(struct pccl_peer *p, struct pccl_peer_op *op)
{
    if (may_forget(p, op))
        free_op(p, op);
}

void pccl_peer_forget_stable(struct pccl_peer *p)
{
    for (struct pccl_peer_op *op = p->oldest, *next; op != NULL; op = next) {
        next = op->newer;
        pccl_peer_forget_op(p, op);
    }
}

/*
 * Records the outcomes that all members know. Ignored between `resume` and `recovered`, because a restarted master
 * numbers the outcomes again during that time.
 */
void pccl_peer_set_stable(struct pccl_peer *p, uint64_t stable)
{
    if (p->resuming || stable <= p->stable)
        return;
    p->stable = stable;
    struct pccl_peer_op *op;
    while ((op = unstable_at(p, p->unstable.next)) != NULL && op->decision <= stable) {
        pccl_list_remove(&op->in_unstable);
        pccl_peer_forget_op(p, op);
    }
}

/* ---- the counters of launches ---- */

struct pccl_use *pccl_peer_find_use(const struct pccl_peer *p, const struct pccl_instance *instance)
{
    struct pccl_table_node *node = pccl_table_find(&p->uses, key_of(instance));
    for (; node != NULL; node = pccl_table_find_next(node)) {
        struct pccl_use *use = PCCL_CONTAINER_OF(node, struct pccl_use, by_tag);
        if (use->tag == instance->tag && use->subgroup == instance->subgroup && use->pair == instance->pair)
            return use;
    }
    return NULL;
}

struct pccl_use *pccl_peer_need_use(struct pccl_peer *p, const struct pccl_instance *instance)
{
    struct pccl_use *use = pccl_peer_find_use(p, instance);
    if (use != NULL || p->uses.count >= PCCL_TAGS_PER_ERA_MAX)
        return use;
    use = pccl_allocate(&p->memory, sizeof *use);
    if (use == NULL)
        return NULL;
    use->subgroup = instance->subgroup;
    use->pair = instance->pair;
    use->tag = instance->tag;
    pccl_table_insert(&p->uses, &use->by_tag, key_of(instance));
    return use;
}

void pccl_peer_unlist(struct pccl_peer_op *op)
{
    pccl_list_remove(&op->in_open);
    if (op->ask != NULL)
        op->ask->open--;
    op->ask = NULL;
}

bool pccl_peer_has_launched(const struct pccl_peer *p, const struct pccl_instance *instance)
{
    const struct pccl_use *use = pccl_peer_find_use(p, instance);
    return use != NULL && instance->use < use->launches;
}

void pccl_peer_forget_uses(struct pccl_peer *p)
{
    PCCL_ASSERT(p->held_count == 0);
    for (struct pccl_table_node *node = pccl_table_first(&p->uses), *next; node != NULL; node = next) {
        next = pccl_table_after(&p->uses, node);
        pccl_table_remove(&p->uses, node);
        pccl_release(&p->memory, PCCL_CONTAINER_OF(node, struct pccl_use, by_tag), sizeof(struct pccl_use));
    }
}

void pccl_peer_free_ops(struct pccl_peer *p)
{
    while (p->oldest != NULL)
        free_op(p, p->oldest);
    pccl_peer_forget_uses(p);
    pccl_peer_free_choices(p);
}

/*
 * A model of the master: it decides outcomes by PROTOCOL 6 and sends them to all ranks of the view, each after a
 * separate delay.
 */
#include "rig.h"

void rig_post(struct rig_world *world, struct rig_mailbox *box, const struct rig_mail *mail)
{
    if (box->count == RIG_MAIL_MAX) {
        rig_violation(world, "a mailbox is full: somebody retries for ever");
        return;
    }
    box->mails[(box->first + box->count++) % RIG_MAIL_MAX] = *mail;
}

struct rig_mail rig_fetch(struct rig_mailbox *box)
{
    const struct rig_mail mail = box->mails[box->first];
    box->first = (box->first + 1) % RIG_MAIL_MAX;
    box->count--;
    return mail;
}

static void tell_all(struct rig_world *world, const struct rig_mail *mail)
{
    for (uint32_t i = 0; i < world->spec->ranks; i++)
        if ((world->view >> i & 1) != 0)
            rig_post(world, &world->ranks[i].from_master, mail);
}

static void decide(struct rig_world *world, uint32_t op, uint32_t use, bool committed, enum pccl_class class)
{
    struct rig_decision *decision = &world->decisions[op][use];
    decision->decided = true;
    decision->committed = committed;
    decision->view = world->view;
    rig_trace(world, "master: operation %u use %u: %s", op, use, committed ? "commit" : "abort");
    struct rig_mail mail = {.kind = RIG_MAIL_OUTCOME, .op = op, .use = use, .committed = committed, .class = class};
    if (!committed || !rig_plant(world, RIG_PLANT_split_outcome)) {
        tell_all(world, &mail);
        return;
    }
    for (uint32_t i = 0, odd = 1; i < world->spec->ranks; i++)
        if ((world->view >> i & 1) != 0) {
            mail.committed = odd == 0;
            odd = 0;
            rig_post(world, &world->ranks[i].from_master, &mail);
        }
}

/* Returns true if a member is dead and the view does not show it yet. */
static bool unburied(const struct rig_world *world)
{
    for (uint32_t i = 0; i < world->spec->ranks; i++)
        if ((world->view >> i & 1) != 0 && world->ranks[i].life != RIG_ALIVE)
            return true;
    return false;
}

static bool all_are_done(struct rig_world *world, const struct rig_decision *decision)
{
    const uint32_t missing = world->view & ~decision->done;
    if (missing == 0)
        return true;
    return decision->done != 0 && (missing & (missing - 1)) == 0 && rig_plant(world, RIG_PLANT_early_commit);
}

void rig_master_hears(struct rig_world *world, uint32_t rank)
{
    const struct rig_mail mail = rig_fetch(&world->ranks[rank].to_master);
    struct rig_decision *decision = &world->decisions[mail.op][mail.use];
    if ((world->view >> rank & 1) == 0 || decision->decided)
        return;
    switch (mail.kind) {
    case RIG_MAIL_DONE:
        if (mail.view_number != world->view_number)
            return;
        decision->done |= UINT32_C(1) << rank;
        if (all_are_done(world, decision))
            decide(world, mail.op, mail.use, true, PCCL_CLASS_NONE);
        return;
    case RIG_MAIL_FAILED:
        if (mail.class == PCCL_CLASS_PEER_LOST && mail.view_number == world->view_number && unburied(world)) {
            decision->held = true; /* the view that removes the cause precedes it: 6.3 */
            return;
        }
        decide(world, mail.op, mail.use, false, mail.class);
        return;
    case RIG_MAIL_KILLED: decide(world, mail.op, mail.use, false, PCCL_CLASS_PEER_LOST); return;
    case RIG_MAIL_OUTCOME:
    case RIG_MAIL_VIEW: break;
    }
    rig_violation(world, "a rank plays the master");
}

/*
 * Removes a dead rank. 6.2: first commits operations that all remaining ranks have finished; then the view follows, and
 * after it the failures that were held.
 */
void rig_master_buries(struct rig_world *world, uint32_t gone)
{
    world->view &= ~gone;
    for (uint32_t op = 0; op < world->spec->op_count; op++)
        for (uint32_t use = 0; use < RIG_USES_MAX; use++) {
            struct rig_decision *decision = &world->decisions[op][use];
            if (!decision->decided && decision->done != 0 && (world->view & ~decision->done) == 0)
                decide(world, op, use, true, PCCL_CLASS_NONE);
            decision->done = 0; /* counted in the old view */
        }
    world->view_number++;
    rig_trace(world, "master: view %u is %x", world->view_number, world->view);
    const struct rig_mail view = {.kind = RIG_MAIL_VIEW, .view_number = world->view_number, .view = world->view};
    tell_all(world, &view);
    for (uint32_t op = 0; op < world->spec->op_count; op++)
        for (uint32_t use = 0; use < RIG_USES_MAX; use++) {
            struct rig_decision *decision = &world->decisions[op][use];
            if (decision->held && !decision->decided)
                decide(world, op, use, false, PCCL_CLASS_PEER_LOST);
            decision->held = false;
        }
}

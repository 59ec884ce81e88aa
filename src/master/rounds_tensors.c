/*
 * Lists of tensors in the members' votes, stored once for each structure, so that the first tensor that differs can be
 * named.
 */
#include "kernels/reduce.h"
#include "master/rounds_internal.h"

#include <string.h>

/* Returns a part that has the list of tensors of this structure; NULL if none exists. */
static const struct pccl_sync_part *holder_of_shapes(const struct pccl_peer_group *group,
                                                     const struct pccl_digest *structure)
{
    for (uint32_t i = 0; i < group->ring_count; i++) {
        const struct pccl_sync_part *part = group->ring[i]->sync_part;
        if (part != NULL && part->shapes != NULL && pccl_digest_equal(&part->ballot.structure, structure))
            return part;
    }
    return NULL;
}

/* Stores names, types and lengths of the first tensors if there is enough memory. */
static void keep_lines(struct pccl_master *m, struct pccl_sync_part *part, const struct pccl_msg_sync_vote *vote)
{
    uint32_t count = vote->lines_count;
    part->line_count = count;
    if (count == 0)
        return;
    part->lines = pccl_allocate(&m->memory, count * sizeof *part->lines);
    part->line_names = pccl_allocate(&m->memory, count * sizeof *part->line_names);
    for (uint32_t i = 0; part->lines != NULL && part->line_names != NULL && i < count; i++) {
        struct pccl_tensor_line *line = &part->lines[i];
        *line = vote->lines[i];
        memcpy(part->line_names[i], line->name.data, line->name.length);
        line->name.data = (const uint8_t *)part->line_names[i];
    }
}

bool pccl_master_keep_shapes(struct pccl_master *m, const struct pccl_peer_group *group, struct pccl_sync_part *part,
                             const struct pccl_msg_sync_vote *vote)
{
    part->shape_count = vote->shapes_count;
    if (vote->shapes_count == 0 || holder_of_shapes(group, &vote->structure) != NULL)
        return true;
    part->shapes = pccl_allocate(&m->memory, vote->shapes_count * sizeof *part->shapes);
    if (part->shapes == NULL)
        return false;
    memcpy(part->shapes, vote->shapes, vote->shapes_count * sizeof *part->shapes);
    keep_lines(m, part, vote);
    return true;
}

static void describe_tensor(const struct pccl_sync_part *part, uint32_t at, struct pccl_text *reason)
{
    if (at >= part->shape_count) {
        pccl_text_append(reason, "nothing");
        return;
    }
    const struct pccl_tensor_line *line = &part->lines[at];
    struct pccl_text name;
    pccl_text_clear(&name);
    pccl_text_add_bytes(&name, (const char *)line->name.data, line->name.length);
    pccl_text_append(reason, "'%s', %s of %" PRIu64 "%s", name.bytes,
                     pccl_datatype_name((enum pccl_datatype)line->datatype), line->count,
                     line->unequal != 0 ? ", allowed to differ" : "");
}

/* Returns true if the tensor with this number is known, or known not to exist. */
static bool has_line(const struct pccl_sync_part *part, uint32_t at)
{
    bool kept = part->lines != NULL && part->line_names != NULL;
    return at >= part->shape_count || (kept && at < part->line_count);
}

void pccl_master_name_difference(const struct pccl_peer_group *group, const struct pccl_sync_part *odd,
                                 const struct pccl_sync_part *elected, struct pccl_text *reason)
{
    const struct pccl_sync_part *its = holder_of_shapes(group, &odd->ballot.structure);
    const struct pccl_sync_part *theirs = holder_of_shapes(group, &elected->ballot.structure);
    uint32_t at = 0; /* limited by both lists, because a liar may send a shorter list with the same structure */
    while (its != NULL && theirs != NULL && at < its->shape_count && at < theirs->shape_count &&
           its->shapes[at].hash == theirs->shapes[at].hash)
        at++;
    pccl_text_append(reason, ": it has %u tensors, the others have %u", odd->shape_count, elected->shape_count);
    if (its == NULL || theirs == NULL)
        return;
    pccl_text_append(reason, "; number %u (counted from 0) is the first that differs in name, type, length or flag",
                     at);
    if (!has_line(its, at) || !has_line(theirs, at))
        return;
    pccl_text_append(reason, ": it has ");
    describe_tensor(its, at, reason);
    pccl_text_append(reason, " where others have ");
    describe_tensor(theirs, at, reason);
}

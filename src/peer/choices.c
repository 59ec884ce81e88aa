#include "peer/choices.h"

#include "peer/output.h"
#include "peer/queries.h"
#include "peer/subgroups.h"
#include "wire/choice.h"
#include "wire/packing.h"

enum {
    /*
     * a tag's choice is dropped after this many eras without a use; a caller may begin several eras per step, by
     * updates and synchronizations
     */
    ERAS_KEPT = 64,
    LOG_AGAIN_US = 1000000, /* minimum time between two log lines about changed choices */
};

struct pccl_tag_choice {
    struct pccl_table_node by_tag;
    uint64_t subgroup, tag;
    struct pccl_choice choice; /* CHOICE_NONE before the first committed use */
    uint64_t era;              /* era of the last committed use */
    uint64_t outcome_us;       /* time of the outcome of that use; 0 after the next launch */
};

static uint64_t key_of(uint64_t subgroup, uint64_t tag) { return subgroup + tag; }

static uint64_t era_of(const struct pccl_peer *p) { return pccl_peer_joint(p) + p->rounds[PCCL_ROUND_SYNC]; }

static struct pccl_tag_choice *find(const struct pccl_peer *p, uint64_t subgroup, uint64_t tag)
{
    struct pccl_table_node *node = pccl_table_find(&p->choices, key_of(subgroup, tag));
    for (; node != NULL; node = pccl_table_find_next(node)) {
        struct pccl_tag_choice *kept = PCCL_CONTAINER_OF(node, struct pccl_tag_choice, by_tag);
        if (kept->tag == tag && kept->subgroup == subgroup)
            return kept;
    }
    return NULL;
}

enum pccl_status pccl_peer_need_choice(struct pccl_peer *p, uint64_t subgroup, uint64_t tag)
{
    if (find(p, subgroup, tag) != NULL)
        return PCCL_OK;
    if (p->choices.count >= PCCL_CHOICES_MAX)
        return PCCL_LIMIT;
    struct pccl_tag_choice *made = pccl_allocate(&p->memory, sizeof *made);
    if (made == NULL)
        return PCCL_MEMORY;
    made->subgroup = subgroup;
    made->tag = tag;
    pccl_table_insert(&p->choices, &made->by_tag, key_of(subgroup, tag));
    return PCCL_OK;
}

uint32_t pccl_peer_take_gap(struct pccl_peer *p, uint64_t subgroup, uint64_t tag)
{
    struct pccl_tag_choice *kept = find(p, subgroup, tag);
    if (kept == NULL || kept->outcome_us == 0)
        return 0;
    PCCL_ASSERT(p->now_us >= kept->outcome_us);
    const uint64_t gap_us = pccl_max_u64(p->now_us - kept->outcome_us, 1);
    kept->outcome_us = 0;
    return (uint32_t)pccl_min_u64(gap_us, UINT32_MAX);
}

struct pccl_choice pccl_peer_choose(const struct pccl_peer *p, uint64_t subgroup, uint64_t tag,
                                    struct pccl_descriptor *descriptor)
{
    const struct pccl_peer_participants *all = pccl_peer_all_of(p, subgroup);
    const struct pccl_tag_choice *kept = find(p, subgroup, tag);
    struct pccl_choice choice = kept != NULL ? kept->choice : (struct pccl_choice){0};
    if (choice.why == PCCL_CHOICE_NONE)
        choice = pccl_choice_first(descriptor, all->count, &all->cost);
    choice.rtt_us = all->cost.rtt_us;
    pccl_choice_apply((enum pccl_level)choice.level, descriptor, descriptor);
    return choice;
}

static void log_choice(struct pccl_peer *p, const struct pccl_peer_op *op, const struct pccl_choice *next)
{
    struct pccl_descriptor descriptor = op->descriptor;
    struct pccl_text words;
    enum pccl_log_level level = PCCL_LOG_DEBUG;
    if (p->choices_logged_us == 0 || p->now_us >= p->choices_logged_us + LOG_AGAIN_US) {
        level = PCCL_LOG_INFO;
        p->choices_logged_us = p->now_us;
    }
    pccl_text_clear(&words);
    pccl_choice_apply((enum pccl_level)next->level, &descriptor, &descriptor);
    pccl_text_add(&words, pccl_packing_kind_name(descriptor.codec));
    pccl_text_add(&words, " from now on: ");
    pccl_choice_describe(&words, &descriptor, next);
    pccl_peer_log(p, level, "tag %" PRIu64 ": quantization %s", op->instance.tag, words.bytes);
}

void pccl_peer_keep_choice(struct pccl_peer *p, struct pccl_peer_op *op, const struct pccl_choice *next)
{
    struct pccl_tag_choice *kept = find(p, op->instance.subgroup, op->instance.tag);
    if (op->choice.why == PCCL_CHOICE_NONE || kept == NULL)
        return;
    op->next_choice = *next;
    kept->choice = *next;
    kept->era = era_of(p);
    kept->outcome_us = p->now_us;
    if (next->level != op->choice.level)
        log_choice(p, op, next);
}

/* ---- forgetting ---- */

static void forget(struct pccl_peer *p, bool (*is_over)(const struct pccl_tag_choice *kept, uint64_t value),
                   uint64_t value)
{
    for (struct pccl_table_node *node = pccl_table_first(&p->choices), *next; node != NULL; node = next) {
        struct pccl_tag_choice *kept = PCCL_CONTAINER_OF(node, struct pccl_tag_choice, by_tag);
        next = pccl_table_after(&p->choices, node);
        if (!is_over(kept, value))
            continue;
        pccl_table_remove(&p->choices, node);
        pccl_release(&p->memory, kept, sizeof *kept);
    }
}

static bool is_of(const struct pccl_tag_choice *kept, uint64_t subgroup) { return kept->subgroup == subgroup; }

static bool is_old(const struct pccl_tag_choice *kept, uint64_t era)
{
    return kept->choice.why == PCCL_CHOICE_NONE || era - kept->era > ERAS_KEPT;
}

static bool is_any(const struct pccl_tag_choice *kept, uint64_t any)
{
    (void)kept;
    return any != 0;
}

void pccl_peer_forget_choices_of(struct pccl_peer *p, uint64_t subgroup) { forget(p, is_of, subgroup); }
void pccl_peer_forget_old_choices(struct pccl_peer *p) { forget(p, is_old, era_of(p)); }
void pccl_peer_free_choices(struct pccl_peer *p) { forget(p, is_any, true); }

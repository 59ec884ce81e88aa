#include "peer/receives.h"

#include "peer/announcements.h"
#include "peer/links.h"
#include "peer/operations.h"
#include "peer/output.h"
#include "peer/pairs.h"
#include "peer/progress.h"
#include "peer/op_table.h"
#include "peer/member_list.h"
#include "peer/subgroups.h"
#include "wire/subgroup.h"

static struct pccl_peer_op *of_node(struct pccl_list_node *node)
{
    return PCCL_CONTAINER_OF(node, struct pccl_peer_op, in_open);
}

/* ---- requests to the master ---- */

static struct pccl_ask *ask_of(struct pccl_table_node *node)
{
    return PCCL_CONTAINER_OF(node, struct pccl_ask, by_tag);
}

static struct pccl_ask *find_ask(const struct pccl_peer *p, const struct pccl_instance *instance)
{
    struct pccl_table_node *node = pccl_table_find(&p->asks, instance->subgroup + instance->tag);
    while (node != NULL && (ask_of(node)->tag != instance->tag || ask_of(node)->subgroup != instance->subgroup))
        node = pccl_table_find_next(node);
    return node != NULL ? ask_of(node) : NULL;
}

static void ask(struct pccl_peer *p, const struct pccl_ask *asked, uint32_t count)
{
    pccl_peer_send(p,
                   &(struct pccl_msg){.type = PCCL_MSG_listen,
                                      .as.listen = {.subgroup = asked->subgroup, .tag = asked->tag, .count = count}});
}

static void forget(struct pccl_peer *p, struct pccl_ask *asked)
{
    pccl_list_remove(&asked->in_due);
    pccl_table_remove(&p->asks, &asked->by_tag);
    pccl_release(&p->memory, asked, sizeof *asked);
}

/* Withdraws the requests for tags for which no receive is waiting. */
static void take_back(struct pccl_peer *p)
{
    for (struct pccl_table_node *node = pccl_table_first(&p->asks), *next; node != NULL; node = next) {
        next = pccl_table_after(&p->asks, node);
        if (ask_of(node)->open > 0)
            continue;
        ask(p, ask_of(node), 0);
        forget(p, ask_of(node));
    }
}

/*
 * Returns the request for the tag of this instance, created if necessary. If out of memory, gives up and returns NULL.
 */
static struct pccl_ask *need_ask(struct pccl_peer *p, const struct pccl_instance *instance)
{
    struct pccl_ask *asked = find_ask(p, instance);
    if (asked != NULL)
        return asked;
    if (p->asks.count == PCCL_LISTENED_MAX)
        take_back(p);
    asked = pccl_allocate(&p->memory, sizeof *asked);
    if (asked == NULL) {
        pccl_peer_give_up(p, PCCL_MEMORY, "out of memory");
        return NULL;
    }
    pccl_list_init(&asked->in_due);
    asked->subgroup = instance->subgroup;
    asked->tag = instance->tag;
    pccl_table_insert(&p->asks, &asked->by_tag, instance->subgroup + instance->tag);
    return asked;
}

static void note_due(struct pccl_peer *p, struct pccl_ask *asked)
{
    pccl_list_remove(&asked->in_due);
    pccl_list_append(&p->asks_due, &asked->in_due);
}

/*
 * Returns the first receive that no request includes; such receives are at the end of this list. Returns the list
 * itself if none exists.
 */
static struct pccl_list_node *first_new(struct pccl_list_node *list)
{
    struct pccl_list_node *node = list;
    while (node->previous != list && of_node(node->previous)->ask == NULL)
        node = node->previous;
    return node;
}

/* Adds the new receives of this list to the requests. Returns false if the peer gave up. */
static bool count_new(struct pccl_peer *p, struct pccl_list_node *list)
{
    for (struct pccl_list_node *node = first_new(list); node != list; node = node->next) {
        struct pccl_ask *asked = need_ask(p, &of_node(node)->instance);
        if (asked == NULL)
            return false;
        of_node(node)->ask = asked;
        asked->open++;
        note_due(p, asked);
    }
    return true;
}

/*
 * Requests offers from the master for all open receives and for a few more, so that sends are already known here when
 * the next receive is launched. `count` is a lower bound of the number of offers that the master may still make.
 */
static void ask_for_offers(struct pccl_peer *p)
{
    if (!count_new(p, &p->open) || !count_new(p, &p->unlinked))
        return;
    while (!pccl_list_is_empty(&p->asks_due)) {
        struct pccl_ask *asked = PCCL_CONTAINER_OF(p->asks_due.next, struct pccl_ask, in_due);
        pccl_list_remove(&asked->in_due);
        if (asked->count >= asked->open)
            continue;
        asked->count = asked->open + PCCL_EARLY_OFFERS;
        ask(p, asked, asked->count);
    }
}

void pccl_peer_offered(struct pccl_peer *p, const struct pccl_msg_offer *offer)
{
    struct pccl_ask *asked = find_ask(p, &offer->instance);
    struct pccl_peer_op *op = pccl_peer_find_instance(p, &offer->instance);
    if (asked != NULL && asked->count > 0) {
        asked->count--;
        note_due(p, asked);
    }
    p->has_news = true;
    if (op != NULL && op->started)
        pccl_peer_refuse_announced(p, op, &(struct pccl_announcement){.from = op->descriptor.root, .offered = true});
    else
        pccl_peer_keep_offer(p, &offer->instance);
}

void pccl_peer_link_from_changed(struct pccl_peer *p, const struct pccl_id *source)
{
    const bool is_up = pccl_peer_has_link_from(p, source);
    struct pccl_list_node *from = is_up ? &p->unlinked : &p->linked, *to = is_up ? &p->linked : &p->unlinked;
    for (struct pccl_list_node *node = from->next, *next; node != from; node = next) {
        struct pccl_peer_op *op = of_node(node);
        next = node->next;
        if (op->state != PCCL_OP_RUNNING || !pccl_id_equal(&op->descriptor.root, source))
            continue;
        pccl_peer_unlist(op);
        pccl_list_append(to, &op->in_open);
        p->has_news = true;
    }
}

void pccl_peer_forget_requests(struct pccl_peer *p)
{
    struct pccl_list_node *const lists[] = {&p->open, &p->unlinked}, *node;
    for (uint32_t i = 0; i < PCCL_COUNT_OF(lists); i++)
        for (node = lists[i]->next; node != lists[i]; node = node->next)
            of_node(node)->ask = NULL;
    for (struct pccl_table_node *first; (first = pccl_table_first(&p->asks)) != NULL;)
        forget(p, ask_of(first));
}

/* ---- choosing a sender ---- */

/* A send to this peer that a receive could choose. */
struct candidate {
    struct pccl_instance instance;
    const struct pccl_id *source;
    uint64_t since; /* value of p->arrivals since which it has been a candidate */
};

static bool has_room(const struct pccl_peer *p)
{
    return p->op_count - p->tombstone_count + p->followed_count < PCCL_OPS_PER_PEER_MAX;
}

/*
 * Finds the next send of the pair, skipping sends that the source gave up before this peer received them. Returns false
 * if the next send is unknown.
 */
static bool find_next(struct pccl_peer *p, uint64_t pair, struct candidate *candidate)
{
    struct pccl_instance *instance = &candidate->instance;
    instance->pair = pair;
    struct pccl_use *use = pccl_peer_find_use(p, instance);
    instance->use = use != NULL ? use->launches : 0;
    struct pccl_peer_op *tombstone;
    while ((tombstone = pccl_peer_find_instance(p, instance)) != NULL && has_room(p)) {
        use = pccl_peer_need_use(p, instance);
        if (use == NULL)
            return false;
        instance->use = ++use->launches;
        pccl_peer_pass_over(p, tombstone);
    }
    const struct pccl_announcement *announcement = pccl_peer_announcement(p, instance);
    if (tombstone != NULL || announcement == NULL || !pccl_id_equal(&announcement->from, candidate->source))
        return false;
    candidate->since = pccl_max_u64(announcement->arrival, use != NULL ? use->served : 0);
    return true;
}

/*
 * Finds the send to choose. Sources take turns: the source that has waited longest, since its send arrived or since it
 * was last chosen, is next.
 */
static bool find_candidate(struct pccl_peer *p, const struct pccl_peer_op *op, struct candidate *found)
{
    const struct pccl_peer_participants *within = pccl_peer_all_of(p, op->instance.subgroup);
    uint64_t mine = pccl_peer_number_of(p, &p->config.id);
    found->since = UINT64_MAX;
    for (uint32_t i = 0; mine != 0 && mine <= PCCL_PAIR_NUMBER_MAX && i < p->view_member_list->count; i++) {
        const struct pccl_member *member = &p->view_member_list->members[i];
        uint64_t pair = pccl_pair_name(member->admitted & PCCL_PAIR_NUMBER_MAX, mine);
        const struct pccl_id *source = pccl_peer_source_of(p, pair);
        struct candidate candidate = {.instance = op->instance, .source = &member->peer};
        if (source == NULL || !pccl_id_equal(source, &member->peer) || !pccl_peer_has_member(p, within, source))
            continue;
        if (find_next(p, pair, &candidate) && candidate.since < found->since)
            *found = candidate;
    }
    return found->since != UINT64_MAX;
}

static void choose(struct pccl_peer *p, struct pccl_peer_op *op, const struct candidate *candidate)
{
    struct pccl_text reason;
    struct pccl_use *use = pccl_peer_need_use(p, &candidate->instance);
    if (use == NULL) {
        pccl_text_format(&reason, "too many tags, or out of memory for another one");
        pccl_peer_end_open(p, op, PCCL_CLASS_INTERNAL, &reason);
        return;
    }
    use->launches++;
    use->served = ++p->arrivals;
    pccl_peer_op_choose(p, op, &candidate->instance, candidate->source);
}

/* Returns true if a receive may find a sender. If no new sender is available, only new receives need a check. */
static bool may_choose(struct pccl_peer *p)
{
    bool may = p->has_news;
    struct candidate candidate;
    for (struct pccl_list_node *node = first_new(&p->open); node != &p->open && !may; node = node->next)
        may = find_candidate(p, of_node(node), &candidate);
    return may;
}

static void choose_all(struct pccl_peer *p)
{
    /* last receive for which no sender was found; others with the same tag and subgroup find none either */
    const struct pccl_peer_op *without_sender = NULL;
    for (struct pccl_list_node *node = p->open.next, *next; node != &p->open && p->state == PCCL_PEER_MEMBER;
         node = next) {
        struct pccl_peer_op *op = of_node(node);
        struct candidate candidate;
        next = node->next;
        if ((without_sender != NULL && without_sender->instance.tag == op->instance.tag &&
             without_sender->instance.subgroup == op->instance.subgroup) ||
            p->now_us >= op->deadline_us)
            continue;
        if (find_candidate(p, op, &candidate))
            choose(p, op, &candidate);
        else
            without_sender = op;
    }
}

void pccl_peer_choose_senders(struct pccl_peer *p)
{
    if (p->state == PCCL_PEER_MEMBER && may_choose(p))
        choose_all(p);
    if (p->state == PCCL_PEER_MEMBER && !p->resuming)
        ask_for_offers(p);
    p->has_news = p->has_receive = false;
}

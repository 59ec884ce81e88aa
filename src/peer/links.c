/*
 * Links of this peer: to its successor in the ring; in a small group to all members, in a larger one to and from hubs;
 * to peers that the master names (newcomers warm up before they are admitted); and to members to which it sends. A
 * broken link is reported to the master as evidence, and dialed again.
 */
#include "peer/links.h"
#include "peer/members.h"
#include "peer/output.h"
#include "peer/queries.h"
#include "wire/cost.h"

#include <string.h>

enum {
    BRIEF_US = 1000000,           /* minimum time for which a link for sends must be up to count as opened */
    REPORT_AGAIN_US = 2000000,    /* interval at which a lasting failure is reported again */
    FIGURES_AGAIN_US = 120000000, /* interval at which unchanged figures are reported again */
    NEWCOMER_PAUSE_MS = 500,      /* pause between attempts to dial a newcomer; it doubles up to the next value */
    NEWCOMER_PAUSE_MAX_MS = 8000,
    APART_PAUSE_MAX_MS = 64000,  /* longest pause before a link is dialed again that probably cannot be made */
    SHORTAGE_AGAIN_US = 1000000, /* interval at which a lasting shortage is reported again */
    SHORTAGE_LOG_US = 60000000,  /* interval at which a lasting shortage is logged again */
    /* time after an invalid message during which link_up does not shorten the pause; also the interval of log lines */
    REJECTED_US = 10000000,
};

static struct pccl_peer_link *find_link(const struct pccl_peer *p, const struct pccl_id *id)
{
    for (uint32_t i = 0; i < p->link_count; i++)
        if (pccl_id_equal(&p->links[i].id, id))
            return &p->links[i];
    return NULL;
}

bool pccl_peer_has_link_from(const struct pccl_peer *p, const struct pccl_id *id)
{
    const struct pccl_peer_link *link = find_link(p, id);
    return link != NULL && link->in_up;
}

/* Returns the link to this peer, created if necessary. Returns NULL if out of memory. */
static struct pccl_peer_link *make_link(struct pccl_peer *p, const struct pccl_id *id)
{
    struct pccl_peer_link *link = find_link(p, id);
    if (link != NULL)
        return link;
    struct pccl_peer_link *links = p->link_count < PCCL_PEERS_MAX ? pccl_grow(&p->memory, p->links, &p->link_capacity,
                                                                              p->link_count + 1, sizeof *links)
                                                                  : NULL;
    if (links == NULL)
        return NULL;
    p->links = links;
    links[p->link_count] = (struct pccl_peer_link){.id = *id, .pause_ms = p->config.dial_ms};
    return &links[p->link_count++];
}

/* Returns the link to this peer, created if necessary. If out of memory, gives up and returns NULL. */
static struct pccl_peer_link *need_link(struct pccl_peer *p, const struct pccl_id *id)
{
    struct pccl_peer_link *link = make_link(p, id);
    if (link == NULL)
        pccl_peer_give_up(p, PCCL_MEMORY, "out of memory");
    return link;
}

static void drop_link(struct pccl_peer *p, struct pccl_peer_link *link)
{
    PCCL_ASSERT(p->link_count > 0);
    if (link->out != PCCL_DIAL_DOWN)
        p->effects.close_link(p->effects.context, &link->id, false);
    if (link->in_up)
        p->effects.close_link(p->effects.context, &link->id, true);
    *link = p->links[--p->link_count];
}

void pccl_peer_close_links(struct pccl_peer *p)
{
    while (p->link_count > 0)
        drop_link(p, &p->links[p->link_count - 1]);
}

/*
 * Returns true for a peer that is not a member. Its addresses are unverified, and longer pauses prevent it from making
 * members dial a third party repeatedly. A newcomer that answers the first attempt loses no time.
 */
static bool is_newcomer(const struct pccl_peer *p, const struct pccl_peer_link *link)
{
    return p->state == PCCL_PEER_MEMBER && !pccl_peer_knows_member(p, &link->id);
}

/* Returns the longest pause before this link is dialed again. */
static uint32_t longest_pause_ms(const struct pccl_peer *p, const struct pccl_peer_link *link)
{
    if (is_newcomer(p, link))
        return NEWCOMER_PAUSE_MAX_MS;
    return link->apart && !link->ring && link->subgroups == 0 ? APART_PAUSE_MAX_MS : p->config.dial_max_ms;
}

static void forgive(const struct pccl_peer *p, struct pccl_peer_link *link)
{
    bool rejected = link->rejected_us != 0 && p->now_us < link->rejected_us + REJECTED_US;
    if (!is_newcomer(p, link) && !rejected)
        link->pause_ms = p->config.dial_ms;
}

static void dial(struct pccl_peer *p, struct pccl_peer_link *link)
{
    PCCL_ASSERT(link->out == PCCL_DIAL_DOWN);
    link->out = PCCL_DIAL_DIALING;
    link->retry_us = 0;
    link->reversed = link->other_dials;
    p->effects.dial_link(p->effects.context, &link->id, &link->ticket, link->candidates, link->candidate_count,
                         link->reversed);
}

static void close_outgoing(struct pccl_peer *p, struct pccl_peer_link *link)
{
    p->effects.close_link(p->effects.context, &link->id, false);
    link->out = PCCL_DIAL_DOWN;
}

static bool is_wanted(const struct pccl_peer_link *link)
{
    return link->ring || link->mesh || link->warm || link->subgroups > 0 || link->sends > 0 || link->idle_us != 0;
}

/* Returns true if only sends need the link, or needed it recently. */
static bool is_for_sends(const struct pccl_peer_link *link)
{
    return is_wanted(link) && !link->ring && !link->mesh && !link->warm && link->subgroups == 0;
}

static void report_up(struct pccl_peer *p, const struct pccl_peer_link *link)
{
    struct pccl_msg msg = {.type = PCCL_MSG_link_up,
                           .as.link_up = {.peer = link->id,
                                          .reversed = link->reversed,
                                          .rtt_us = link->rtt_us,
                                          .rate = link->rate,
                                          .shared = link->shared}};
    pccl_peer_send(p, &msg);
}

static void report_lost(struct pccl_peer *p, const struct pccl_id *id, bool incoming, bool reversed,
                        enum pccl_link_end how)
{
    struct pccl_msg msg = {
        .type = PCCL_MSG_link_lost,
        .as.link_lost = {.peer = *id, .incoming = incoming, .reversed = reversed, .how = (uint8_t)how}};
    pccl_peer_send(p, &msg);
}

/*
 * Sends the master the reason why links to and from this peer fail. The message requests nothing, so it is not sent
 * while the connection to the master is down.
 */
void pccl_peer_report_shortage(struct pccl_peer *p, const struct pccl_text *reason)
{
    p->shortage = *reason;
    p->shortage_us = p->now_us;
    if (p->resuming || !p->up || !p->greeted ||
        (p->shortage_sent_us != 0 && p->now_us < p->shortage_sent_us + SHORTAGE_AGAIN_US))
        return;
    p->shortage_sent_us = p->now_us;
    if (p->shortage_logged_us == 0 || p->now_us >= p->shortage_logged_us + SHORTAGE_LOG_US) {
        p->shortage_logged_us = p->now_us;
        pccl_peer_log(p, PCCL_LOG_WARN, "this peer cannot open or accept links: %s", reason->bytes);
    }
    struct pccl_msg msg = {.type = PCCL_MSG_shortage, .as.shortage = {.reason = pccl_bytes_of_text(reason)}};
    pccl_peer_send(p, &msg);
}

/* ---- requests of the master ---- */

/* Handles the answer to `want_link`: returns false if the link is no longer needed. */
static bool is_still_needed(const struct pccl_peer *p, struct pccl_peer_link *link)
{
    if (link == NULL)
        return false;
    link->asked = false;
    link->able_us = p->now_us;
    link->how = 0;
    return is_wanted(link);
}

void pccl_peer_warm_up(struct pccl_peer *p, const struct pccl_msg_warm_up *warm_up)
{
    if (p->state == PCCL_PEER_PENDING)
        p->lineage = warm_up->lineage;
    struct pccl_peer_link *link = warm_up->answers ? find_link(p, &warm_up->peer) : need_link(p, &warm_up->peer);
    if (warm_up->answers ? !is_still_needed(p, link) : link == NULL)
        return;
    if (pccl_peer_knows_member(p, &warm_up->peer))
        link->log_us = UINT64_MAX; /* the other peer is a member, so there is no admission to wait for */
    else if (!link->warm)
        link->log_us = p->now_us + p->config.where_ms * UINT64_C(1000);
    link->warm = link->warm || !warm_up->answers;
    pccl_peer_arm(p, link->log_us);
    link->ticket = warm_up->ticket;
    link->candidate_count = warm_up->candidates_count;
    for (uint32_t i = 0; i < warm_up->candidates_count; i++)
        link->candidates[i] = warm_up->candidates[i];
    link->other_dials = warm_up->reversed != 0;
    link->apart = warm_up->apart != 0;
    if (link->out == PCCL_DIAL_DIALING && link->reversed != link->other_dials)
        close_outgoing(p, link);
    if (link->out == PCCL_DIAL_UP)
        report_up(p, link);
    else if (link->out == PCCL_DIAL_DOWN)
        dial(p, link);
}

void pccl_peer_forget(struct pccl_peer *p, const struct pccl_id *id)
{
    struct pccl_peer_link *link = find_link(p, id);
    if (link == NULL)
        return;
    link->warm = false;
    if (!is_wanted(link))
        drop_link(p, link);
}

/*
 * Closes a link that this peer no longer wants, and drops it if the other side has no link either. Closes only the link
 * that this peer dialed, because the other peer may be a newcomer that warms up. Returns true if the link was dropped.
 */
static bool tidy_link(struct pccl_peer *p, struct pccl_peer_link *link)
{
    if (is_wanted(link))
        return false;
    if (link->out != PCCL_DIAL_DOWN)
        close_outgoing(p, link);
    if (!link->in_up) {
        drop_link(p, link);
        return true;
    }
    link->failed = false; /* a restarted master would consider it evidence, and the address may change */
    link->how = 0;
    link->candidate_count = 0;
    link->retry_us = 0; /* if the link is wanted again, there is no address yet */
    return false;
}

bool pccl_peer_want_link(struct pccl_peer *p, const struct pccl_id *id)
{
    struct pccl_peer_link *link = need_link(p, id);
    if (link == NULL)
        return false;
    link->subgroups++;
    if (link->apart && link->retry_us != 0)
        dial(p, link); /* now, and not after the long pause of a link that is not needed */
    return true;
}

void pccl_peer_unwant_link(struct pccl_peer *p, const struct pccl_id *id)
{
    struct pccl_peer_link *link = find_link(p, id);
    if (link == NULL)
        return; /* all links have been closed */
    PCCL_ASSERT(link->subgroups > 0);
    link->subgroups--;
    (void)tidy_link(p, link);
}

/* ---- links for sends ---- */

static void want_to_send(struct pccl_peer *p, struct pccl_peer_link *link)
{
    struct pccl_msg msg = {.type = PCCL_MSG_want_link, .as.want_link = {.peer = link->id}};
    if (link->candidate_count > 0 && link->out == PCCL_DIAL_DOWN && link->retry_us == 0)
        dial(p, link);
    if (link->candidate_count > 0 || link->asked || p->resuming)
        return;
    link->asked = true;
    pccl_peer_send(p, &msg);
}

bool pccl_peer_can_send_to(struct pccl_peer *p, const struct pccl_id *id)
{
    const struct pccl_peer_link *wanted = find_link(p, id);
    struct pccl_peer_link *longest_idle = NULL;
    uint32_t count = 0;
    if (wanted != NULL && is_wanted(wanted))
        return true;
    for (uint32_t i = 0; i < p->link_count; i++) {
        struct pccl_peer_link *link = &p->links[i];
        if (!is_for_sends(link))
            continue;
        count++;
        if (link->sends == 0 && (longest_idle == NULL || link->idle_us < longest_idle->idle_us))
            longest_idle = link;
    }
    if (count >= p->config.send_links_max && longest_idle != NULL) {
        longest_idle->idle_us = 0;
        (void)tidy_link(p, longest_idle);
        count--;
    }
    return count < p->config.send_links_max;
}

bool pccl_peer_send_begins(struct pccl_peer *p, const struct pccl_id *id)
{
    struct pccl_peer_link *link = need_link(p, id);
    if (link == NULL)
        return false;
    link->sends++;
    link->idle_us = 0;
    want_to_send(p, link);
    return true;
}

void pccl_peer_send_ended(struct pccl_peer *p, const struct pccl_id *id)
{
    struct pccl_peer_link *link = find_link(p, id);
    if (link == NULL)
        return; /* all links have been closed */
    PCCL_ASSERT(link->sends > 0);
    link->sends--;
    if (link->sends == 0 && link->out == PCCL_DIAL_UP && pccl_peer_is_in_group(p, id)) {
        link->idle_us = p->now_us;
        pccl_peer_arm(p, link->idle_us + p->config.send_idle_ms * UINT64_C(1000));
    }
    (void)tidy_link(p, link);
}

uint64_t pccl_peer_unreached_since(const struct pccl_peer *p, const struct pccl_id *id, enum pccl_link_end *how,
                                   bool *is_hopeless)
{
    const struct pccl_peer_link *link = find_link(p, id);
    if (link == NULL || link->out == PCCL_DIAL_UP || link->candidate_count == 0)
        return UINT64_MAX;
    *how = link->how;
    *is_hopeless = link->apart && link->failed && link->how != 0;
    return link->able_us;
}

/*
 * Resets the requests after a restart of the master. The master requests its links again, and this peer must ask again
 * for the others.
 */
void pccl_peer_forget_warm_ups(struct pccl_peer *p)
{
    for (uint32_t i = 0; i < p->link_count; i++)
        p->links[i].warm = p->links[i].asked = false;
    pccl_peer_links_follow_view(p, false);
}

/* Returns true if the link belongs to the group's mesh or to a hub. */
static bool view_wants(const struct pccl_peer *p, const struct pccl_id *id)
{
    const uint32_t position = pccl_peer_position_of(p, id), own = pccl_peer_position_of(p, &p->config.id);
    return position < p->group.count && own < p->group.count &&
           pccl_cost_wants(&p->group.cost, p->group.count, own, position);
}

/*
 * Adjusts the links to the membership and the ring. Call whenever one of these has changed. Links outside the ring are
 * added when the master requests them.
 */
void pccl_peer_links_follow_view(struct pccl_peer *p, bool new_view)
{
    const struct pccl_id *successor = pccl_peer_successor(p);
    if (successor != NULL && need_link(p, successor) == NULL)
        return;
    for (uint32_t i = 0; i < p->link_count;) {
        struct pccl_peer_link *link = &p->links[i];
        bool member = pccl_peer_knows_member(p, &link->id);
        /* the view decides whether it is wanted */
        bool decided = link->warm && member && new_view;
        link->ring = successor != NULL && pccl_id_equal(&link->id, successor);
        link->mesh = member && view_wants(p, &link->id);
        if (!member)
            link->idle_us = 0;
        link->failed = link->failed && !link->ring && !decided; /* a failure in the new ring must be reported again */
        link->warm = link->warm && !decided;
        if (decided)
            forgive(p, link); /* the newcomer's address has been verified */
        if ((link->ring || (decided && is_wanted(link))) && link->out == PCCL_DIAL_DOWN && link->candidate_count > 0)
            dial(p, link);
        if (tidy_link(p, link))
            continue;
        if (link->sends > 0)
            want_to_send(p, link);
        i++;
    }
}

/* ---- link events ---- */

/*
 * Records that a link ended because of an invalid message. This is not evidence about the path or the other peer. The
 * operations that used the link have failed, which the master knows. An immediate dial would only produce the same
 * message again.
 */
static void note_rejected(struct pccl_peer *p, struct pccl_peer_link *link, const struct pccl_text *reason)
{
    link->rejected_us = p->now_us;
    if (link->rejected_logged_us != 0 && p->now_us < link->rejected_logged_us + REJECTED_US)
        return;
    link->rejected_logged_us = p->now_us;
    pccl_peer_log(p, PCCL_LOG_WARN, "link closed: %s", reason->bytes);
}

static bool is_evidence(const struct pccl_peer_event *event) { return !event->purposely && event->reason == NULL; }

static void outgoing_down(struct pccl_peer *p, struct pccl_peer_link *link, const struct pccl_peer_event *event)
{
    bool was_up = link->out == PCCL_DIAL_UP;
    bool brief = was_up && is_for_sends(link) && p->now_us < link->up_us + BRIEF_US;
    bool changed = !link->failed || link->how != event->how;
    link->out = PCCL_DIAL_DOWN;
    link->idle_us = 0; /* a link that was idle is not dialed again */
    link->able_us = was_up && !brief ? p->now_us : link->able_us;
    if (is_evidence(event)) {
        link->failed = true;
        link->how = event->how;
        if (was_up || changed || p->now_us >= link->reported_us + REPORT_AGAIN_US) {
            link->reported_us = p->now_us;
            report_lost(p, &link->id, false, link->reversed, event->how);
        }
    }
    if (p->state == PCCL_PEER_OVER || tidy_link(p, link) || !is_wanted(link))
        return;
    bool newcomer = is_newcomer(p, link);
    if (was_up && !brief && is_evidence(event) && !newcomer) {
        forgive(p, link);
        dial(p, link); /* at once, because the answer distinguishes a broken connection from a dead peer */
        return;
    }
    if (newcomer)
        link->pause_ms = (uint32_t)pccl_max_u64(link->pause_ms, NEWCOMER_PAUSE_MS);
    link->retry_us = p->now_us + link->pause_ms * UINT64_C(1000);
    link->pause_ms = (uint32_t)pccl_min_u64(link->pause_ms * UINT64_C(2), longest_pause_ms(p, link));
    pccl_peer_arm(p, link->retry_us);
}

static void incoming_down(struct pccl_peer *p, struct pccl_peer_link *link, const struct pccl_peer_event *event)
{
    struct pccl_id id = link->id;
    bool reversed = link->in_reversed;
    link->in_up = false;
    if (!is_wanted(link))
        drop_link(p, link);
    if (is_evidence(event) && p->state == PCCL_PEER_MEMBER && pccl_peer_knows_member(p, &id))
        report_lost(p, &id, true, reversed, event->how);
}

void pccl_peer_link_event(struct pccl_peer *p, const struct pccl_peer_event *event)
{
    bool up = event->kind == PCCL_PEER_LINK_UP;
    struct pccl_peer_link *link = event->incoming && up ? make_link(p, &event->peer) : find_link(p, &event->peer);
    if (link == NULL && event->incoming && up) /* the peer that dialed will dial again */
        p->effects.close_link(p->effects.context, &event->peer, true);
    if (link == NULL)
        return;
    if (!up && event->reason != NULL)
        note_rejected(p, link, event->reason);
    if (event->incoming && up) {
        link->in_up = true;
        link->in_reversed = event->reversed;
    } else if (event->incoming && link->in_up)
        incoming_down(p, link, event);
    else if (!event->incoming && up && link->out == PCCL_DIAL_DIALING) {
        link->out = PCCL_DIAL_UP;
        link->up_us = p->now_us;
        link->reached = link->reached || !link->reversed;
        link->apart = false;
        if (link->reversed)
            pccl_peer_log(p, PCCL_LOG_INFO, "peer %s has dialed the link to it, because its port cannot be reached",
                          pccl_id_str(&link->id));
        link->failed = false;
        forgive(p, link);
        link->rtt_us = event->rtt_us;
        link->rate = 0;
        link->shared = false;
        report_up(p, link);
    } else if (!event->incoming && !up && link->out != PCCL_DIAL_DOWN)
        outgoing_down(p, link, event);
}

static void take_figures(struct pccl_peer *p, struct pccl_peer_link *link, uint32_t rtt_us, uint64_t rate, bool shared)
{
    link->rtt_us = rtt_us != 0 ? rtt_us : link->rtt_us;
    link->rate = link->path_rate = rate;
    link->shared = shared;
    link->figures_us = p->now_us;
}

void pccl_peer_note_figures(struct pccl_peer *p, const struct pccl_id *id, uint32_t rtt_us, uint64_t rate)
{
    struct pccl_peer_link *link = find_link(p, id);
    if (link != NULL && link->out == PCCL_DIAL_UP)
        take_figures(p, link, rtt_us, rate, false);
}

/*
 * Reports measured figures to the master. Unchanged figures are reported at long intervals, to confirm them. A rate on
 * a shared line can only raise the figure, and does not confirm the last reported rate.
 */
void pccl_peer_link_measured(struct pccl_peer *p, const struct pccl_peer_event *event)
{
    struct pccl_peer_link *link = p->state == PCCL_PEER_MEMBER ? find_link(p, &event->peer) : NULL;
    if (link == NULL || link->out != PCCL_DIAL_UP || event->rate == 0)
        return;
    uint64_t rate = event->shared ? pccl_max_u64(link->path_rate, event->rate) : event->rate;
    bool moved = pccl_rtt_moved(link->rtt_us, event->rtt_us) || pccl_rate_moved(link->rate, rate);
    if (!moved && (event->shared || p->now_us < link->figures_us + FIGURES_AGAIN_US))
        return;
    take_figures(p, link, event->rtt_us, rate, event->shared);
    report_up(p, link);
}

static void close_idle_links(struct pccl_peer *p)
{
    for (uint32_t i = 0; i < p->link_count;) {
        struct pccl_peer_link *link = &p->links[i];
        uint64_t end_us = link->idle_us != 0 ? link->idle_us + p->config.send_idle_ms * UINT64_C(1000) : UINT64_MAX;
        if (p->now_us >= end_us)
            link->idle_us = 0;
        else
            pccl_peer_arm(p, end_us);
        if (p->now_us < end_us || !tidy_link(p, link))
            i++;
    }
}

void pccl_peer_tick_links(struct pccl_peer *p)
{
    close_idle_links(p);
    for (uint32_t i = 0; i < p->link_count; i++) {
        struct pccl_peer_link *link = &p->links[i];
        if (link->retry_us == 0)
            continue;
        if (!is_wanted(link))
            link->retry_us = 0;
        else if (p->now_us >= link->retry_us)
            dial(p, link);
        else
            pccl_peer_arm(p, link->retry_us);
    }
}

/*
 * What is known of the links between the members of a group: from tests, and from what operations achieved. It is the
 * one source for the search for rings and for the cost data of views, and knows nothing of either.
 */
#include "master/links.h"
#include "master/topology.h"
#include "wire/cost.h"

enum { UNREACHABLE_FRESH_MS = 30000 }; /* then it is tried again */

/* ---- places ---- */

bool pccl_master_enter_matrix(struct pccl_master *m, struct pccl_peer_group *group, struct pccl_remote *remote)
{
    PCCL_ASSERT(remote->group == NULL);
    uint32_t place = 0;
    while (place < group->place_count && group->by_place[place] != NULL)
        place++;
    if (place == group->place_count) {
        struct pccl_remote **by_place =
            pccl_grow(&m->memory, group->by_place, &group->place_capacity, place + 1, sizeof *by_place);
        if (by_place == NULL)
            return false;
        group->by_place = by_place;
        if (group->matrix.places > 0 &&
            (place >= PCCL_OPTIMIZE_PEERS_MAX ||
             !pccl_matrix_reserve(&group->matrix, place + 1))) { /* the member can do without */
            pccl_matrix_fini(&group->matrix);
            pccl_matrix_init(&group->matrix, &m->memory);
            group->tuning.known = false;
        }
        group->place_count = place + 1;
    }
    group->by_place[place] = remote;
    remote->place = place;
    return true;
}

void pccl_master_leave_matrix(struct pccl_peer_group *group, struct pccl_remote *remote)
{
    PCCL_ASSERT(remote->place < group->place_count && group->by_place[remote->place] == remote);
    group->by_place[remote->place] = NULL;
    if (remote->place < group->matrix.places)
        pccl_matrix_forget(&group->matrix, remote->place);
    while (group->place_count > 0 && group->by_place[group->place_count - 1] == NULL)
        group->place_count--;
}

/* ---- figures ---- */

struct pccl_figure *pccl_master_find_figure(const struct pccl_remote *from, const struct pccl_remote *to)
{
    if (from == to || from->group == NULL || from->group != to->group)
        return NULL;
    return pccl_matrix_at(&from->group->matrix, from->place, to->place);
}

static void put(struct pccl_master *m, struct pccl_figure *figure, enum pccl_figure_source source, uint32_t rtt_us,
                uint64_t rate)
{
    *figure = (struct pccl_figure){.rate = rate,
                                   .at_us = m->now_us,
                                   .tested_rate = source == PCCL_FIGURE_TRAFFIC ? figure->tested_rate : rate,
                                   .rtt_us = rtt_us,
                                   .source = (uint8_t)source};
}

void pccl_master_note_traffic(struct pccl_master *m, const struct pccl_remote *from, const struct pccl_remote *to,
                              uint32_t rtt_us, uint64_t rate)
{
    struct pccl_figure *figure = pccl_master_find_figure(from, to);
    if (figure == NULL)
        return;
    if (figure->source == PCCL_FIGURE_UNREACHABLE)
        *figure = (struct pccl_figure){0};
    if (rate == 0)
        return;
    bool moved = figure->source != PCCL_FIGURE_NONE && pccl_rate_moved(figure->rate, rate);
    put(m, figure, PCCL_FIGURE_TRAFFIC, rtt_us != 0 ? rtt_us : figure->rtt_us, rate);
    from->group->tuning.moved = from->group->tuning.moved || moved;
}

void pccl_master_note_inconclusive(struct pccl_master *m, struct pccl_remote *from, struct pccl_remote *to)
{
    struct pccl_figure *figure = pccl_master_find_figure(from, to);
    if (figure != NULL)
        put(m, figure, PCCL_FIGURE_NONE, 0, 0);
}

void pccl_master_note_unreachable(struct pccl_master *m, struct pccl_remote *from, struct pccl_remote *to)
{
    struct pccl_figure *figure = pccl_master_find_figure(from, to), *back = pccl_master_find_figure(to, from);
    if (figure == NULL || back == NULL)
        return;
    /* If a link stands, data flows over it, and what failed was another connection. */
    put(m, figure, pccl_master_holds_link(from, to) ? PCCL_FIGURE_NONE : PCCL_FIGURE_UNREACHABLE, 0, 0);
    if (!pccl_master_holds_link(to, from) &&
        pccl_master_is_stale(m, to, from)) /* otherwise something better is known of it */
        put(m, back, PCCL_FIGURE_UNREACHABLE, 0, 0);
}

void pccl_master_note_test(struct pccl_master *m, struct pccl_remote *from, struct pccl_remote *to, uint32_t rtt_us,
                           uint64_t rate)
{
    struct pccl_figure *figure = pccl_master_find_figure(from, to);
    if (figure == NULL)
        return;
    rate = pccl_min_u64(rate, PCCL_RATE_MOST);
    put(m, figure, PCCL_FIGURE_TESTED, rtt_us, rate);
    struct pccl_link_intent *intent = pccl_master_find_intent(from, &to->id);
    if (intent != NULL) {
        intent->rate = rate;
        intent->rtt_us = rtt_us != 0 ? rtt_us : intent->rtt_us;
    }
}

bool pccl_master_is_stale(const struct pccl_master *m, const struct pccl_remote *from, const struct pccl_remote *to)
{
    const struct pccl_figure *figure = pccl_master_find_figure(from, to);
    if (m->optimizing && figure != NULL && figure->at_us != 0 && figure->at_us >= m->tests_begin_us &&
        figure->source != PCCL_FIGURE_TRAFFIC)
        return false; /* learned in this optimization, however short `fresh_ms` is */
    if (figure == NULL || figure->source == PCCL_FIGURE_NONE)
        return true;
    uint64_t promised = figure->tested_rate / 1000 * from->group->tuning.share;
    if (figure->source == PCCL_FIGURE_TRAFFIC && pccl_rate_moved(promised, figure->rate))
        return true; /* its rate changes, so test it rather than trust what operations happened to show */
    uint64_t fresh_ms = m->config.fresh_ms;
    if (figure->source == PCCL_FIGURE_UNREACHABLE)
        fresh_ms = pccl_min_u64(fresh_ms, UNREACHABLE_FRESH_MS);
    return m->now_us >= figure->at_us + fresh_ms * 1000;
}

void pccl_master_link_cost(const struct pccl_remote *from, const struct pccl_remote *to, uint64_t *rate,
                           uint32_t *rtt_us)
{
    const struct pccl_link_intent *intent = pccl_master_find_intent(from, &to->id);
    const struct pccl_figure *figure = pccl_master_find_figure(from, to);
    *rate = 0;
    *rtt_us = 0;
    if (intent != NULL && intent->up) {
        *rate = intent->rate;
        *rtt_us = intent->rtt_us;
    }
    if (figure == NULL || figure->source == PCCL_FIGURE_NONE || figure->source == PCCL_FIGURE_UNREACHABLE ||
        figure->judged)
        return;
    *rate = *rate != 0 ? *rate : figure->rate;
    *rtt_us = *rtt_us != 0 ? *rtt_us : figure->rtt_us;
}

/* ---- the problem ---- */

void pccl_master_calibrate_tests(struct pccl_peer_group *group)
{
    uint16_t shares[1001] = {0};
    uint32_t count = 0, seen = 0, share = 1000;
    for (uint32_t i = 0; i < group->ring_count; i++) {
        const struct pccl_figure *figure =
            pccl_master_find_figure(group->ring[i], group->ring[(i + 1) % group->ring_count]);
        if (figure == NULL || figure->tested_rate == 0)
            continue; /* a change of the others would have been reported */
        shares[pccl_min_u64(1000, figure->rate * 1000 / figure->tested_rate)]++;
        count++;
    }
    while (count > 0 && (seen += shares[share]) < (count + 1) / 2 && share > 1)
        share--;
    group->tuning.share = share;
}

struct pccl_figure pccl_master_link_estimate(const struct pccl_remote *from, const struct pccl_remote *to)
{
    const struct pccl_figure *known = pccl_master_find_figure(from, to);
    struct pccl_figure figure = known != NULL ? *known : (struct pccl_figure){0};
    if (figure.source == PCCL_FIGURE_TESTED)
        figure.rate = figure.rate / 1000 * from->group->tuning.share;
    if (figure.source == PCCL_FIGURE_TESTED || figure.source == PCCL_FIGURE_TRAFFIC ||
        !pccl_master_holds_link(from, to))
        return figure;
    const struct pccl_link_intent *intent = pccl_master_find_intent(from, &to->id);
    figure.source = intent->rate != 0 ? PCCL_FIGURE_TRAFFIC : PCCL_FIGURE_NONE;
    figure.rate = intent->rate;
    figure.rtt_us = intent->rtt_us;
    return figure;
}

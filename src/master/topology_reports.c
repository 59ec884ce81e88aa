/*
 * Represents a group in two forms: as a problem for the solver, which identifies members by number, and as a text for
 * members that request it, for the log and for the driver's file.
 */
#include "master/links.h"
#include "master/output.h"
#include "master/topology_internal.h"
#include "topology/report.h"

#include <string.h>

static uint64_t solver_rate(const struct pccl_tuning *tuning, const struct pccl_figure *figure)
{
    switch (figure->source) {
    case PCCL_FIGURE_UNREACHABLE: return PCCL_RATE_NONE;
    case PCCL_FIGURE_NONE:
        return tuning->assumed_rate != 0 ? pccl_rate_rounded(tuning->assumed_rate) : PCCL_RATE_UNKNOWN;
    default: return pccl_rate_rounded(figure->rate);
    }
}

static size_t problem_cells(uint32_t count) { return (size_t)count * count; }

/* Numbers the members independently of the ring, so that a search can be repeated after its answer was adopted. */
static void number_members(struct pccl_peer_group *group)
{
    uint32_t number = 0;
    for (uint32_t i = 0; i < group->place_count; i++)
        if (group->by_place[i] != NULL)
            group->by_place[i]->number = number++;
    PCCL_ASSERT(number == group->ring_count);
}

bool pccl_master_build_ring_problem(struct pccl_master *m, struct pccl_peer_group *group,
                                    struct pccl_ring_problem *problem)
{
    uint32_t count = group->ring_count;
    size_t cells = problem_cells(count);
    PCCL_ASSERT(count > 0);
    uint64_t *rates = pccl_allocate(&m->memory, cells * sizeof *rates);
    uint32_t *rtts_us = pccl_allocate(&m->memory, cells * sizeof *rtts_us);
    uint32_t *ring = pccl_allocate(&m->memory, count * sizeof *ring);
    *problem = (struct pccl_ring_problem){.count = count, .rates = rates, .rtts_us = rtts_us, .ring = ring};
    if (rates == NULL || rtts_us == NULL || ring == NULL) {
        pccl_master_free_problem(m, problem);
        return false;
    }
    number_members(group);
    pccl_master_calibrate_tests(group);
    for (uint32_t i = 0; i < count; i++) {
        const struct pccl_remote *from = group->ring[i];
        ring[i] = from->number;
        for (uint32_t k = 0; k < count; k++) {
            const struct pccl_remote *to = group->ring[k];
            size_t cell = (size_t)from->number * count + to->number;
            struct pccl_figure figure = i != k ? pccl_master_link_estimate(from, to) : (struct pccl_figure){0};
            rates[cell] = solver_rate(&group->tuning, &figure);
            rtts_us[cell] = figure.rtt_us;
        }
    }
    if (pccl_master_exclude_bad_links(m, group, rates))
        return true;
    pccl_master_free_problem(m, problem);
    return false;
}

void pccl_master_free_problem(struct pccl_master *m, struct pccl_ring_problem *problem)
{
    size_t cells = problem_cells(problem->count);
    pccl_release(&m->memory, (void *)(uintptr_t)problem->rates, cells * sizeof *problem->rates);
    pccl_release(&m->memory, (void *)(uintptr_t)problem->rtts_us, cells * sizeof *problem->rtts_us);
    pccl_release(&m->memory, (void *)(uintptr_t)problem->ring, problem->count * sizeof *problem->ring);
    *problem = (struct pccl_ring_problem){0};
}

enum {
    LOGGED_MEMBERS_MAX = 32,    /* largest ring that is logged link by link */
    LINK_LINE_BYTES_LEAST = 27, /* minimum length of the text of a link */
    KEPT_MS = 1000,             /* time for which a report is reused */
};

static struct pccl_topology_link link_of(const struct pccl_master *m, const struct pccl_remote *from,
                                         const struct pccl_remote *to)
{
    struct pccl_figure figure = pccl_master_link_estimate(from, to);
    const struct pccl_link_intent *intent = pccl_master_find_intent(from, &to->id);
    bool is_old = figure.at_us != 0 && figure.at_us < m->now_us;
    return (struct pccl_topology_link){.from = from->number,
                                       .to = to->number,
                                       .rate = figure.source != PCCL_FIGURE_UNREACHABLE ? figure.rate : 0,
                                       .age_ms = is_old ? (m->now_us - figure.at_us) / 1000 : 0,
                                       .rtt_us = figure.rtt_us,
                                       .source = figure.source,
                                       .reversed = intent != NULL && intent->up && intent->reversed};
}

/* Adds the link between two members, as unreachable if `problem` says so. Returns false if out of memory. */
static bool add_link(const struct pccl_master *m, const struct pccl_ring_problem *problem,
                     const struct pccl_remote *from, const struct pccl_remote *to, struct pccl_topology_report *report)
{
    struct pccl_topology_link link = link_of(m, from, to);
    if (problem != NULL && problem->rates[(size_t)link.from * report->count + link.to] == PCCL_RATE_NONE) {
        link.source = PCCL_FIGURE_UNREACHABLE;
        link.rate = link.rtt_us = 0;
    }
    return pccl_topology_report_add(report, &link);
}

/* Fills in the report, with only the ring's links if `problem` is NULL. Returns false if out of memory. */
static bool fill(const struct pccl_master *m, const struct pccl_peer_group *group,
                 const struct pccl_ring_problem *problem, struct pccl_topology_report *report)
{
    uint32_t count = group->ring_count;
    bool complete = true;
    report->group = group->number;
    report->seed = group->tuning.seed;
    report->steps = group->tuning.steps;
    for (uint32_t i = 0; i < count && complete; i++) {
        const struct pccl_remote *remote = group->ring[i];
        struct pccl_topology_peer *peer = &report->peers[remote->number];
        peer->id = remote->id;
        peer->address = remote->observed;
        const char *name = pccl_names_of(&m->names, &remote->id);
        if (name != NULL)
            memcpy(peer->name, name, pccl_bytes_of_string(name).length);
        report->ring[i] = remote->number;
        if (problem == NULL && count > 1)
            complete = add_link(m, NULL, remote, group->ring[(i + 1) % count], report);
        for (uint32_t k = 0; problem != NULL && k < count && complete; k++)
            complete = i == k || add_link(m, problem, remote, group->ring[k], report);
    }
    return complete;
}

/*
 * Prints the report and returns its length: with all links if this fits in a message, otherwise with the ring's links.
 * Returns 0 if that does not fit either, or out of memory.
 */
static size_t print(struct pccl_master *m, struct pccl_peer_group *group, char *text)
{
    struct pccl_topology_report report;
    struct pccl_ring_problem problem;
    uint64_t count = group->ring_count;
    size_t length = PCCL_TOPOLOGY_REPORT_BYTES_MAX + 1;
    bool all = count * count * LINK_LINE_BYTES_LEAST <= PCCL_TOPOLOGY_REPORT_BYTES_MAX;
    number_members(group);
    if (all && !pccl_master_build_ring_problem(m, group, &problem))
        return 0;
    if (pccl_topology_report_init(&report, &m->memory, group->ring_count)) {
        bool is_complete = fill(m, group, all ? &problem : NULL, &report) &&
                           (!all || pccl_topology_report_promise(&report, report.ring));
        if (is_complete)
            length = pccl_topology_report_print(&report, false, text, PCCL_TOPOLOGY_REPORT_BYTES_MAX);
        if (is_complete && all && length > PCCL_TOPOLOGY_REPORT_BYTES_MAX)
            length = pccl_topology_report_print(&report, true, text, PCCL_TOPOLOGY_REPORT_BYTES_MAX);
        pccl_topology_report_fini(&report);
    }
    if (all)
        pccl_master_free_problem(m, &problem);
    return length <= PCCL_TOPOLOGY_REPORT_BYTES_MAX ? length : 0;
}

void pccl_master_forget_report(struct pccl_master *m, struct pccl_peer_group *group)
{
    struct pccl_tuning *tuning = &group->tuning;
    pccl_release(&m->memory, tuning->text, tuning->text_bytes);
    tuning->text = NULL;
    tuning->text_bytes = 0;
}

/* Creates the report and keeps it for a while, because all members may request it at the same time. */
static void draw(struct pccl_master *m, struct pccl_peer_group *group)
{
    struct pccl_tuning *tuning = &group->tuning;
    pccl_master_forget_report(m, group);
    char *text = pccl_allocate(&m->memory, PCCL_TOPOLOGY_REPORT_BYTES_MAX);
    size_t length = text != NULL ? print(m, group, text) : 0;
    tuning->text = length > 0 ? pccl_allocate(&m->memory, length) : NULL;
    if (tuning->text != NULL) {
        memcpy(tuning->text, text, length);
        tuning->text_bytes = length;
    }
    pccl_release(&m->memory, text, PCCL_TOPOLOGY_REPORT_BYTES_MAX);
    tuning->text_us = m->now_us;
    tuning->text_version = group->ring_version;
}

void pccl_master_describe(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_describe *describe)
{
    const struct pccl_tuning *tuning = &from->group->tuning;
    if (tuning->text == NULL || tuning->text_version != from->group->ring_version ||
        m->now_us >= tuning->text_us + KEPT_MS * UINT64_C(1000))
        draw(m, from->group);
    struct pccl_msg msg = {
        .type = PCCL_MSG_topology_report,
        .as.topology_report = {.ticket = describe->ticket,
                               .text = {(const uint8_t *)tuning->text, (uint32_t)tuning->text_bytes}}};
    pccl_master_send(m, from, &msg, 0);
}

static void log_ring(struct pccl_master *m, const struct pccl_peer_group *group)
{
    for (uint32_t i = 0; i < group->ring_count && group->ring_count <= LOGGED_MEMBERS_MAX; i++) {
        const struct pccl_remote *from = group->ring[i], *to = group->ring[(i + 1) % group->ring_count];
        struct pccl_topology_link link = link_of(m, from, to);
        pccl_master_log(m, PCCL_LOG_INFO, &(struct pccl_log_fields){.peer = &from->id},
                        "group %u, ring: peer %s to peer %s: %" PRIu64 " Mbit/s, round trip %s%s", group->number,
                        pccl_id_str(&from->id), pccl_id_str(&to->id), link.rate / 125000,
                        pccl_duration_str(link.rtt_us), link.reversed ? ", reversed" : "");
    }
}

void pccl_master_publish_topology(struct pccl_master *m, struct pccl_peer_group *group)
{
    pccl_master_forget_report(m, group); /* the stored report is outdated */
    if (group->ring_count < 2)
        return;
    log_ring(m, group);
    if (m->effects.report == NULL)
        return;
    draw(m, group);
    if (group->tuning.text != NULL)
        m->effects.report(m->effects.context, group->number, group->tuning.text, group->tuning.text_bytes);
}

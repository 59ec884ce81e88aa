/* Builds a report and prints it. */
#include "topology/report.h"

#include "core/print.h"

#include <string.h>

bool pccl_topology_report_init(struct pccl_topology_report *report, const struct pccl_memory *memory, uint32_t count)
{
    *report = (struct pccl_topology_report){.memory = *memory};
    if (count == 0 || count > PCCL_PEERS_MAX)
        return false;
    report->count = count;
    report->peers = pccl_allocate(memory, count * sizeof *report->peers);
    report->ring = pccl_allocate(memory, count * sizeof *report->ring);
    if (report->peers == NULL || report->ring == NULL) {
        pccl_topology_report_fini(report);
        return false;
    }
    for (uint32_t i = 0; i < count; i++)
        report->ring[i] = i;
    return true;
}

void pccl_topology_report_fini(struct pccl_topology_report *report)
{
    pccl_release(&report->memory, report->peers, report->count * sizeof *report->peers);
    pccl_release(&report->memory, report->ring, report->count * sizeof *report->ring);
    pccl_release(&report->memory, report->links, report->link_capacity * sizeof *report->links);
    *report = (struct pccl_topology_report){.memory = report->memory};
}

bool pccl_topology_report_add(struct pccl_topology_report *report, const struct pccl_topology_link *link)
{
    PCCL_ASSERT(link->from < report->count && link->to < report->count && link->from != link->to);
    PCCL_ASSERT(link->source < PCCL_FIGURE_SOURCES);
    if (link->source == PCCL_FIGURE_NONE)
        return true;
    struct pccl_topology_link *links =
        pccl_grow(&report->memory, report->links, &report->link_capacity, report->link_count + 1, sizeof *links);
    if (links == NULL)
        return false;
    report->links = links;
    links[report->link_count++] = *link;
    return true;
}

static void list_figures(const struct pccl_topology_report *report, uint64_t *rates, uint32_t *rtts_us)
{
    for (size_t i = 0; i < (size_t)report->count * report->count; i++) {
        rates[i] = PCCL_RATE_UNKNOWN;
        rtts_us[i] = 0;
    }
    for (uint32_t i = 0; i < report->link_count; i++) {
        const struct pccl_topology_link *link = &report->links[i];
        const size_t cell = (size_t)link->from * report->count + link->to;
        rates[cell] = link->source == PCCL_FIGURE_UNREACHABLE ? PCCL_RATE_NONE : link->rate;
        rtts_us[cell] = link->rtt_us;
    }
}

bool pccl_topology_report_promise(struct pccl_topology_report *report, const uint32_t *ring)
{
    const size_t cells = (size_t)report->count * report->count, bytes = cells * (sizeof(uint64_t) + sizeof(uint32_t));
    struct pccl_lines lines;
    memset(&report->promise, 0, sizeof report->promise);
    if (report->count < 2 || report->count > PCCL_TREES_PEERS_MAX)
        return true;
    uint64_t *rates = pccl_allocate(&report->memory, bytes);
    if (rates == NULL)
        return false;
    uint32_t *rtts_us = (uint32_t *)(void *)(rates + cells);
    list_figures(report, rates, rtts_us);
    pccl_lines_find(&lines, &(struct pccl_pairs){report->count, rates, rtts_us});
    report->promise.bound = pccl_lines_bound(&lines);
    report->promise.ring = pccl_lines_ring(&lines, ring);
    enum pccl_status status = pccl_trees_pack(&lines, &report->memory, &report->promise.trees);
    pccl_release(&report->memory, rates, bytes);
    return status == PCCL_OK;
}

void pccl_topology_limit_text(const struct pccl_bound *bound, struct pccl_text *text)
{
    const char *line = bound->is_down ? "downlink" : "uplink";
    switch (bound->limit) {
    case PCCL_LIMIT_MEMBER: pccl_text_format(text, "%s of peer %u", line, bound->member); break;
    case PCCL_LIMIT_MEMBERS: pccl_text_format(text, "%ss of all peers", line); break;
    case PCCL_LIMIT_SITE: pccl_text_format(text, "%s of the site of peer %u", line, bound->member); break;
    case PCCL_LIMIT_SITES: pccl_text_format(text, "%ss of all sites", line); break;
    }
}

static void end_line(struct pccl_print *page) { pccl_print_add_bytes(page, "\n", 1); }

static void write_peer(struct pccl_print *page, uint32_t number, const struct pccl_topology_peer *peer)
{
    struct pccl_text name;
    const char *end = memchr(peer->name, '\0', PCCL_NAME_MAX);
    pccl_text_clear(&name);
    pccl_text_add_bytes(&name, peer->name, end == NULL ? PCCL_NAME_MAX : (size_t)(end - peer->name));
    pccl_print_format(page, "peer %u ", number);
    pccl_print_add_id(page, &peer->id);
    pccl_print_format(page, " %s%s%s", pccl_address_str(&peer->address), name.length > 0 ? " " : "", name.bytes);
    end_line(page);
}

static void write_link(struct pccl_print *page, const struct pccl_topology_link *link)
{
    pccl_print_format(page, "way %u %u ", link->from, link->to);
    if (link->source == PCCL_FIGURE_UNREACHABLE)
        pccl_print_format(page, "unreachable age %" PRIu64, link->age_ms);
    else
        pccl_print_format(page, "rate %" PRIu64 " rtt %u age %" PRIu64 " %s%s", link->rate, link->rtt_us, link->age_ms,
                          link->source == PCCL_FIGURE_TESTED ? "tested" : "traffic", link->reversed ? " reversed" : "");
    end_line(page);
}

/* Returns the successor of this peer in the ring. */
static uint32_t next_of(const struct pccl_topology_report *report, uint32_t peer)
{
    uint32_t i = 0;
    while (i + 1 < report->count && report->ring[i] != peer)
        i++;
    return report->ring[i + 1 < report->count ? i + 1 : 0];
}

static void write_links(struct pccl_print *page, const struct pccl_topology_report *report, bool ring_only)
{
    /* successor of `from`, looked up once for consecutive links of that peer */
    uint32_t from = report->count, next = 0;
    for (uint32_t i = 0; i < report->link_count; i++) {
        const struct pccl_topology_link *link = &report->links[i];
        if (ring_only && link->from != from) {
            from = link->from;
            next = next_of(report, from);
        }
        if (!ring_only || link->to == next)
            write_link(page, link);
    }
}

static void write_promise(struct pccl_print *page, const struct pccl_topology_report *report)
{
    const struct pccl_topology_promise *promise = &report->promise;
    struct pccl_text limit;
    if (promise->bound.rate == 0)
        return;
    pccl_topology_limit_text(&promise->bound, &limit);
    pccl_print_format(page, "# all-reduce, bytes of the tensor per second: at most %" PRIu64 ", %s",
                      promise->bound.rate, limit.bytes);
    end_line(page);
    pccl_print_format(page, "# around the ring %" PRIu64 ", over trees %" PRIu64, promise->ring, promise->trees.rate);
    end_line(page);
    for (uint32_t t = 0; t < promise->trees.count; t++) {
        pccl_print_format(page, "# tree %u of %u:", promise->trees.weights[t], PCCL_TREES_WEIGHT);
        for (uint32_t i = 0; i < report->count; i++)
            pccl_print_format(page, " %u", promise->trees.parents[t][i]);
        end_line(page);
    }
}

size_t pccl_topology_report_print(const struct pccl_topology_report *report, bool ring_only, char *text, size_t size)
{
    struct pccl_print page;
    pccl_print_into(&page, text, size);
    pccl_print_format(&page, "pccl topology 1");
    end_line(&page);
    pccl_print_format(&page, "group %u", report->group);
    end_line(&page);
    pccl_print_format(&page, "peers %u", report->count);
    end_line(&page);
    for (uint32_t i = 0; i < report->count; i++)
        write_peer(&page, i, &report->peers[i]);
    pccl_print_format(&page, "ring");
    for (uint32_t i = 0; i < report->count; i++)
        pccl_print_format(&page, " %u", report->ring[i]);
    end_line(&page);
    pccl_print_format(&page, "search seed %" PRIu64 " steps %" PRIu64, report->seed, report->steps);
    end_line(&page);
    write_links(&page, report, ring_only);
    write_promise(&page, report);
    pccl_print_format(&page, "end");
    end_line(&page);
    return page.length;
}

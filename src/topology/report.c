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
    pccl_print_format(&page, "end");
    end_line(&page);
    return page.length;
}

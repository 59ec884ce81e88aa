/* Builds a report and prints it; report_read.c reads one. */
#include "topology/report.h"

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

/* Counts all bytes, and keeps those for which there is room. */
struct page {
    char *text;
    size_t size, length;
};

static void write_bytes(struct page *page, const char *bytes, size_t count)
{
    if (page->length < page->size) {
        size_t room = page->size - page->length;
        memcpy(page->text + page->length, bytes, count < room ? count : room);
    }
    page->length += count;
}

PCCL_PRINTF(2, 3) static void write_words(struct page *page, const char *format, ...)
{
    struct pccl_text words;
    va_list arguments;
    va_start(arguments, format);
    pccl_text_format_list(&words, format, arguments);
    va_end(arguments);
    write_bytes(page, words.bytes, words.length);
}

static void end_line(struct page *page) { write_bytes(page, "\n", 1); }

/* Writes the whole id, unlike pccl_id_text. */
static void write_id(struct page *page, const struct pccl_id *id)
{
    char digits[2 * sizeof id->bytes];
    pccl_id_write(id, digits, sizeof digits);
    write_bytes(page, digits, sizeof digits);
}

static void write_peer(struct page *page, uint32_t number, const struct pccl_topology_peer *peer)
{
    struct pccl_text name;
    const char *end = memchr(peer->name, '\0', PCCL_NAME_MAX);
    pccl_text_clear(&name);
    pccl_text_add_bytes(&name, peer->name, end == NULL ? PCCL_NAME_MAX : (size_t)(end - peer->name));
    write_words(page, "peer %u ", number);
    write_id(page, &peer->id);
    write_words(page, " %s%s%s", pccl_address_str(&peer->address), name.length > 0 ? " " : "", name.bytes);
    end_line(page);
}

static void write_link(struct page *page, const struct pccl_topology_link *link)
{
    write_words(page, "way %u %u ", link->from, link->to);
    if (link->source == PCCL_FIGURE_UNREACHABLE)
        write_words(page, "unreachable age %" PRIu64, link->age_ms);
    else
        write_words(page, "rate %" PRIu64 " rtt %u age %" PRIu64 " %s", link->rate, link->rtt_us, link->age_ms,
                    link->source == PCCL_FIGURE_TESTED ? "tested" : "traffic");
    end_line(page);
}

/* The successor of this peer in the ring. */
static uint32_t next_of(const struct pccl_topology_report *report, uint32_t peer)
{
    uint32_t i = 0;
    while (i + 1 < report->count && report->ring[i] != peer)
        i++;
    return report->ring[i + 1 < report->count ? i + 1 : 0];
}

static void write_links(struct page *page, const struct pccl_topology_report *report, bool ring_only)
{
    uint32_t from = report->count, next = 0; /* looked up once for all consecutive links of a peer */
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
    struct page page = {.text = text, .size = size};
    write_words(&page, "pccl topology 1");
    end_line(&page);
    write_words(&page, "group %u", report->group);
    end_line(&page);
    write_words(&page, "peers %u", report->count);
    end_line(&page);
    for (uint32_t i = 0; i < report->count; i++)
        write_peer(&page, i, &report->peers[i]);
    write_words(&page, "ring");
    for (uint32_t i = 0; i < report->count; i++)
        write_words(&page, " %u", report->ring[i]);
    end_line(&page);
    write_words(&page, "search seed %" PRIu64 " steps %" PRIu64, report->seed, report->steps);
    end_line(&page);
    write_links(&page, report, ring_only);
    write_words(&page, "end");
    end_line(&page);
    return page.length;
}

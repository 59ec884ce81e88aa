#include "topology/picture.h"

#include <string.h>

bool pccl_picture_init(struct pccl_picture *picture, const struct pccl_memory *memory, uint32_t count)
{
    *picture = (struct pccl_picture){.memory = *memory};
    if (count == 0 || count > PCCL_PEERS_MAX)
        return false;
    picture->count = count;
    picture->peers = pccl_allocate(memory, count * sizeof *picture->peers);
    picture->ring = pccl_allocate(memory, count * sizeof *picture->ring);
    if (picture->peers == NULL || picture->ring == NULL) {
        pccl_picture_fini(picture);
        return false;
    }
    for (uint32_t i = 0; i < count; i++)
        picture->ring[i] = i;
    return true;
}

void pccl_picture_fini(struct pccl_picture *picture)
{
    pccl_release(&picture->memory, picture->peers, picture->count * sizeof *picture->peers);
    pccl_release(&picture->memory, picture->ring, picture->count * sizeof *picture->ring);
    pccl_release(&picture->memory, picture->ways, picture->way_capacity * sizeof *picture->ways);
    *picture = (struct pccl_picture){.memory = picture->memory};
}

bool pccl_picture_add(struct pccl_picture *picture, const struct pccl_picture_way *way)
{
    PCCL_ASSERT(way->from < picture->count && way->to < picture->count && way->from != way->to);
    PCCL_ASSERT(way->source < PCCL_FIGURE_SOURCES);
    if (way->source == PCCL_FIGURE_NONE)
        return true;
    struct pccl_picture_way *ways =
        pccl_grow(&picture->memory, picture->ways, &picture->way_capacity, picture->way_count + 1, sizeof *ways);
    if (ways == NULL)
        return false;
    picture->ways = ways;
    ways[picture->way_count++] = *way;
    return true;
}

/* Counts all bytes and keeps those that there is room for. */
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

/* All of it; pccl_text shows the beginning only. */
static void write_id(struct page *page, const struct pccl_id *id)
{
    char digits[2 * sizeof id->bytes];
    pccl_id_write(id, digits, sizeof digits);
    write_bytes(page, digits, sizeof digits);
}

static void write_peer(struct page *page, uint32_t number, const struct pccl_picture_peer *peer)
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

static void write_way(struct page *page, const struct pccl_picture_way *way)
{
    write_words(page, "way %u %u ", way->from, way->to);
    if (way->source == PCCL_FIGURE_UNREACHABLE)
        write_words(page, "unreachable age %" PRIu64, way->age_ms);
    else
        write_words(page, "rate %" PRIu64 " rtt %u age %" PRIu64 " %s", way->rate, way->rtt_us, way->age_ms,
                    way->source == PCCL_FIGURE_TESTED ? "tested" : "traffic");
    end_line(page);
}

/* Whom the ring sends to behind this peer. */
static uint32_t next_of(const struct pccl_picture *picture, uint32_t peer)
{
    uint32_t i = 0;
    while (i + 1 < picture->count && picture->ring[i] != peer)
        i++;
    return picture->ring[i + 1 < picture->count ? i + 1 : 0];
}

static void write_ways(struct page *page, const struct pccl_picture *picture, bool ring_only)
{
    uint32_t from = picture->count, next = 0; /* looked up once for all ways of a peer that stand together */
    for (uint32_t i = 0; i < picture->way_count; i++) {
        const struct pccl_picture_way *way = &picture->ways[i];
        if (ring_only && way->from != from) {
            from = way->from;
            next = next_of(picture, from);
        }
        if (!ring_only || way->to == next)
            write_way(page, way);
    }
}

size_t pccl_picture_print(const struct pccl_picture *picture, bool ring_only, char *text, size_t size)
{
    struct page page = {.text = text, .size = size};
    write_words(&page, "pccl topology 1");
    end_line(&page);
    write_words(&page, "group %u", picture->group);
    end_line(&page);
    write_words(&page, "peers %u", picture->count);
    end_line(&page);
    for (uint32_t i = 0; i < picture->count; i++)
        write_peer(&page, i, &picture->peers[i]);
    write_words(&page, "ring");
    for (uint32_t i = 0; i < picture->count; i++)
        write_words(&page, " %u", picture->ring[i]);
    end_line(&page);
    write_words(&page, "search seed %" PRIu64 " steps %" PRIu64, picture->seed, picture->steps);
    end_line(&page);
    write_ways(&page, picture, ring_only);
    write_words(&page, "end");
    end_line(&page);
    return page.length;
}

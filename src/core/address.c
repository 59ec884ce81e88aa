#include "core/address.h"

#include <string.h>

static const uint8_t v4_prefix[12] = {[10] = 0xff, [11] = 0xff};

bool pccl_address_is_v4(const struct pccl_address *address)
{
    return memcmp(address->ip, v4_prefix, sizeof v4_prefix) == 0;
}

bool pccl_address_is_loopback(const struct pccl_address *address)
{
    static const uint8_t v6_loopback[16] = {[15] = 1};
    return pccl_address_is_v4(address) ? address->ip[12] == 127 : memcmp(address->ip, v6_loopback, 16) == 0;
}

bool pccl_address_is_private(const struct pccl_address *address)
{
    const uint8_t *ip = address->ip + 12;
    if (!pccl_address_is_v4(address))
        return (address->ip[0] & 0xfe) == 0xfc || (address->ip[0] == 0xfe && (address->ip[1] & 0xc0) == 0x80) ||
               pccl_address_is_loopback(address);
    return ip[0] == 10 || ip[0] == 127 || (ip[0] == 172 && ip[1] / 16 == 1) || (ip[0] == 192 && ip[1] == 168) ||
           (ip[0] == 100 && ip[1] / 64 == 1) || (ip[0] == 169 && ip[1] == 254);
}

bool pccl_address_is_unspecified(const struct pccl_address *address)
{
    static const uint8_t zero[16] = {0};
    size_t skip = pccl_address_is_v4(address) ? 12 : 0;
    return memcmp(address->ip + skip, zero, 16 - skip) == 0;
}

static size_t site_bytes(const struct pccl_address *address) { return pccl_address_is_v4(address) ? 16 : 8; }

bool pccl_address_same_site(const struct pccl_address *a, const struct pccl_address *b)
{
    return pccl_address_is_v4(a) == pccl_address_is_v4(b) && memcmp(a->ip, b->ip, site_bytes(a)) == 0;
}

uint64_t pccl_address_site(const struct pccl_hash_key *key, const struct pccl_address *address)
{
    uint32_t words[4] = {0};
    memcpy(words, address->ip, site_bytes(address));
    return pccl_hash_words(key, words, 4);
}

bool pccl_address_equal(const struct pccl_address *a, const struct pccl_address *b)
{
    return memcmp(a->ip, b->ip, 16) == 0 && a->port == b->port;
}

struct pccl_address pccl_address_v4(uint8_t a, uint8_t b, uint8_t c, uint8_t d, uint16_t port)
{
    struct pccl_address address = {.ip = {[10] = 0xff, [11] = 0xff, a, b, c, d}, .port = port};
    return address;
}

static uint32_t group_of(const uint8_t *ip, uint32_t index) { return (uint32_t)ip[2 * index] << 8 | ip[2 * index + 1]; }

static void add_hex(struct pccl_text *text, uint32_t value)
{
    bool started = false;
    for (int shift = 12; shift >= 0; shift -= 4) {
        uint32_t digit = value >> shift & 15;
        started = started || digit != 0 || shift == 0;
        if (started)
            pccl_text_add_bytes(text, &"0123456789abcdef"[digit], 1);
    }
}

/*
 * Writes an IPv6 address as in RFC 5952: in lower case, without leading zeros, and with "::" in place of the first
 * longest run of at least two zero groups.
 */
static void add_v6(struct pccl_text *text, const uint8_t *ip)
{
    uint32_t run = 8, run_length = 1;
    for (uint32_t i = 0; i < 8; i++) {
        uint32_t length = 0;
        while (i + length < 8 && group_of(ip, i + length) == 0)
            length++;
        if (length > run_length) {
            run = i;
            run_length = length;
        }
    }
    for (uint32_t i = 0; i < 8; i++) {
        if (i == run) {
            pccl_text_add(text, "::");
            i += run_length - 1;
            continue;
        }
        if (i > 0 && i != run + run_length)
            pccl_text_add(text, ":");
        add_hex(text, group_of(ip, i));
    }
}

const char *pccl_address_text(const struct pccl_address *address, struct pccl_text *text)
{
    const uint8_t *ip = address->ip;
    if (pccl_address_is_v4(address)) {
        pccl_text_format(text, "%u.%u.%u.%u:%u", ip[12], ip[13], ip[14], ip[15], address->port);
    } else {
        pccl_text_format(text, "[");
        add_v6(text, ip);
        pccl_text_append(text, "]:%u", address->port);
    }
    return text->bytes;
}

/* Parses decimal numbers. Rejects leading zeros, because some systems read such numbers as octal. */
static bool parse_v4(const char *text, size_t length, uint8_t *bytes)
{
    size_t at = 0;
    for (int i = 0; i < 4; i++) {
        if (i > 0 && (at >= length || text[at++] != '.'))
            return false;
        uint32_t value = 0;
        size_t digits = 0;
        for (; at < length && text[at] >= '0' && text[at] <= '9' && digits < 4; at++, digits++)
            value = value * 10 + (uint32_t)(text[at] - '0');
        if (digits == 0 || digits > 3 || value > 255 || (digits > 1 && text[at - digits] == '0'))
            return false;
        bytes[i] = (uint8_t)value;
    }
    return at == length;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/*
 * Parses groups "a:b:c", whose last two may be an IPv4 address, into at most `room` bytes. Returns the number of bytes
 * written, or -1 if the text is malformed. An empty text has zero groups.
 */
static int parse_groups(const char *text, size_t length, uint8_t *bytes, int room)
{
    int written = 0;
    size_t at = 0;
    while (at < length) {
        if (written > 0 && text[at++] != ':')
            return -1;
        uint32_t value = 0;
        size_t digits = 0;
        while (at + digits < length && digits < 5 && hex_digit(text[at + digits]) >= 0)
            value = value << 4 | (uint32_t)hex_digit(text[at + digits++]);
        if (at + digits < length && text[at + digits] == '.')
            return written + 4 <= room && parse_v4(text + at, length - at, bytes + written) ? written + 4 : -1;
        if (digits == 0 || digits > 4 || written + 2 > room)
            return -1;
        bytes[written++] = (uint8_t)(value >> 8);
        bytes[written++] = (uint8_t)value;
        at += digits;
    }
    return written;
}

static bool parse_v6(const char *text, size_t length, uint8_t *ip)
{
    size_t gap = 0;
    while (gap + 1 < length && !(text[gap] == ':' && text[gap + 1] == ':'))
        gap++;
    if (gap + 1 >= length)
        return parse_groups(text, length, ip, 16) == 16;
    uint8_t head[16], tail[16];
    int head_bytes = parse_groups(text, gap, head, 14);
    int tail_bytes = parse_groups(text + gap + 2, length - gap - 2, tail, 14);
    bool v4_before_gap = memchr(text, '.', gap) != NULL;
    if (head_bytes < 0 || tail_bytes < 0 || v4_before_gap || head_bytes + tail_bytes > 14)
        return false;
    memset(ip, 0, 16);
    memcpy(ip, head, (size_t)head_bytes);
    memcpy(ip + 16 - tail_bytes, tail, (size_t)tail_bytes);
    return true;
}

bool pccl_address_parse_ip(const char *text, size_t length, struct pccl_address *address)
{
    struct pccl_address parsed = pccl_address_v4(0, 0, 0, 0, 0);
    if (!parse_v4(text, length, parsed.ip + 12) && !parse_v6(text, length, parsed.ip))
        return false;
    *address = parsed;
    return true;
}

/*
 * IP addresses with a port, as text and as 16 bytes (IPv4 is mapped to ::ffff:a.b.c.d). This file only parses; src/net
 * resolves names.
 */
#ifndef PCCL_CORE_ADDRESS_H
#define PCCL_CORE_ADDRESS_H

#include "core/base.h"
#include "core/hash.h"
#include "core/text.h"

struct pccl_address {
    uint8_t ip[16]; /* network order */
    uint16_t port;  /* host order */
    uint32_t zone;  /* interface of a link-local address; 0: none. Meaningful only on this host: not sent or compared */
};

bool pccl_address_is_v4(const struct pccl_address *address);
bool pccl_address_is_loopback(const struct pccl_address *address);
/* Returns true if only hosts of the same network can use the address: private, shared (100.64/10), link-local,
 * loopback. */
bool pccl_address_is_private(const struct pccl_address *address);
bool pccl_address_is_unspecified(const struct pccl_address *address);
/*
 * Returns true if both addresses may belong to one host: they are equal IPv4 addresses, or in the same IPv6 /64
 * network, which one host can own.
 */
bool pccl_address_same_site(const struct pccl_address *a, const struct pccl_address *b);
/* Hashes the IPv4 address or the IPv6 /64 network. */
uint64_t pccl_address_site(const struct pccl_hash_key *key, const struct pccl_address *address);
bool pccl_address_equal(const struct pccl_address *a, const struct pccl_address *b);
struct pccl_address pccl_address_v4(uint8_t a, uint8_t b, uint8_t c, uint8_t d, uint16_t port);
/* Formats "1.2.3.4:5" or "[::1]:5". The string returned by pccl_address_str is valid until the enclosing block ends. */
const char *pccl_address_text(const struct pccl_address *address, struct pccl_text *text);
#define pccl_address_str(address) pccl_address_text(address, &(struct pccl_text){.length = 0})
/*
 * Parses a numeric IP address without a port or zone ("10.0.0.1", "fe80::1"). Sets the port to 0. Returns false if the
 * text is not an address.
 */
PCCL_MUST_CHECK bool pccl_address_parse_ip(const char *text, size_t length, struct pccl_address *address);

#endif

/*
 * A client's knock in front of its TLS greeting: a MAC of 16 bytes that is computed from the greeting with a key. A
 * client without the key gets a fixed refusal, and OpenSSL sees none of its bytes. The key of a control connection is
 * derived from the pin, which all tokens of a master share; the key of a link is derived from its ticket. A master with
 * certificates has no pin and requires no knock.
 *
 * The greeting contains 32 random bytes, so a knock is valid for one greeting only. An eavesdropper can replay both,
 * which begins one handshake that fails.
 */
#ifndef PCCL_NET_KNOCK_H
#define PCCL_NET_KNOCK_H

#include "net/keys.h"

enum {
    PCCL_KNOCK_MAC_BYTES = 16,
    PCCL_KNOCK_MAX = 4 + PCCL_KNOCK_MAC_BYTES + PCCL_KEY_NAME_BYTES, /* largest knock */
    PCCL_GREETING_MAX = 5 + 4096,                                    /* largest greeting, which is one TLS record */
    PCCL_ALERT_BYTES = 7,
};

/* Returns true if bytes that should not be encrypted begin an encrypted connection: a knock or a TLS greeting. */
bool pccl_knock_is_secure(const uint8_t *bytes, size_t length);

/* Returns the number of bytes of a knock. */
size_t pccl_knock_bytes(bool of_link);
/*
 * Writes the knock in front of the greeting. The first bytes of `bytes` have room for the knock, the greeting follows,
 * and `length` covers both. link: NULL for a control connection. Returns false if there is no key, or if out of memory.
 */
PCCL_MUST_CHECK bool pccl_knock_write(const struct pccl_keys *keys, const struct pccl_link_key *link, uint8_t *bytes,
                                      size_t length);

enum pccl_knock {
    PCCL_KNOCK_EARLY,   /* more bytes are needed */
    PCCL_KNOCK_GOOD,    /* a handshake may begin */
    PCCL_KNOCK_PLAIN,   /* no encryption */
    PCCL_KNOCK_MISSING, /* a TLS greeting without a knock */
    PCCL_KNOCK_WRONG,   /* made with another key, of the other kind, or not followed by a greeting */
};

/*
 * Judges the first bytes of a connection. *bytes_out: with EARLY, the number of bytes that are needed; with GOOD, the
 * length of the knock, which OpenSSL must not see. For a link, calls the function of pccl_keys_set_tickets.
 */
enum pccl_knock pccl_knock_judge(const struct pccl_keys *keys, bool of_link, const uint8_t *bytes, size_t length,
                                 size_t *bytes_out);

/* The answer to a TLS client with a missing or wrong knock: the alert access_denied. */
extern const uint8_t pccl_knock_alert[PCCL_ALERT_BYTES];

#endif

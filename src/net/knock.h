/*
 * The knock that a client sends before its TLS greeting: a 16-byte MAC over the greeting. A client without the key gets
 * a fixed refusal, and OpenSSL sees none of its bytes. For a control connection, the key is derived from the pin that
 * all tokens of a master share; for a link, from its ticket. A master with certificates has no pin and requires no
 * knock.
 *
 * The greeting contains 32 random bytes, so a knock is valid for one greeting only. An eavesdropper can replay both,
 * but this only starts a handshake that fails.
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

/*
 * Returns true if the bytes begin an encrypted connection, with a knock or a TLS greeting. For use where no encryption
 * is expected.
 */
bool pccl_knock_is_secure(const uint8_t *bytes, size_t length);

/* Returns the length of a knock in bytes. */
size_t pccl_knock_bytes(bool of_link);
/*
 * Writes the knock before a greeting. `bytes` has room for the knock, followed by the greeting; `length` covers both.
 * link: NULL for a control connection. Returns false if there is no key, or if out of memory.
 */
PCCL_MUST_CHECK bool pccl_knock_write(const struct pccl_keys *keys, const struct pccl_link_key *link, uint8_t *bytes,
                                      size_t length);

enum pccl_knock {
    PCCL_KNOCK_EARLY,   /* more bytes are needed */
    PCCL_KNOCK_GOOD,    /* a handshake may begin */
    PCCL_KNOCK_PLAIN,   /* the client does not encrypt */
    PCCL_KNOCK_MISSING, /* a TLS greeting without a knock */
    PCCL_KNOCK_WRONG,   /* made with another key, of the wrong kind, or not followed by a greeting */
};

/*
 * Judges the first bytes of a connection. Sets *bytes_out to the number of bytes needed (EARLY), or to the length of
 * the knock (GOOD), which must not be passed to OpenSSL. For a link, calls the function set by pccl_keys_set_tickets.
 */
enum pccl_knock pccl_knock_judge(const struct pccl_keys *keys, bool of_link, const uint8_t *bytes, size_t length,
                                 size_t *bytes_out);

/* The answer to a TLS client with a missing or wrong knock: an access_denied alert. */
extern const uint8_t pccl_knock_alert[PCCL_ALERT_BYTES];

#endif

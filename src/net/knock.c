#include "net/knock.h"

#include <string.h>

enum {
    KIND_BYTES = 4,
    HEAD_BYTES = KIND_BYTES + PCCL_KNOCK_MAC_BYTES,
    RECORD_HEAD_BYTES = 5, /* header of a TLS record, whose last two bytes are the length */
    HANDSHAKE = 22,        /* type of a TLS record with a handshake message */
};

static const uint8_t kinds[2][KIND_BYTES] = {{'p', 'c', 'k', 'c'}, {'p', 'c', 'k', 'l'}};

const uint8_t pccl_knock_alert[PCCL_ALERT_BYTES] = {21, 3, 3, 0, 2, 2, 49};

/*
 * Returns true for a knock. Interpreted as a frame, its first three bytes would be a length above the limit for a first
 * frame.
 */
static bool is_knock(const uint8_t *bytes) { return memcmp(bytes, kinds[0], KIND_BYTES - 1) == 0; }

static bool is_greeting(const uint8_t *bytes)
{
    return bytes[0] == HANDSHAKE && bytes[1] == 3 && bytes[2] >= 1 && bytes[2] <= 4;
}

bool pccl_knock_is_secure(const uint8_t *bytes, size_t length)
{
    return length >= 3 && (is_knock(bytes) || is_greeting(bytes));
}

size_t pccl_knock_bytes(bool of_link) { return HEAD_BYTES + (of_link ? PCCL_KEY_NAME_BYTES : 0); }

/* Computes the MAC over the greeting and, for a link, the name of its key. */
static bool compute(const struct pccl_secret *key, const uint8_t *bytes, size_t length, struct pccl_secret *out)
{
    const struct pccl_openssl *openssl = pccl_openssl(&(struct pccl_text){.length = 0});
    return openssl->HMAC(openssl->EVP_sha256(), key->bytes, (int)sizeof key->bytes, bytes + HEAD_BYTES,
                         length - HEAD_BYTES, out->bytes, NULL);
}

bool pccl_knock_write(const struct pccl_keys *keys, const struct pccl_link_key *link, uint8_t *bytes, size_t length)
{
    struct pccl_secret key, code;
    memcpy(bytes, kinds[link != NULL], KIND_BYTES);
    if (link)
        memcpy(bytes + HEAD_BYTES, link->identity, sizeof link->identity);
    bool good = pccl_keys_of_knock(keys, link ? link->identity : NULL, link ? &link->ticket : NULL, &key) &&
                compute(&key, bytes, length, &code);
    if (good)
        memcpy(bytes + KIND_BYTES, code.bytes, PCCL_KNOCK_MAC_BYTES);
    pccl_wipe(&key, sizeof key);
    return good;
}

static bool fits(const struct pccl_keys *keys, bool of_link, const uint8_t *bytes, size_t length)
{
    struct pccl_secret key, code;
    bool good = pccl_keys_of_knock(keys, of_link ? bytes + HEAD_BYTES : NULL, NULL, &key) &&
                compute(&key, bytes, length, &code) &&
                pccl_openssl(&(struct pccl_text){.length = 0})
                        ->CRYPTO_memcmp(bytes + KIND_BYTES, code.bytes, PCCL_KNOCK_MAC_BYTES) == 0;
    pccl_wipe(&key, sizeof key);
    pccl_wipe(&code, sizeof code);
    return good;
}

enum pccl_knock pccl_knock_judge(const struct pccl_keys *keys, bool of_link, const uint8_t *bytes, size_t length,
                                 size_t *bytes_out)
{
    *bytes_out = KIND_BYTES;
    if (length < KIND_BYTES)
        return PCCL_KNOCK_EARLY;
    if (!pccl_knock_is_secure(bytes, length))
        return PCCL_KNOCK_PLAIN;
    bool knocks = is_knock(bytes);
    if (!knocks && (of_link || !pccl_keys_has_files(keys)))
        return PCCL_KNOCK_MISSING;
    if (knocks && memcmp(bytes, kinds[of_link], KIND_BYTES) != 0)
        return PCCL_KNOCK_WRONG;
    size_t knock = knocks ? pccl_knock_bytes(of_link) : 0;
    *bytes_out = knock + RECORD_HEAD_BYTES;
    if (length < *bytes_out)
        return PCCL_KNOCK_EARLY;
    const uint8_t *greeting = bytes + knock;
    *bytes_out += (size_t)greeting[RECORD_HEAD_BYTES - 2] << 8 | greeting[RECORD_HEAD_BYTES - 1];
    if (!is_greeting(greeting) || *bytes_out > knock + PCCL_GREETING_MAX)
        return PCCL_KNOCK_WRONG;
    if (length < *bytes_out)
        return PCCL_KNOCK_EARLY;
    if (knocks && !fits(keys, of_link, bytes, *bytes_out))
        return PCCL_KNOCK_WRONG;
    *bytes_out = knock;
    return PCCL_KNOCK_GOOD;
}

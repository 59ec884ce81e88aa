#include "net/renewal.h"

#include <string.h>

bool pccl_renewal_begin(struct pccl_renewal *renewal, const struct pccl_openssl *openssl)
{
    size_t length = sizeof renewal->public;
    renewal->openssl = openssl;
    renewal->own = openssl->EVP_PKEY_Q_keygen(NULL, NULL, "X25519"); /* the private key is in the secure heap */
    return renewal->own && openssl->EVP_PKEY_get_raw_public_key(renewal->own, renewal->public, &length) == 1;
}

/*
 * Computes the shared secret. Returns false if out of memory, or with a reason if `other` is a point of small order,
 * which would make the result predictable.
 */
static bool exchange(const struct pccl_renewal *renewal, struct evp_pkey_st *other, uint8_t *shared,
                     struct pccl_text *reason)
{
    const struct pccl_openssl *openssl = renewal->openssl;
    size_t length = PCCL_RECORD_KEY_BYTES;
    struct evp_pkey_ctx_st *context = openssl->EVP_PKEY_CTX_new(renewal->own, NULL);
    bool ready = context && other && openssl->EVP_PKEY_derive_init(context) == 1 &&
                 openssl->EVP_PKEY_derive_set_peer(context, other) == 1;
    bool good = ready && openssl->EVP_PKEY_derive(context, shared, &length) == 1 && length == PCCL_RECORD_KEY_BYTES;
    if (ready && !good)
        pccl_text_format(reason, "key renewal: invalid public key from the other side");
    openssl->EVP_PKEY_CTX_free(context);
    return good;
}

/*
 * Computes `mixed` from the other end's public key. Returns false if out of memory, or with a reason if the key is
 * invalid.
 */
static bool agree(struct pccl_renewal *renewal, const uint8_t *other, bool is_client, struct pccl_text *reason)
{
    static const char label[] = "pccl record exchange 1";
    enum { EACH = PCCL_RECORD_KEY_BYTES };
    const struct pccl_openssl *openssl = renewal->openssl;
    uint8_t input[3 * EACH];
    struct evp_pkey_st *key = openssl->EVP_PKEY_new_raw_public_key(PCCL_EVP_PKEY_X25519, NULL, other, EACH);
    memcpy(input, is_client ? renewal->public : other, EACH);
    memcpy(input + EACH, is_client ? other : renewal->public, EACH);
    renewal->is_agreed =
        exchange(renewal, key, input + 2 * EACH, reason) &&
        openssl->HMAC(openssl->EVP_sha256(), label, (int)sizeof label, input, sizeof input, renewal->mixed.bytes, NULL);
    pccl_wipe(input, sizeof input);
    openssl->EVP_PKEY_free(key);
    openssl->EVP_PKEY_free(renewal->own);
    renewal->own = NULL;
    return renewal->is_agreed;
}

void pccl_renewal_end(struct pccl_renewal *renewal)
{
    if (renewal->own)
        renewal->openssl->EVP_PKEY_free(renewal->own);
    pccl_wipe(renewal, sizeof *renewal);
}

static bool is_in_turn(const struct pccl_renewal *renewal, bool is_key, bool is_client)
{
    return is_client ? is_key && renewal->own : is_key != renewal->is_agreed;
}

bool pccl_renewal_take(struct pccl_renewal *renewal, const struct pccl_record_reader *reader,
                       struct pccl_record_line *in, bool is_client, enum pccl_record_kind *reply,
                       struct pccl_text *reason)
{
    bool is_key = reader->met == PCCL_RECORD_KEY, good = true;
    if (!is_in_turn(renewal, is_key, is_client)) {
        pccl_text_format(reason, "key renewal: unexpected record from the other side");
        return false;
    }
    if (is_key)
        good =
            (is_client || pccl_renewal_begin(renewal, in->openssl)) && agree(renewal, reader->key, is_client, reason);
    if (good && is_client == is_key) /* otherwise this direction changes its key at NEXT */
        good = pccl_record_mix(in, &renewal->mixed);
    if (!is_key)
        pccl_renewal_end(renewal);
    *reply = !is_key ? PCCL_RECORD_NONE : is_client ? PCCL_RECORD_NEXT : PCCL_RECORD_KEY;
    return good;
}

bool pccl_renewal_replied(struct pccl_renewal *renewal, struct pccl_record_line *out, bool is_client)
{
    bool good = pccl_record_mix(out, &renewal->mixed);
    if (is_client)
        pccl_renewal_end(renewal);
    return good;
}

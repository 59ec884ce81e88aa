#include "core/ticket.h"

#include "core/siphash.h"

struct pccl_id pccl_ticket(const struct pccl_id *key, const struct pccl_id *from, const struct pccl_id *to)
{
    const struct pccl_id way[2] = {*from, *to};
    struct pccl_id ticket;
    _Static_assert(sizeof key->bytes == PCCL_SIPHASH_KEY_BYTES && sizeof ticket.bytes == PCCL_SIPHASH_BYTES, "as ids");
    pccl_siphash(key->bytes, way, sizeof way, ticket.bytes);
    return ticket;
}

struct pccl_id pccl_secret_digest(const struct pccl_id *secret)
{
    static const char what[] = "the digest of a secret";
    struct pccl_id digest;
    pccl_siphash(secret->bytes, what, sizeof what, digest.bytes);
    return digest;
}

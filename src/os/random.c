#include "os/random.h"

#include <uv.h>

bool pccl_random_bytes(void *bytes, size_t count) { return uv_random(NULL, NULL, bytes, count, 0, NULL) == 0; }

bool pccl_random_id(struct pccl_id *id)
{
    do {
        if (!pccl_random_bytes(id->bytes, sizeof id->bytes))
            return false;
    } while (pccl_id_is_zero(id));
    return true;
}

bool pccl_random_u64(uint64_t *number)
{
    do {
        if (!pccl_random_bytes(number, sizeof *number))
            return false;
    } while (*number == 0);
    return true;
}

#include "drive/random.h"

#include <uv.h>

bool pccl_random_id(struct pccl_id *id)
{
    do {
        if (uv_random(NULL, NULL, id->bytes, sizeof id->bytes, 0, NULL) != 0)
            return false;
    } while (pccl_id_is_zero(id));
    return true;
}

bool pccl_random_u64(uint64_t *number)
{
    do {
        if (uv_random(NULL, NULL, number, sizeof *number, 0, NULL) != 0)
            return false;
    } while (*number == 0);
    return true;
}

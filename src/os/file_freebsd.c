#include "os/file.h"

int pccl_file_exchange(const char *one, const char *other)
{
    (void)one;
    (void)other;
    return UV_ENOSYS;
}

#include "os/file.h"

#include <errno.h>
#include <stdio.h>

int pccl_file_exchange(const char *one, const char *other)
{
    return renamex_np(one, other, RENAME_SWAP) == 0 ? 0 : uv_translate_sys_error(errno);
}

#include "os/file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* RENAME_EXCHANGE of linux/fs.h. glibc before 2.28 and musl have no renameat2. */
enum { EXCHANGE = 1 << 1 };

int pccl_file_exchange(const char *one, const char *other)
{
    return syscall(SYS_renameat2, AT_FDCWD, one, AT_FDCWD, other, EXCHANGE) == 0 ? 0 : uv_translate_sys_error(errno);
}

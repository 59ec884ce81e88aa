#include "drive/text_file.h"

#include "os/file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static bool write_all(const char *name, const char *text, size_t length)
{
    (void)remove(name);
    FILE *file = pccl_file_create(name);
    if (!file)
        return false;
    bool good = fwrite(text, 1, length, file) == length;
    int error = errno;
    if (fclose(file) == 0)
        errno = error;
    else
        good = false;
    return good;
}

enum pccl_status pccl_text_file_write(const char *name, const char *text, size_t length, struct pccl_text *reason)
{
    char new_name[PCCL_TEXT_FILE_NAME_MAX + 8];
    int bytes = snprintf(new_name, sizeof new_name, "%s.tmp", name);
    int error = ENAMETOOLONG;
    if (bytes > 0 && (size_t)bytes < sizeof new_name) {
        if (write_all(new_name, text, length) && pccl_file_rename(new_name, name))
            return PCCL_OK;
        error = errno;
        (void)remove(new_name);
    }
    return pccl_fail(reason, PCCL_SYSTEM, "cannot write %s: %s", name, strerror(error));
}

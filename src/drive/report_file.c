#include "drive/report_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { NAME_BYTES_MAX = 1100 };

static bool write_all(const char *name, const char *text, size_t length)
{
    (void)remove(name);
    FILE *file = fopen(name, "wx"); /* a new file: in a shared directory others could have placed a symbolic link */
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

/* Whether the group has a file, which it gets while there are few enough. */
static bool is_listed(struct pccl_report_files *files, uint32_t group)
{
    for (uint32_t i = 0; i < files->count; i++)
        if (files->groups[i] == group)
            return true;
    if (group != 0 && files->count == PCCL_REPORT_FILES_MAX)
        return false;
    if (group != 0)
        files->groups[files->count++] = group;
    return true;
}

enum pccl_status pccl_report_file_write(struct pccl_report_files *files, uint32_t group, const char *text,
                                        size_t length, struct pccl_text *reason)
{
    if (!is_listed(files, group)) {
        if (files->told)
            return PCCL_OK;
        files->told = true;
        pccl_text_format(reason, "topology_file: no file for group %u and further groups: %u groups have one", group,
                         files->count);
        return PCCL_LIMIT;
    }
    const char *path = files->path;
    char name[NAME_BYTES_MAX], new_name[NAME_BYTES_MAX];
    int bytes = group == 0 ? snprintf(name, sizeof name, "%s", path)
                           : snprintf(name, sizeof name, "%s.%lu", path, (unsigned long)group);
    int new_bytes = snprintf(new_name, sizeof new_name, "%s.tmp", name);
    PCCL_ASSERT(bytes > 0 && new_bytes > 0 && (size_t)new_bytes < sizeof new_name);
    if (write_all(new_name, text, length) && rename(new_name, name) == 0)
        return PCCL_OK;
    int error = errno;
    (void)remove(new_name);
    pccl_text_format(reason, "cannot write %s: %s", name, strerror(error));
    return PCCL_SYSTEM;
}

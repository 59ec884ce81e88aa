#include "drive/report_file.h"

#include "drive/text_file.h"

#include <stdio.h>

/* Returns true if the group has a file. Adds the group if the limit permits. */
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
        return pccl_fail(reason, PCCL_LIMIT,
                         "topology_file: no file for group %u and later groups: the limit is %u files", group,
                         files->count);
    }
    const char *path = files->path;
    char name[PCCL_TEXT_FILE_NAME_MAX];
    int bytes = group == 0 ? snprintf(name, sizeof name, "%s", path)
                           : snprintf(name, sizeof name, "%s.%lu", path, (unsigned long)group);
    PCCL_ASSERT(bytes > 0 && (size_t)bytes < sizeof name);
    return pccl_text_file_write(name, text, length, reason);
}

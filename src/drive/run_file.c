#include "drive/run_file.h"
#include "os/secret_file.h"

#include "log/logger.h"

#include <stdio.h>
#include <string.h>

enum { LINEAGE_TEXT = 2 * sizeof(struct pccl_id), RETRY_US = 1000000 };

static void write_lineage(const struct pccl_id *lineage, char line[LINEAGE_TEXT + 2])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < sizeof lineage->bytes; i++) {
        line[2 * i] = digits[lineage->bytes[i] >> 4];
        line[2 * i + 1] = digits[lineage->bytes[i] & 15];
    }
    memcpy(line + LINEAGE_TEXT, "\n", 2);
}

enum pccl_status pccl_run_file_open(struct pccl_run_file *file, const char *directory, bool *exists,
                                    struct pccl_text *reason)
{
    char line[LINEAGE_TEXT + 2];
    size_t length;
    enum pccl_status status = pccl_secret_directory(directory, reason);
    if (status != PCCL_OK)
        return status;
    *file = (struct pccl_run_file){.retry_us = 0};
    (void)snprintf(file->path, sizeof file->path, "%s/run", directory);
    status = pccl_secret_file_read(file->path, false, line, sizeof line - 1, &length, reason);
    *exists = status != PCCL_OK || length > 0;
    if (status != PCCL_OK) {
        pccl_logger_print(PCCL_LOG_WARN, "master", "assuming that a run is active: %s", reason->bytes);
    } else if (*exists) {
        line[8] = '\0';
        pccl_logger_print(PCCL_LOG_INFO, "master", "run %s was active when the previous master ended", line);
    }
    return PCCL_OK;
}

static void write_or_remove(struct pccl_run_file *file, uint64_t now_us)
{
    char line[LINEAGE_TEXT + 2];
    struct pccl_text reason;
    bool lives = !pccl_id_is_zero(&file->lineage);
    enum pccl_status status;
    if (lives) {
        write_lineage(&file->lineage, line);
        status = pccl_secret_file_replace(file->path, line, LINEAGE_TEXT + 1, &reason);
    } else {
        status = pccl_secret_file_remove(file->path, &reason);
    }
    file->retry_us = status == PCCL_OK ? 0 : now_us + RETRY_US;
    if (status != PCCL_OK && !file->told)
        pccl_logger_print(
            PCCL_LOG_ERROR, "master", "%s: %s",
            lives ? "after a restart of the master, newcomers may wait only found_after_ms instead of recover_ms for "
                    "this run's members"
                  : "after a restart of the master, newcomers wait recover_ms for a run that has already ended",
            reason.bytes);
    file->told = status != PCCL_OK;
}

void pccl_run_file_note(struct pccl_run_file *file, const struct pccl_id *lineage, uint64_t now_us)
{
    file->lineage = lineage ? *lineage : (struct pccl_id){{0}};
    write_or_remove(file, now_us);
}

void pccl_run_file_retry(struct pccl_run_file *file, uint64_t now_us)
{
    if (file->retry_us != 0 && now_us >= file->retry_us)
        write_or_remove(file, now_us);
}

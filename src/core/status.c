#include "core/status.h"

struct row {
    const char *name, *text;
    enum pccl_lost lost;
};

static const struct row rows[PCCL_STATUS_COUNT] = {
#define ROW(name, lost, text) [PCCL_##name] = {#name, text, PCCL_LOST_##lost},
    PCCL_STATUS_MAP(ROW)
#undef ROW
};

/*
 * Returns the row of a status. Users can pass any number through the public interface, so an unknown status must not
 * fail an assertion.
 */
static const struct row *row_of(enum pccl_status status)
{
    return (unsigned)status < PCCL_STATUS_COUNT ? &rows[status] : &rows[PCCL_INTERNAL];
}

const char *pccl_status_name(enum pccl_status status) { return row_of(status)->name; }

const char *pccl_status_text(enum pccl_status status) { return row_of(status)->text; }

enum pccl_lost pccl_status_lost(enum pccl_status status) { return row_of(status)->lost; }

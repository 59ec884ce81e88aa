/* The shares of the members' time (master/goodput.h), as JSON and as text. */
#ifndef PCCL_OPS_SHARES_H
#define PCCL_OPS_SHARES_H

#include "core/text.h"
#include "master/figures.h"
#include "ops/json.h"

/* Writes shares in percent as an array, or null if there is no time. */
void pccl_shares_put(struct pccl_json *json, const char *key, const uint64_t times_us[PCCL_TIME_USES]);
/* Writes the sums of the run. */
void pccl_shares_put_run(struct pccl_json *json, const struct pccl_figures *figures);
/*
 * Appends shares, for example "83 % computing, 9 % waiting (most for peer 1a2b3c4d), 8 % moving data". The time must
 * not be 0. `delayed_by` is empty if no member is known.
 */
void pccl_shares_add(struct pccl_text *text, const uint64_t times_us[PCCL_TIME_USES],
                     const struct pccl_text *delayed_by);

#endif

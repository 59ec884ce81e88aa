/* Parameter values that the user has set (pcclOptions_t). Must be used by one thread at a time. */
#ifndef PCCL_CONFIG_OPTIONS_H
#define PCCL_CONFIG_OPTIONS_H

#include "core/status.h"
#include "core/text.h"
#include "config/params.h"
#include "pccl.h"

/* Returns NULL if out of memory. */
pcclOptions_t *pccl_options_create(void);
void pccl_options_destroy(pcclOptions_t *options);
/* Sets a value; NULL removes it. On failure nothing changes: returns MEMORY, or ARGUMENT with a reason. */
PCCL_MUST_CHECK enum pccl_status pccl_options_set(pcclOptions_t *options, const char *name, const char *value,
                                                  struct pccl_text *reason);
/*
 * Copies the effective value. `options` may be NULL. Returns ARGUMENT with a reason if the name is unknown or the
 * buffer is too short.
 */
PCCL_MUST_CHECK enum pccl_status pccl_options_get(const pcclOptions_t *options, const char *name, char *buffer,
                                                  size_t size, struct pccl_text *reason);

#endif

#include "core/base.h"

#include <stdatomic.h>

/* Handler of broken invariants. This is the only mutable state of the pure modules. */
static _Atomic(pccl_assert_handler) installed_handler;

void pccl_set_assert_handler(pccl_assert_handler handler) { atomic_store(&installed_handler, handler); }

void pccl_assert_failed(const char *file, int line, const char *expression)
{
    pccl_assert_handler handler = atomic_load(&installed_handler);
    if (handler != NULL)
        handler(file, line, expression);
    __builtin_trap(); /* without a handler, or if the handler has returned, which is not allowed */
}

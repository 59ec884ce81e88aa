/*
 * Attributes, the assertion handler, and small helpers for all files. Uses no libc functions except mem*, so pure code
 * can include it.
 */
#ifndef PCCL_CORE_BASE_H
#define PCCL_CORE_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define PCCL_MUST_CHECK __attribute__((warn_unused_result))
#define PCCL_NORETURN __attribute__((noreturn))
/*
 * Makes compilers check the arguments like printf's. `string` is the number of the format parameter, `first` the number
 * of the first argument (0 for a va_list).
 */
#define PCCL_PRINTF(string, first) __attribute__((format(printf, string, first)))
#else
#define PCCL_MUST_CHECK
#define PCCL_NORETURN
#define PCCL_PRINTF(string, first)
#endif

#define PCCL_COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define PCCL_CONTAINER_OF(pointer, type, member) ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

/*
 * Asserts an invariant of the library's own code. Never use it on input from peers, callers or the system. The driver
 * installs the handler, which must not return; tests abort, and the library gives up the communicator.
 */
typedef void (*pccl_assert_handler)(const char *file, int line, const char *expression);
void pccl_set_assert_handler(pccl_assert_handler handler);
PCCL_NORETURN void pccl_assert_failed(const char *file, int line, const char *expression);
#define PCCL_ASSERT(expression) ((expression) ? (void)0 : pccl_assert_failed(__FILE__, __LINE__, #expression))

static inline uint32_t pccl_max_u32(uint32_t a, uint32_t b) { return a > b ? a : b; }
static inline uint64_t pccl_max_u64(uint64_t a, uint64_t b) { return a > b ? a : b; }
static inline uint64_t pccl_min_u64(uint64_t a, uint64_t b) { return a < b ? a : b; }
/* Returns the sum, or UINT64_MAX if it overflows. */
static inline uint64_t pccl_sum_u64(uint64_t a, uint64_t b) { return b > UINT64_MAX - a ? UINT64_MAX : a + b; }
static inline uint64_t pccl_divide_up(uint64_t value, uint64_t by) { return value / by + (value % by != 0); }
static inline uint64_t pccl_round_up(uint64_t value, uint64_t step) { return pccl_divide_up(value, step) * step; }

#endif

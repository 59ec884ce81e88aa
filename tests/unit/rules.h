/* How the rules of a state are tested (core/rule.h): each is broken by changing one field. */
#ifndef PCCL_TESTS_RULES_H
#define PCCL_TESTS_RULES_H

/* A field that is changed, and what is said of it. */
#define BREAKS(check, machine, field, value, reason)                                                                   \
    do {                                                                                                               \
        __typeof__(field) was = (field);                                                                               \
        (field) = (value);                                                                                             \
        const char *broken = check(machine);                                                                           \
        assert_non_null(broken);                                                                                       \
        assert_string_equal(broken, reason);                                                                           \
        (field) = was;                                                                                                 \
        assert_null(check(machine));                                                                                   \
    } while (0)

#endif

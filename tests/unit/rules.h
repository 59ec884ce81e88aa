/* Tests the rules of a state (core/rule.h): each rule is broken by changing one field. */
#ifndef PCCL_TESTS_RULES_H
#define PCCL_TESTS_RULES_H

/* Changes a field and checks the reason that the rules report. */
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

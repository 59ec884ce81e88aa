#include "unit.h"

#include <stdio.h>
#include <stdlib.h>

enum { TESTS_MAX = 128, GROUPS_MAX = 16 };

static struct CMUnitTest tests[TESTS_MAX];
static size_t test_count;

static struct group {
    CMFixtureFunction setup, teardown;
    size_t first; /* index of its first test */
} groups[GROUPS_MAX + 1];
static size_t group_count = 1; /* the first one has the tests without a GROUP */

void unit_add(const struct CMUnitTest *test)
{
    if (test_count == TESTS_MAX) {
        (void)fprintf(stderr, "%s: one test too many\n", test->name);
        abort();
    }
    tests[test_count++] = *test;
}

void unit_begin_group(CMFixtureFunction setup, CMFixtureFunction teardown)
{
    if (group_count == GROUPS_MAX)
        abort();
    groups[group_count++] = (struct group){setup, teardown, test_count};
}

int unit_run(CMFixtureFunction setup, CMFixtureFunction teardown)
{
    int failed = 0;
    groups[0] = (struct group){setup, teardown, 0};
    groups[group_count].first = test_count;
    for (struct group *group = groups; group < groups + group_count; group++)
        if (group[1].first > group->first)
            failed += _cmocka_run_group_tests("tests", tests + group->first, group[1].first - group->first,
                                              group->setup, group->teardown);
    return failed;
}

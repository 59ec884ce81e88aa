#include "unit.h"

#include <stdio.h>
#include <stdlib.h>

enum { TESTS_MAX = 128 };

static struct CMUnitTest tests[TESTS_MAX];
static size_t test_count;

void unit_add(const struct CMUnitTest *test)
{
    if (test_count == TESTS_MAX) {
        (void)fprintf(stderr, "%s: one test too many\n", test->name);
        abort();
    }
    tests[test_count++] = *test;
}

int unit_run(CMFixtureFunction setup, CMFixtureFunction teardown)
{
    return _cmocka_run_group_tests("tests", tests, test_count, setup, teardown);
}

__attribute__((weak)) int main(void) { return unit_run(NULL, NULL); }

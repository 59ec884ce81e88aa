/* The note of a master that a run lives: drive/run_file.h. */
#include "drive/run_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static const struct pccl_id lineage = {{0xab, 0xcd, 1, 2, 3}};

static bool open_file(struct pccl_run_file *file, const char *directory)
{
    struct pccl_text reason;
    bool exists;
    assert_int_equal(pccl_run_file_open(file, directory, &exists, &reason), PCCL_OK);
    return exists;
}

static void test_exists_while_a_run_lives(void **state)
{
    char directory[] = "/tmp/pccl-run-XXXXXX";
    struct pccl_run_file file, next;
    (void)state;
    assert_non_null(mkdtemp(directory));
    assert_false(open_file(&file, directory));
    pccl_run_file_note(&file, &lineage, 1);
    assert_true(open_file(&next, directory));
    pccl_run_file_note(&next, &lineage, 1); /* of the same run, after a restart */
    assert_true(open_file(&file, directory));
    pccl_run_file_note(&file, NULL, 2);
    assert_false(open_file(&next, directory));
    pccl_run_file_note(&next, NULL, 2);
    assert_int_equal(rmdir(directory), 0); /* nothing is left in it */
}

static void test_what_it_holds_does_not_matter(void **state)
{
    char directory[] = "/tmp/pccl-run-XXXXXX", path[64];
    struct pccl_run_file file;
    (void)state;
    assert_non_null(mkdtemp(directory));
    (void)snprintf(path, sizeof path, "%s/run", directory);
    for (int i = 0; i < 2; i++) {
        FILE *damaged = fopen(path, "w");
        assert_non_null(damaged);
        assert_true(fputs(i == 0 ? "" : "\001 no lineage", damaged) >= 0);
        assert_int_equal(fclose(damaged), 0);
        assert_true(open_file(&file, directory));
    }
    pccl_run_file_note(&file, NULL, 1);
    assert_false(open_file(&file, directory));
    assert_int_equal(rmdir(directory), 0);
}

/* Until it can be written it is tried again once a second. */
static void test_cannot_be_written(void **state)
{
    char directory[] = "/tmp/pccl-run-XXXXXX";
    struct pccl_run_file file, next;
    (void)state;
    assert_non_null(mkdtemp(directory));
    assert_false(open_file(&file, directory));
    assert_int_equal(rmdir(directory), 0);
    pccl_run_file_note(&file, &lineage, 5000000);
    assert_int_equal(mkdir(directory, S_IRWXU), 0);
    pccl_run_file_retry(&file, 5999999);
    assert_false(open_file(&next, directory));
    pccl_run_file_retry(&file, 6000000);
    assert_true(open_file(&next, directory));
    pccl_run_file_note(&file, NULL, 7000000);
    assert_int_equal(rmdir(directory), 0);
}

static void test_no_directory_for_it(void **state)
{
    char directory[] = "/tmp/pccl-run-XXXXXX";
    struct pccl_run_file file;
    struct pccl_text reason;
    bool exists;
    (void)state;
    assert_non_null(mkdtemp(directory));
    assert_int_equal(chmod(directory, 0755), 0);
    assert_int_equal(pccl_run_file_open(&file, directory, &exists, &reason), PCCL_SYSTEM);
    assert_non_null(strstr(reason.bytes, directory));
    assert_int_equal(rmdir(directory), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exists_while_a_run_lives),
        cmocka_unit_test(test_what_it_holds_does_not_matter),
        cmocka_unit_test(test_cannot_be_written),
        cmocka_unit_test(test_no_directory_for_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

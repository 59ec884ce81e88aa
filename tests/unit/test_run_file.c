/* The note of a master that a run exists: drive/run_file.h. */
#include "unit.h"
#include "drive/run_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct pccl_id lineage = {{0xab, 0xcd, 1, 2, 3}};

static bool open_file(struct pccl_run_file *file, const char *directory)
{
    struct pccl_text reason;
    bool exists;
    assert_int_equal(pccl_run_file_open(file, directory, &exists, &reason), PCCL_OK);
    return exists;
}

TEST(test_exists_while_a_run_lives)
{
    char directory[] = "/tmp/pccl-run-XXXXXX";
    struct pccl_run_file file, next;
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

TEST(test_what_it_holds_does_not_matter)
{
    char directory[] = "/tmp/pccl-run-XXXXXX", path[64];
    struct pccl_run_file file;
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

/* A write that fails is repeated once a second. */
TEST(test_cannot_be_written)
{
    char directory[] = "/tmp/pccl-run-XXXXXX";
    struct pccl_run_file file, next;
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

TEST(test_no_directory_for_it)
{
    char directory[] = "/tmp/pccl-run-XXXXXX";
    struct pccl_run_file file;
    struct pccl_text reason;
    bool exists;
    assert_non_null(mkdtemp(directory));
    assert_int_equal(chmod(directory, 0755), 0);
    assert_int_equal(pccl_run_file_open(&file, directory, &exists, &reason), PCCL_SYSTEM);
    assert_non_null(strstr(reason.bytes, directory));
    assert_int_equal(rmdir(directory), 0);
}

/* drive/report_file: the number of topology reports on disk is bounded, and symbolic links are not followed. */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "drive/report_file.h"

static char folder[] = "/tmp/pccl-pictures-XXXXXX";

static void name_of(char *name, size_t size, const char *rest)
{
    (void)snprintf(name, size, "%s/links%s", folder, rest);
}

static enum pccl_status write_group(struct pccl_report_files *files, uint32_t group, struct pccl_text *reason)
{
    pccl_text_clear(reason);
    return pccl_report_file_write(files, group, "text\n", 5, reason);
}

TEST(test_links_are_not_followed)
{
    assert_non_null(mkdtemp(folder));
    struct pccl_report_files files = {.path = ""};
    name_of(files.path, sizeof files.path, "");
    char victim[200], new_name[200], read[8] = "";
    name_of(victim, sizeof victim, "-others");
    name_of(new_name, sizeof new_name, ".tmp");
    FILE *file = fopen(victim, "w");
    assert_non_null(file);
    assert_int_equal(fputs("mine", file) < 0, 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(symlink(victim, new_name), 0);
    assert_int_equal(symlink(victim, files.path), 0);
    struct pccl_text reason;
    assert_int_equal(write_group(&files, 0, &reason), PCCL_OK);
    file = fopen(victim, "r");
    assert_non_null(file);
    assert_non_null(fgets(read, sizeof read, file));
    assert_int_equal(fclose(file), 0);
    assert_string_equal(read, "mine");
    assert_int_equal(remove(victim), 0);
    assert_int_equal(remove(files.path), 0);
}

/* Untrusted peers may choose any number of groups. */
TEST(test_the_number_of_files_is_bounded)
{
    struct pccl_report_files files = {.path = ""};
    name_of(files.path, sizeof files.path, "");
    struct pccl_text reason;
    for (uint32_t i = 0; i < PCCL_REPORT_FILES_MAX; i++)
        assert_int_equal(write_group(&files, UINT32_MAX - i, &reason), PCCL_OK);
    assert_int_equal(write_group(&files, 5, &reason), PCCL_LIMIT);
    assert_string_equal(reason.bytes, "topology_file: no file for group 5 and later groups: the limit is 64 files");
    assert_int_equal(write_group(&files, 6, &reason), PCCL_OK); /* reported once */
    assert_int_equal(write_group(&files, UINT32_MAX, &reason), PCCL_OK);
    assert_int_equal(write_group(&files, 0, &reason), PCCL_OK);
    char name[200], rest[20];
    for (uint32_t i = 0; i < PCCL_REPORT_FILES_MAX; i++) {
        (void)snprintf(rest, sizeof rest, ".%lu", (unsigned long)(UINT32_MAX - i));
        name_of(name, sizeof name, rest);
        assert_int_equal(remove(name), 0);
    }
    assert_int_equal(remove(files.path), 0);
    assert_int_equal(rmdir(folder), 0); /* nothing else is there */
}

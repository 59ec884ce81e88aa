/* drive/secret_file: whoever was killed while it wrote a file keeps nobody from writing it again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "drive/secret_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* In a container all masters have the same number, and a file that is half written stays. */
static void test_what_a_killed_process_left_is_in_nobodys_way(void **state)
{
    char folder[] = "/tmp/pccl-secret-XXXXXX", path[100], left[150], text[10];
    struct pccl_text reason;
    size_t length;
    (void)state;
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/tokens", folder);
    (void)snprintf(left, sizeof left, "%s.%d.tmp", path, (int)getpid());
    FILE *file = fopen(left, "w");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(pccl_secret_file_make(path, "first", 5, &reason), PCCL_OK);
    assert_int_equal(pccl_secret_file_make(path, "again", 5, &reason), PCCL_SYSTEM);
    assert_int_equal(pccl_secret_file_replace(path, "second", 6, true, &reason), PCCL_OK);
    assert_int_equal(pccl_secret_file_read(path, true, text, sizeof text - 1, &length, &reason), PCCL_OK);
    assert_string_equal(text, "second");
    assert_int_equal(unlink(left), 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0); /* nothing else is left */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_a_killed_process_left_is_in_nobodys_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

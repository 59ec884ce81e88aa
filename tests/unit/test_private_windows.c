/* os/secret_file on Windows: access control lists that give other users access are refused. */
#include "unit.h"

#include "os/private_windows.h"
#include "os/secret_file.h"

#include <sddl.h>
#include <stdio.h>
#include <string.h>

static char folder[MAX_PATH], path[MAX_PATH + 16];

static int make_folder(void **state)
{
    char place[MAX_PATH - 32];
    struct pccl_text reason;
    assert_true(GetTempPathA(sizeof place, place) > 0);
    (void)snprintf(folder, sizeof folder, "%spccl-private-%lu", place, GetCurrentProcessId());
    (void)snprintf(path, sizeof path, "%s\\run.token", folder);
    assert_int_equal(pccl_secret_directory(folder, &reason), PCCL_OK);
    assert_int_equal(pccl_secret_file_make(path, "secret", 6, &reason), PCCL_OK);
    return 0;
}

static int remove_folder(void **state)
{
    struct pccl_text reason;
    assert_int_equal(pccl_secret_file_remove(path, &reason), PCCL_OK);
    assert_true(RemoveDirectoryA(folder));
    return 0;
}

/* Gives a file or directory the access control list of a private one with more entries, in Windows' language for them.
 */
static void set_list(const char *object, const char *entries)
{
    SECURITY_ATTRIBUTES only_ours;
    PSECURITY_DESCRIPTOR descriptor;
    char *own, text[512];
    assert_true(pccl_private_describe(&only_ours));
    assert_true(ConvertSecurityDescriptorToStringSecurityDescriptorA(only_ours.lpSecurityDescriptor, SDDL_REVISION_1,
                                                                     DACL_SECURITY_INFORMATION, &own, NULL));
    (void)snprintf(text, sizeof text, "%s%s", own, entries);
    assert_true(ConvertStringSecurityDescriptorToSecurityDescriptorA(text, SDDL_REVISION_1, &descriptor, NULL));
    assert_true(SetFileSecurityA(object, DACL_SECURITY_INFORMATION, descriptor));
    assert_null(LocalFree(descriptor));
    assert_null(LocalFree(own));
    assert_null(LocalFree(only_ours.lpSecurityDescriptor));
}

static void read_file(bool is_private, enum pccl_status expected, const char *words)
{
    char text[16];
    size_t length;
    struct pccl_text reason = {.bytes = ""};
    assert_int_equal(pccl_secret_file_read(path, is_private, text, sizeof text - 1, &length, &reason), expected);
    if (expected == PCCL_OK)
        assert_string_equal(text, "secret");
    else
        assert_true(strstr(reason.bytes, path) != NULL && strstr(reason.bytes, words) != NULL);
}

static const char shared[] = "other users can read or write it";

GROUP(make_folder, remove_folder)

TEST(test_new_files_are_private) { read_file(true, PCCL_OK, ""); }

TEST(test_everyone_can_read_or_write)
{
    static const char *const lists[] = {"(A;;FR;;;WD)", "(A;;FW;;;WD)", "(A;;FA;;;WD)"};
    for (size_t i = 0; i < PCCL_COUNT_OF(lists); i++) {
        set_list(path, lists[i]);
        read_file(true, PCCL_SYSTEM, shared);
        read_file(false, PCCL_OK, "");
    }
}

TEST(test_the_system_and_administrators_are_no_others)
{
    set_list(path, "(A;;FA;;;SY)(A;;FA;;;BA)");
    read_file(true, PCCL_OK, "");
}

TEST(test_a_shared_directory)
{
    struct pccl_text reason;
    assert_int_equal(pccl_secret_directory(folder, &reason), PCCL_OK);
    set_list(folder, "(A;OICI;FR;;;WD)");
    assert_int_equal(pccl_secret_directory(folder, &reason), PCCL_SYSTEM);
    assert_true(strstr(reason.bytes, folder) != NULL && strstr(reason.bytes, "other users can access it") != NULL);
}

/* os/secret_file: files of a killed writer prevent no later write, and a full disk none that has a reserve. */
#include "unit.h"

#include "private_tmp.h"
#include "os/secret_file.h"
#include "ops/tokens.h"
#include "net/heap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif
#include <unistd.h>

/* In a container all masters have the same number, and a half-written file stays. */
TEST(test_what_a_killed_process_left_is_in_nobodys_way)
{
    char folder[] = "/tmp/pccl-secret-XXXXXX", path[100], left[150], text[10];
    struct pccl_text reason;
    size_t length;
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/tokens", folder);
    (void)snprintf(left, sizeof left, "%s.%d.tmp", path, (int)getpid());
    FILE *file = fopen(left, "w");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(pccl_secret_file_make(path, "first", 5, &reason), PCCL_OK);
    assert_int_equal(pccl_secret_file_make(path, "again", 5, &reason), PCCL_USAGE);
    assert_int_equal(pccl_secret_file_replace(path, "second", 6, &reason), PCCL_OK);
    assert_int_equal(pccl_secret_file_read(path, true, text, sizeof text - 1, &length, &reason), PCCL_OK);
    assert_string_equal(text, "second");
    assert_int_equal(unlink(left), 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0); /* nothing else is left */
}

/* ---- a file system that fails to write its directories ---- */

static int directory_error;       /* 0: none */
static uint32_t directories_good; /* number of directories written before the error */
static uint32_t files_synced, directories_synced;

/* Replaces the function of libc. */
int fsync(int descriptor)
{
    struct stat status;
    if (fstat(descriptor, &status) != 0)
        return -1;
    *(S_ISDIR(status.st_mode) ? &directories_synced : &files_synced) += 1;
    if (!S_ISDIR(status.st_mode) || directory_error == 0 || directories_good > 0) {
        directories_good -= S_ISDIR(status.st_mode) && directories_good > 0;
#ifdef __linux__
        return (int)syscall(SYS_fsync, descriptor);
#else
        return 0;
#endif
    }
    errno = directory_error;
    return -1;
}

TEST(test_lasting_files)
{
    char folder[] = "/tmp/pccl-secret-XXXXXX", path[100], reserve[120];
    struct pccl_text reason;
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/tokens", folder);
    (void)snprintf(reserve, sizeof reserve, "%s.reserve", path);
    assert_int_equal(pccl_secret_file_reserve(path, 6, &reason), PCCL_OK);
    files_synced = directories_synced = 0;
    assert_int_equal(pccl_secret_file_try(path, "first", 5, &reason), PCCL_OK);
    assert_true(files_synced + directories_synced == 0 && access(path, F_OK) != 0);
    assert_int_equal(pccl_secret_file_replace(path, "second", 6, &reason), PCCL_OK);
    assert_int_equal(pccl_secret_file_replace_anyway(path, "third", 5, &reason), PCCL_OK);
    assert_true(files_synced == 2 && directories_synced == 2);
    directory_error = EIO;
    assert_int_equal(pccl_secret_file_replace(path, "fourth", 6, &reason), PCCL_SYSTEM);
    assert_non_null(strstr(reason.bytes, strerror(EIO)));
    assert_int_equal(pccl_secret_file_replace_anyway(path, "fifth", 5, &reason), PCCL_SYSTEM);
    directory_error = EINVAL; /* the file system cannot sync directories */
    assert_int_equal(pccl_secret_file_replace_anyway(path, "sixth", 5, &reason), PCCL_OK);
    directory_error = 0;
    assert_int_equal(unlink(path), 0);
    assert_int_equal(unlink(reserve), 0);
    assert_int_equal(rmdir(folder), 0);
}

static bool is_good(struct pccl_tokens *tokens, const char *text)
{
    struct pccl_text reason;
    struct pccl_token token;
    uint8_t key[PCCL_PUBLIC_BYTES];
    assert_null(pccl_token_read(text, &token));
    assert_true(pccl_keys_public(&token.secret, key, &reason));
    return pccl_tokens_judge(tokens, key) == PCCL_KEYS_GOOD;
}

static void read_run(const char *path, char text[PCCL_TOKEN_TEXT + 2])
{
    struct pccl_text reason;
    size_t length;
    assert_int_equal(pccl_secret_file_read(path, true, text, PCCL_TOKEN_TEXT + 1, &length, &reason), PCCL_OK);
}

/* If any step fails while the run gets another token, the token in its file is valid, and so is the former one. */
TEST(test_rotating_fails_halfway)
{
    static const char *const names[] = {"tokens", "tokens.reserve", "run.token"};
    char folder[] = "/tmp/pccl-secret-XXXXXX", path[100], run_path[100], first[PCCL_TOKEN_TEXT + 2], text[sizeof first];
    struct pccl_token token = {.secret = {{7}}, .checked = true};
    struct pccl_text reason;
    struct pccl_print answer;
    uint32_t revoked;
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/tokens", folder);
    (void)snprintf(run_path, sizeof run_path, "%s/run.token", folder);
    pccl_token_write(&token, first);
    assert_int_equal(pccl_secret_file_make(run_path, first, PCCL_TOKEN_TEXT, &reason), PCCL_OK);
    struct pccl_tokens *tokens = pccl_tokens_open(path, &token, run_path, &reason);
    assert_non_null(tokens);
    assert_int_equal(pccl_tokens_begin(tokens, &reason), PCCL_OK);
    for (uint32_t good = 0; good < 4; good++) { /* the book, the token, the book */
        pccl_print_init(&answer, pccl_heap(), PCCL_TOKENS_ANSWER_MAX);
        directory_error = EIO;
        directories_good = good;
        pccl_tokens_command(tokens, "rotate 60", &answer, &revoked);
        directory_error = 0;
        assert_int_equal(strncmp(answer.bytes, good < 3 ? "no\n" : "ok\n", 3), 0);
        read_run(run_path, text);
        assert_true(is_good(tokens, text) && is_good(tokens, first));
        assert_int_equal(strncmp(first, text, PCCL_TOKEN_TEXT) == 0, good == 0);
        pccl_print_fini(&answer);
    }
    pccl_tokens_close(tokens);
    for (size_t i = 0; i < PCCL_COUNT_OF(names); i++) {
        (void)snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        assert_int_equal(unlink(path), 0);
    }
    assert_int_equal(rmdir(folder), 0);
}

/* ---- a full disk ---- */

enum { SIZE = 8192 };

static const char full_path[] = "/tmp/tokens";

static void fill_disk(void)
{
    char block[4096] = {0};
    int descriptor = open("/tmp/filler", O_WRONLY | O_CREAT | O_APPEND, 0600);
    EXPECT(descriptor >= 0);
    while (write(descriptor, block, sizeof block) > 0) {
    }
    EXPECT(close(descriptor) == 0);
}

static void write_it(char letter, char text[SIZE]) { memset(text, letter, SIZE); }

static bool has(char letter)
{
    char text[SIZE + 1], meant[SIZE];
    struct pccl_text reason;
    size_t length;
    write_it(letter, meant);
    return pccl_secret_file_read(full_path, true, text, SIZE, &length, &reason) == PCCL_OK && length == SIZE &&
           memcmp(text, meant, SIZE) == 0;
}

/* This works any number of times, because the file that is replaced becomes the reserve. */
static void replace_on_a_full_disk(void)
{
    struct pccl_text reason;
    char text[SIZE];
    write_it('a', text);
    EXPECT(pccl_secret_file_reserve(full_path, SIZE, &reason) == PCCL_OK);
    EXPECT(pccl_secret_file_replace(full_path, text, SIZE, &reason) == PCCL_OK);
    fill_disk();
    for (char letter = 'b'; letter < 'f'; letter++) {
        write_it(letter, text);
        EXPECT(pccl_secret_file_replace(full_path, text, SIZE, &reason) == PCCL_SYSTEM);
        EXPECT(strstr(reason.bytes, "No space left") != NULL && has((char)(letter - 1)));
        files_synced = directories_synced = 0;
        EXPECT(pccl_secret_file_replace_anyway(full_path, text, SIZE, &reason) == PCCL_OK);
        EXPECT(has(letter) && files_synced == 1 && directories_synced == 1);
        fill_disk();
    }
    EXPECT(pccl_secret_file_reserve(full_path, SIZE, &reason) == PCCL_OK); /* it is there */
    EXPECT(pccl_secret_file_reserve(full_path, 2 * SIZE, &reason) == PCCL_SYSTEM);
    write_it('g', text);
    EXPECT(pccl_secret_file_replace_anyway(full_path, text, SIZE, &reason) == PCCL_OK);
    EXPECT(has('g'));
}

/* The file is unchanged afterward, and the reason is the first failure's. */
static void fail_without_a_reserve(void)
{
    struct pccl_text reason;
    char text[SIZE];
    write_it('a', text);
    EXPECT(pccl_secret_file_replace(full_path, text, SIZE, &reason) == PCCL_OK);
    fill_disk();
    write_it('b', text);
    EXPECT(pccl_secret_file_replace_anyway(full_path, text, SIZE, &reason) == PCCL_SYSTEM);
    EXPECT(strstr(reason.bytes, "No space left") != NULL && has('a'));
    EXPECT(pccl_secret_file_reserve(full_path, SIZE, &reason) == PCCL_SYSTEM);
    EXPECT(strstr(reason.bytes, "cannot reserve space") != NULL);
    EXPECT(private_tmp_lock());
    EXPECT(pccl_secret_file_replace_anyway(full_path, text, SIZE, &reason) == PCCL_SYSTEM && has('a'));
    EXPECT(strstr(reason.bytes, "Read-only") != NULL);
}

TEST(test_full_disk) { private_tmp_run(replace_on_a_full_disk, "mode=1777,size=256k"); }

TEST(test_full_disk_without_a_reserve) { private_tmp_run(fail_without_a_reserve, "mode=1777,size=256k"); }

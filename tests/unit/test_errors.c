/* config/errors: which code a status becomes in each family of functions, and the last error of each thread. */
#include "unit.h"

#include <pthread.h>
#include <string.h>

#include "core/limits.h"
#include "config/errors.h"

TEST(plain_codes_are_those_of_the_reference)
{
    for (int family = 0; family < PCCL_FAMILIES; family++) {
        for (int status = 0; status < PCCL_STATUS_COUNT; status++) {
            pcclResult_t result = pccl_errors_result((enum pccl_family)family, (enum pccl_status)status, false);
            /* MEMBERS_CHANGED: no call of the reference takes a list of members. */
            assert_true(result <= pcclTopologyOptimizationFailed || status == PCCL_MEMBERS_CHANGED);
            assert_int_equal(result == pcclSuccess, status == PCCL_OK);
            /* Never returned, by contract. */
            assert_true(result != pcclRankConnectionFailed && result != pcclNoSharedStateAvailable);
        }
    }
}

TEST(each_family_fails_in_its_own_way)
{
    const struct {
        enum pccl_family family;
        pcclResult_t lost, system;
    } expected[] = {
        {PCCL_FAMILY_CONNECT, pcclMasterConnectionFailed, pcclMasterConnectionFailed},
        {PCCL_FAMILY_UPDATE, pcclUpdateTopologyFailed, pcclInternalError},
        {PCCL_FAMILY_OPTIMIZE, pcclTopologyOptimizationFailed, pcclInternalError},
        {PCCL_FAMILY_PENDING, pcclInvalidUsage, pcclInternalError},
        {PCCL_FAMILY_REDUCE, pcclRankConnectionLost, pcclInternalError},
        {PCCL_FAMILY_SYNC, pcclInvalidUsage, pcclInternalError},
        {PCCL_FAMILY_MASTER, pcclInvalidUsage, pcclInvalidUsage},
        {PCCL_FAMILY_GENERAL, pcclInvalidUsage, pcclInternalError},
    };
    const enum pccl_status losses[] = {PCCL_PEER_LOST,          PCCL_ABORTED, PCCL_TIMEOUT,     PCCL_VERSION,
                                       PCCL_MALFORMED,          PCCL_REFUSED, PCCL_MASTER_LOST, PCCL_EXPELLED,
                                       PCCL_MASTER_UNREACHABLE, PCCL_DRAINED};
    assert_int_equal(PCCL_COUNT_OF(expected), PCCL_FAMILIES);
    for (size_t i = 0; i < PCCL_COUNT_OF(expected); i++) {
        enum pccl_family family = expected[i].family;
        for (size_t k = 0; k < PCCL_COUNT_OF(losses); k++)
            assert_int_equal(pccl_errors_result(family, losses[k], false), expected[i].lost);
        assert_int_equal(pccl_errors_result(family, PCCL_SYSTEM, false), expected[i].system);
        assert_int_equal(pccl_errors_result(family, PCCL_ARGUMENT, false), pcclInvalidArgument);
        assert_int_equal(pccl_errors_result(family, PCCL_USAGE, true), pcclInvalidUsage);
        assert_int_equal(pccl_errors_result(family, PCCL_NOT_INITIALIZED, true), pcclNotInitialized);
        assert_int_equal(pccl_errors_result(family, PCCL_TOO_FEW_PEERS, true), pcclTooFewPeers);
        assert_int_equal(pccl_errors_result(family, PCCL_PENDING_OPS, true), pcclPendingAsyncOps);
        assert_int_equal(pccl_errors_result(family, PCCL_MISMATCH, false), pcclInvalidUsage);
        assert_int_equal(pccl_errors_result(family, PCCL_UNSUPPORTED, false), pcclInvalidUsage);
        assert_int_equal(pccl_errors_result(family, PCCL_MEMORY, false), pcclInternalError);
        assert_int_equal(pccl_errors_result(family, PCCL_INTERNAL, true), pcclInternalError);
        assert_int_equal(pccl_errors_result(family, PCCL_PEER_LOST, true), expected[i].lost);
    }
}

TEST(extended_codes_say_more)
{
    const struct {
        enum pccl_status status;
        pcclResult_t result;
    } expected[] = {
        {PCCL_TIMEOUT, pcclTimeout},       {PCCL_ABORTED, pcclAborted},   {PCCL_VERSION, pcclVersionMismatch},
        {PCCL_MISMATCH, pcclPeerMismatch}, {PCCL_EXPELLED, pcclExpelled}, {PCCL_MASTER_LOST, pcclMasterLost},
        {PCCL_MEMORY, pcclOutOfMemory},    {PCCL_REFUSED, pcclRefused},   {PCCL_UNSUPPORTED, pcclUnsupported},
        {PCCL_DRAINED, pcclDrained},
    };
    for (int family = 0; family < PCCL_FAMILIES; family++) {
        for (size_t i = 0; i < PCCL_COUNT_OF(expected); i++) {
            assert_int_equal(pccl_errors_result((enum pccl_family)family, expected[i].status, true),
                             expected[i].result);
        }
    }
    assert_int_equal(pccl_errors_result(PCCL_FAMILY_CONNECT, PCCL_MASTER_UNREACHABLE, true),
                     pcclMasterConnectionFailed);
    assert_int_equal(pccl_errors_result(PCCL_FAMILY_REDUCE, PCCL_MASTER_UNREACHABLE, true), pcclMasterLost);
}

TEST(every_code_has_its_own_text)
{
    for (int a = 0; a <= pcclDrained; a++) {
        const char *text = pccl_errors_text((pcclResult_t)a);
        assert_true(strlen(text) > 3);
        assert_string_not_equal(text, pccl_errors_text((pcclResult_t)999));
        for (int b = 0; b < a; b++)
            assert_string_not_equal(text, pccl_errors_text((pcclResult_t)b));
    }
    assert_string_equal(pccl_errors_text((pcclResult_t)999), "unknown result code");
    assert_string_equal(pccl_errors_text((pcclResult_t)-1), "unknown result code");
}

static pcclResult_t record(uint64_t key, bool extended, enum pccl_status status, const char *words)
{
    struct pccl_why why = {0};
    pccl_text_format(&why.reason, "%s", words);
    return pccl_errors_fail(key, PCCL_FAMILY_REDUCE, extended, status, &why);
}

static void set(uint64_t key, const char *words) { (void)record(key, false, PCCL_USAGE, words); }

TEST(reasons_are_kept_by_key)
{
    assert_string_equal(pccl_errors_last(1), "");
    set(1, "one");
    set(2, "two");
    set(0, "none");
    assert_string_equal(pccl_errors_last(1), "one");
    assert_string_equal(pccl_errors_last(2), "two");
    assert_string_equal(pccl_errors_last(0), "none");
    set(1, "other");
    assert_string_equal(pccl_errors_last(1), "other");
    pccl_errors_forget(1);
    assert_string_equal(pccl_errors_last(1), "");
    assert_string_equal(pccl_errors_last(2), "two");
    pccl_errors_forget(3);
    pccl_errors_forget(0);
    assert_string_equal(pccl_errors_last(0), "");
}

TEST(the_most_recent_keys_are_kept)
{
    char reason[] = "words of ?";
    for (uint64_t key = 100; key < 120; key++) {
        reason[9] = (char)('a' + (char)(key - 100));
        set(key, reason);
        set(100, "again"); /* in use, so it stays */
    }
    assert_string_equal(pccl_errors_last(100), "again");
    assert_string_equal(pccl_errors_last(101), "");
    for (uint64_t key = 113; key < 120; key++) {
        reason[9] = (char)('a' + (char)(key - 100));
        assert_string_equal(pccl_errors_last(key), reason);
    }
}

TEST(failing_sets_reason_and_code)
{
    assert_int_equal(record(7, false, PCCL_TIMEOUT, "tag 5 after 1 s"), pcclRankConnectionLost);
    assert_string_equal(pccl_errors_last(7), "tag 5 after 1 s");
    assert_int_equal(record(7, true, PCCL_TIMEOUT, ""), pcclTimeout);
    assert_string_equal(pccl_errors_last(7), pccl_status_text(PCCL_TIMEOUT));
}

TEST(details_go_with_the_failure)
{
    pcclFailure_t failure = PCCL_FAILURE_INIT;
    struct pccl_why why = {.details = {.launched = true, .tag = 9, .sequence = 3, .departed = {.count = 20}}};
    pccl_text_format(&why.reason, "lost");
    for (unsigned i = 0; i < PCCL_DEPARTED_LISTED_MAX; i++)
        memset(&why.details.departed.ids[i], (int)(0xf0 - 3 * i), sizeof(struct pccl_id));
    assert_int_equal(pccl_errors_fail(60, PCCL_FAMILY_REDUCE, false, PCCL_PEER_LOST, &why), pcclRankConnectionLost);
    assert_string_equal(pccl_errors_last(60), "lost");
    pccl_errors_describe(60, &failure);
    assert_int_equal(failure.size, sizeof failure);
    assert_int_equal(failure.result, pcclRankConnectionLost);
    assert_true(failure.launched && failure.tag == 9 && failure.sequence == 3 && failure.peer_count == 20);
    assert_string_equal(failure.peers[0], "f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0");
    assert_string_equal(failure.peers[15], "c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3");
    /* A failure without details has none of the one before; nor has another communicator. */
    set(60, "");
    pccl_errors_describe(60, &failure);
    assert_int_equal(failure.result, pcclInvalidUsage);
    assert_true(!failure.launched && failure.tag == 0 && failure.sequence == 0 && failure.peer_count == 0);
    assert_string_equal(failure.peers[0], "");
    pccl_errors_describe(61, &failure);
    assert_int_equal(failure.result, pcclSuccess);
    /* A communicator that was forgotten has no failure, and a reason may be empty. */
    pccl_text_clear(&why.reason);
    assert_int_equal(pccl_errors_fail(60, PCCL_FAMILY_REDUCE, true, PCCL_TIMEOUT, &why), pcclTimeout);
    assert_string_equal(pccl_errors_last(60), pccl_status_text(PCCL_TIMEOUT));
    pccl_errors_forget(60);
    pccl_errors_describe(60, &failure);
    assert_true(failure.result == pcclSuccess && !failure.launched && failure.peer_count == 0);
}

static void *in_another_thread(void *token)
{
    bool empty = strcmp(pccl_errors_last(42), "") == 0;
    set(42, "theirs");
    return empty ? token : NULL;
}

TEST(threads_have_reasons_of_their_own)
{
    pthread_t thread;
    int token = 0;
    void *empty = NULL;
    set(42, "mine");
    assert_int_equal(pthread_create(&thread, NULL, in_another_thread, &token), 0);
    assert_int_equal(pthread_join(thread, &empty), 0);
    assert_ptr_equal(empty, &token);
    assert_string_equal(pccl_errors_last(42), "mine");
}

/* Our declarations of OpenSSL's functions and numbers, against its own headers, where there are any. */
#include "unit.h"
#include "net/openssl.h"

#include <string.h>

#if defined(__has_include)
#if __has_include(<openssl/ssl.h>)
#define HAS_HEADERS 1
#endif
#endif

#ifdef HAS_HEADERS
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>

#define SAME_TYPE(result, name, parameters)                                                                            \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&name), result(*) parameters), #name " is declared so");
PCCL_OPENSSL_SSL(SAME_TYPE)
PCCL_OPENSSL_CRYPTO(SAME_TYPE)

TEST(test_numbers)
{
    assert_int_equal(PCCL_SSL_ERROR_SSL, SSL_ERROR_SSL);
    assert_int_equal(PCCL_SSL_ERROR_WANT_READ, SSL_ERROR_WANT_READ);
    assert_int_equal(PCCL_SSL_ERROR_WANT_WRITE, SSL_ERROR_WANT_WRITE);
    assert_int_equal(PCCL_SSL_ERROR_SYSCALL, SSL_ERROR_SYSCALL);
    assert_int_equal(PCCL_SSL_ERROR_ZERO_RETURN, SSL_ERROR_ZERO_RETURN);
    assert_int_equal(PCCL_SSL_CTRL_MODE, SSL_CTRL_MODE);
    assert_int_equal(PCCL_SSL_CTRL_CLEAR_MODE, SSL_CTRL_CLEAR_MODE);
    assert_int_equal(PCCL_SSL_CTRL_SET_SESS_CACHE_MODE, SSL_CTRL_SET_SESS_CACHE_MODE);
    assert_int_equal(PCCL_SSL_CTRL_SET_MAX_CERT_LIST, SSL_CTRL_SET_MAX_CERT_LIST);
    assert_int_equal(PCCL_SSL_CTRL_SET_MIN_PROTO_VERSION, SSL_CTRL_SET_MIN_PROTO_VERSION);
    assert_int_equal(PCCL_SSL_CTRL_SET_MAX_PROTO_VERSION, SSL_CTRL_SET_MAX_PROTO_VERSION);
    assert_int_equal(PCCL_SSL_MODE_ENABLE_PARTIAL_WRITE, SSL_MODE_ENABLE_PARTIAL_WRITE);
    assert_int_equal(PCCL_SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER, SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    assert_int_equal(PCCL_SSL_MODE_AUTO_RETRY, SSL_MODE_AUTO_RETRY);
    assert_int_equal(PCCL_SSL_MODE_RELEASE_BUFFERS, SSL_MODE_RELEASE_BUFFERS);
    assert_int_equal(PCCL_SSL_OP_NO_TICKET, SSL_OP_NO_TICKET);
    assert_int_equal(PCCL_SSL_OP_CIPHER_SERVER_PREFERENCE, SSL_OP_CIPHER_SERVER_PREFERENCE);
    assert_int_equal(PCCL_SSL_FILETYPE_PEM, SSL_FILETYPE_PEM);
    assert_int_equal(PCCL_SSL_VERIFY_PEER, SSL_VERIFY_PEER);
    assert_int_equal(PCCL_SSL_VERIFY_FAIL_IF_NO_PEER_CERT, SSL_VERIFY_FAIL_IF_NO_PEER_CERT);
    assert_int_equal(PCCL_SSL_KEY_UPDATE_NOT_REQUESTED, SSL_KEY_UPDATE_NOT_REQUESTED);
    assert_int_equal(PCCL_TLS1_3_VERSION, TLS1_3_VERSION);
    assert_int_equal(PCCL_BIO_TYPE_SOURCE_SINK, BIO_TYPE_SOURCE_SINK);
    assert_int_equal(PCCL_BIO_CTRL_FLUSH, BIO_CTRL_FLUSH);
    assert_int_equal(PCCL_BIO_FLAGS_READ, BIO_FLAGS_READ);
    assert_int_equal(PCCL_BIO_FLAGS_WRITE, BIO_FLAGS_WRITE);
    assert_int_equal(PCCL_BIO_FLAGS_RWS, BIO_FLAGS_RWS);
    assert_int_equal(PCCL_BIO_FLAGS_SHOULD_RETRY, BIO_FLAGS_SHOULD_RETRY);
    assert_int_equal(PCCL_EVP_CTRL_AEAD_GET_TAG, EVP_CTRL_AEAD_GET_TAG);
    assert_int_equal(PCCL_EVP_CTRL_AEAD_SET_TAG, EVP_CTRL_AEAD_SET_TAG);
    assert_int_equal(PCCL_EVP_PKEY_X25519, EVP_PKEY_X25519);
    assert_int_equal(PCCL_EVP_PKEY_ED25519, EVP_PKEY_ED25519);
    assert_int_equal(PCCL_NID_ORGANIZATIONAL_UNIT, NID_organizationalUnitName);
    assert_int_equal(PCCL_X509_V_ERR_CERT_REVOKED, X509_V_ERR_CERT_REVOKED);
    assert_int_equal(PCCL_X509_V_ERR_APPLICATION_VERIFICATION, X509_V_ERR_APPLICATION_VERIFICATION);
    assert_int_equal(PCCL_OPENSSL_INIT_NO_ATEXIT, OPENSSL_INIT_NO_ATEXIT);
}
#endif

TEST(test_it_is_found)
{
    struct pccl_text reason;
    const struct pccl_openssl *openssl = pccl_openssl(&reason);
    assert_non_null(openssl);
    assert_ptr_equal(pccl_openssl(&reason), openssl);
    openssl->ERR_clear_error();
    assert_non_null(pccl_openssl_error(openssl));
}

/*
 * The part of OpenSSL 3 needed by net/keys and the files above it. The library is loaded at run time: it is not needed
 * for building or linking, and a host without it works if there are no tokens and certificates. The declarations are
 * ours; tests/unit/test_openssl.c compares them with the system's headers, if these exist. The library is never
 * unloaded, and must not run its exit handlers, because our threads may still use it then.
 */
#ifndef PCCL_NET_OPENSSL_H
#define PCCL_NET_OPENSSL_H

#include "core/base.h"
#include "core/text.h"

struct ssl_st;
struct ssl_ctx_st;
struct ssl_method_st;
struct ssl_session_st;
struct ssl_cipher_st;
struct bio_st;
struct bio_method_st;
struct evp_pkey_st;
struct evp_pkey_ctx_st;
struct evp_md_st;
struct evp_cipher_st;
struct evp_cipher_ctx_st;
struct engine_st;
struct x509_st;
struct x509_store_ctx_st;
struct X509_name_st;
struct X509_VERIFY_PARAM_st;
struct asn1_string_st;
struct ossl_init_settings_st;
struct ossl_lib_ctx_st;

typedef int (*pccl_psk_client_call)(struct ssl_st *ssl, const struct evp_md_st *digest, const unsigned char **identity,
                                    size_t *identity_bytes, struct ssl_session_st **session);
typedef int (*pccl_psk_server_call)(struct ssl_st *ssl, const unsigned char *identity, size_t identity_bytes,
                                    struct ssl_session_st **session);

/* columns: result, name, parameters */
#define PCCL_OPENSSL_SSL(X)                                                                                            \
    X(int, OPENSSL_init_ssl, (uint64_t options, const struct ossl_init_settings_st *settings))                         \
    X(const struct ssl_method_st *, TLS_method, (void))                                                                \
    X(struct ssl_ctx_st *, SSL_CTX_new, (const struct ssl_method_st *method))                                          \
    X(void, SSL_CTX_free, (struct ssl_ctx_st * context))                                                               \
    X(long, SSL_CTX_ctrl, (struct ssl_ctx_st * context, int command, long number, void *pointer))                      \
    X(uint64_t, SSL_CTX_set_options, (struct ssl_ctx_st * context, uint64_t options))                                  \
    X(int, SSL_CTX_set_ciphersuites, (struct ssl_ctx_st * context, const char *names))                                 \
    X(int, SSL_CTX_set_num_tickets, (struct ssl_ctx_st * context, size_t count))                                       \
    X(int, SSL_CTX_use_certificate, (struct ssl_ctx_st * context, struct x509_st * certificate))                       \
    X(int, SSL_CTX_use_PrivateKey, (struct ssl_ctx_st * context, struct evp_pkey_st * key))                            \
    X(int, SSL_CTX_use_certificate_chain_file, (struct ssl_ctx_st * context, const char *path))                        \
    X(int, SSL_CTX_use_PrivateKey_file, (struct ssl_ctx_st * context, const char *path, int type))                     \
    X(int, SSL_CTX_check_private_key, (const struct ssl_ctx_st *context))                                              \
    X(int, SSL_CTX_load_verify_file, (struct ssl_ctx_st * context, const char *path))                                  \
    X(int, SSL_CTX_set_default_verify_paths, (struct ssl_ctx_st * context))                                            \
    X(void, SSL_CTX_set_default_passwd_cb, (struct ssl_ctx_st * context, int (*call)(char *, int, int, void *)))       \
    X(struct X509_VERIFY_PARAM_st *, SSL_CTX_get0_param, (struct ssl_ctx_st * context))                                \
    X(struct x509_st *, SSL_CTX_get0_certificate, (const struct ssl_ctx_st *context))                                  \
    X(void, SSL_CTX_set_verify, (struct ssl_ctx_st * context, int mode, int (*call)(int, struct x509_store_ctx_st *))) \
    X(void, SSL_CTX_set_cert_verify_callback,                                                                          \
      (struct ssl_ctx_st * context, int (*call)(struct x509_store_ctx_st *, void *), void *argument))                  \
    X(void, SSL_CTX_set_psk_use_session_callback, (struct ssl_ctx_st * context, pccl_psk_client_call call))            \
    X(void, SSL_CTX_set_psk_find_session_callback, (struct ssl_ctx_st * context, pccl_psk_server_call call))           \
    X(struct ssl_st *, SSL_new, (struct ssl_ctx_st * context))                                                         \
    X(void, SSL_free, (struct ssl_st * ssl))                                                                           \
    X(void, SSL_set_bio, (struct ssl_st * ssl, struct bio_st * in, struct bio_st * out))                               \
    X(int, SSL_set_session_id_context, (struct ssl_st * ssl, const unsigned char *name, unsigned int bytes))           \
    X(void, SSL_set_accept_state, (struct ssl_st * ssl))                                                               \
    X(void, SSL_set_connect_state, (struct ssl_st * ssl))                                                              \
    X(int, SSL_set_ex_data, (struct ssl_st * ssl, int index, void *data))                                              \
    X(void *, SSL_get_ex_data, (const struct ssl_st *ssl, int index))                                                  \
    X(int, SSL_do_handshake, (struct ssl_st * ssl))                                                                    \
    X(long, SSL_get_verify_result, (const struct ssl_st *ssl))                                                         \
    X(struct x509_st *, SSL_get0_peer_certificate, (const struct ssl_st *ssl))                                         \
    X(int, SSL_session_reused, (const struct ssl_st *ssl))                                                             \
    X(int, SSL_read_ex, (struct ssl_st * ssl, void *bytes, size_t length, size_t *moved))                              \
    X(int, SSL_write_ex, (struct ssl_st * ssl, const void *bytes, size_t length, size_t *moved))                       \
    X(int, SSL_pending, (const struct ssl_st *ssl))                                                                    \
    X(int, SSL_key_update, (struct ssl_st * ssl, int type))                                                            \
    X(int, SSL_shutdown, (struct ssl_st * ssl))                                                                        \
    X(int, SSL_get_error, (const struct ssl_st *ssl, int result))                                                      \
    X(int, SSL_export_keying_material,                                                                                 \
      (struct ssl_st * ssl, unsigned char *out, size_t bytes, const char *label, size_t label_bytes,                   \
       const unsigned char *context, size_t context_bytes, int use_context))                                           \
    X(const struct ssl_cipher_st *, SSL_get_current_cipher, (const struct ssl_st *ssl))                                \
    X(uint16_t, SSL_CIPHER_get_protocol_id, (const struct ssl_cipher_st *cipher))                                      \
    X(struct ssl_session_st *, SSL_SESSION_new, (void))                                                                \
    X(void, SSL_SESSION_free, (struct ssl_session_st * session))                                                       \
    X(int, SSL_SESSION_set1_master_key, (struct ssl_session_st * session, const unsigned char *key, size_t bytes))     \
    X(int, SSL_SESSION_set_cipher, (struct ssl_session_st * session, const struct ssl_cipher_st *cipher))              \
    X(int, SSL_SESSION_set_protocol_version, (struct ssl_session_st * session, int version))                           \
    X(const struct ssl_cipher_st *, SSL_CIPHER_find, (struct ssl_st * ssl, const unsigned char *code))

#define PCCL_OPENSSL_CRYPTO(X)                                                                                         \
    X(int, OPENSSL_init_crypto, (uint64_t options, const struct ossl_init_settings_st *settings))                      \
    X(int, CRYPTO_secure_malloc_init, (size_t size, size_t least))                                                     \
    X(int, CRYPTO_secure_malloc_initialized, (void))                                                                   \
    X(void, OPENSSL_cleanse, (void *bytes, size_t length))                                                             \
    X(int, CRYPTO_memcmp, (const void *one, const void *other, size_t length))                                         \
    X(void, ERR_clear_error, (void))                                                                                   \
    X(unsigned long, ERR_peek_error, (void))                                                                           \
    X(const char *, ERR_reason_error_string, (unsigned long error))                                                    \
    X(struct bio_method_st *, BIO_meth_new, (int type, const char *name))                                              \
    X(int, BIO_meth_set_read, (struct bio_method_st * method, int (*call)(struct bio_st *, char *, int)))              \
    X(int, BIO_meth_set_write, (struct bio_method_st * method, int (*call)(struct bio_st *, const char *, int)))       \
    X(int, BIO_meth_set_ctrl, (struct bio_method_st * method, long (*call)(struct bio_st *, int, long, void *)))       \
    X(struct bio_st *, BIO_new, (const struct bio_method_st *method))                                                  \
    X(void, BIO_set_data, (struct bio_st * bio, void *data))                                                           \
    X(void *, BIO_get_data, (struct bio_st * bio))                                                                     \
    X(void, BIO_set_init, (struct bio_st * bio, int init))                                                             \
    X(void, BIO_set_flags, (struct bio_st * bio, int flags))                                                           \
    X(void, BIO_clear_flags, (struct bio_st * bio, int flags))                                                         \
    X(const struct evp_md_st *, EVP_sha256, (void))                                                                    \
    X(unsigned char *, HMAC,                                                                                           \
      (const struct evp_md_st *digest, const void *key, int key_bytes, const unsigned char *bytes, size_t length,      \
       unsigned char *out, unsigned int *out_bytes))                                                                   \
    X(int, EVP_PBE_scrypt,                                                                                             \
      (const char *secret, size_t length, const unsigned char *salt, size_t salt_bytes, uint64_t cost,                 \
       uint64_t block_size, uint64_t parallel, uint64_t memory_max, unsigned char *out, size_t out_bytes))             \
    X(const char *, OpenSSL_version, (int what))                                                                       \
    X(struct evp_cipher_ctx_st *, EVP_CIPHER_CTX_new, (void))                                                          \
    X(void, EVP_CIPHER_CTX_free, (struct evp_cipher_ctx_st * context))                                                 \
    X(int, EVP_CIPHER_CTX_ctrl, (struct evp_cipher_ctx_st * context, int command, int number, void *pointer))          \
    X(const struct evp_cipher_st *, EVP_aes_128_gcm, (void))                                                           \
    X(const struct evp_cipher_st *, EVP_chacha20_poly1305, (void))                                                     \
    X(int, EVP_CipherInit_ex,                                                                                          \
      (struct evp_cipher_ctx_st * context, const struct evp_cipher_st *cipher, struct engine_st *engine,               \
       const unsigned char *key, const unsigned char *nonce, int seals))                                               \
    X(int, EVP_CipherUpdate,                                                                                           \
      (struct evp_cipher_ctx_st * context, unsigned char *out, int *moved, const unsigned char *in, int length))       \
    X(int, EVP_CipherFinal_ex, (struct evp_cipher_ctx_st * context, unsigned char *out, int *moved))                   \
    X(struct evp_pkey_st *, EVP_PKEY_Q_keygen,                                                                         \
      (struct ossl_lib_ctx_st * library, const char *properties, const char *type, ...))                               \
    X(struct evp_pkey_st *, d2i_PrivateKey,                                                                            \
      (int type, struct evp_pkey_st **key, const unsigned char **bytes, long length))                                  \
    X(struct evp_pkey_st *, EVP_PKEY_new_raw_public_key,                                                               \
      (int type, struct engine_st *engine, const unsigned char *key, size_t bytes))                                    \
    X(struct evp_pkey_ctx_st *, EVP_PKEY_CTX_new, (struct evp_pkey_st * key, struct engine_st * engine))               \
    X(void, EVP_PKEY_CTX_free, (struct evp_pkey_ctx_st * context))                                                     \
    X(int, EVP_PKEY_derive_init, (struct evp_pkey_ctx_st * context))                                                   \
    X(int, EVP_PKEY_derive_set_peer, (struct evp_pkey_ctx_st * context, struct evp_pkey_st * other))                   \
    X(int, EVP_PKEY_derive, (struct evp_pkey_ctx_st * context, unsigned char *secret, size_t *bytes))                  \
    X(int, EVP_PKEY_get_raw_public_key, (const struct evp_pkey_st *key, unsigned char *out, size_t *bytes))            \
    X(int, EVP_PKEY_get_id, (const struct evp_pkey_st *key))                                                           \
    X(void, EVP_PKEY_free, (struct evp_pkey_st * key))                                                                 \
    X(struct x509_st *, X509_new, (void))                                                                              \
    X(void, X509_free, (struct x509_st * certificate))                                                                 \
    X(int, X509_set_version, (struct x509_st * certificate, long version))                                             \
    X(struct asn1_string_st *, X509_get_serialNumber, (struct x509_st * certificate))                                  \
    X(int, ASN1_INTEGER_set, (struct asn1_string_st * number, long value))                                             \
    X(struct asn1_string_st *, X509_getm_notBefore, (const struct x509_st *certificate))                               \
    X(struct asn1_string_st *, X509_getm_notAfter, (const struct x509_st *certificate))                                \
    X(int, ASN1_TIME_set_string_X509, (struct asn1_string_st * time, const char *text))                                \
    X(int, X509_set_pubkey, (struct x509_st * certificate, struct evp_pkey_st * key))                                  \
    X(int, X509_sign, (struct x509_st * certificate, struct evp_pkey_st * key, const struct evp_md_st *digest))        \
    X(struct evp_pkey_st *, X509_get0_pubkey, (const struct x509_st *certificate))                                     \
    X(struct x509_st *, X509_STORE_CTX_get0_cert, (const struct x509_store_ctx_st *context))                           \
    X(int, X509_STORE_CTX_get_error_depth, (const struct x509_store_ctx_st *context))                                  \
    X(struct x509_st *, X509_STORE_CTX_get_current_cert, (const struct x509_store_ctx_st *context))                    \
    X(struct X509_name_st *, X509_get_subject_name, (const struct x509_st *certificate))                               \
    X(int, X509_NAME_get_text_by_NID, (const struct X509_name_st *name, int number, char *out, int room))              \
    X(const char *, X509_verify_cert_error_string, (long error))                                                       \
    X(int, X509_digest,                                                                                                \
      (const struct x509_st *certificate, const struct evp_md_st *digest, unsigned char *out, unsigned int *bytes))    \
    X(int, X509_VERIFY_PARAM_set1_host, (struct X509_VERIFY_PARAM_st * parameters, const char *name, size_t length))   \
    X(int, X509_VERIFY_PARAM_set1_ip_asc, (struct X509_VERIFY_PARAM_st * parameters, const char *address))             \
    X(void, X509_STORE_CTX_set_error, (struct x509_store_ctx_st * context, int error))

struct pccl_openssl {
#define PCCL_OPENSSL_MEMBER(result, name, parameters) result(*name) parameters;
    PCCL_OPENSSL_SSL(PCCL_OPENSSL_MEMBER) PCCL_OPENSSL_CRYPTO(PCCL_OPENSSL_MEMBER)
#undef PCCL_OPENSSL_MEMBER
};

/* Constants of OpenSSL's interface, which are the same in all versions 3.x. */
enum {
    PCCL_SSL_ERROR_SSL = 1,
    PCCL_SSL_ERROR_WANT_READ = 2,
    PCCL_SSL_ERROR_WANT_WRITE = 3,
    PCCL_SSL_ERROR_SYSCALL = 5,
    PCCL_SSL_ERROR_ZERO_RETURN = 6,
    PCCL_SSL_CTRL_MODE = 33,
    PCCL_SSL_CTRL_SET_SESS_CACHE_MODE = 44,
    PCCL_SSL_CTRL_CLEAR_MODE = 78,
    PCCL_SSL_CTRL_SET_MAX_CERT_LIST = 51,
    PCCL_SSL_CTRL_SET_MIN_PROTO_VERSION = 123,
    PCCL_SSL_CTRL_SET_MAX_PROTO_VERSION = 124,
    PCCL_SSL_MODE_ENABLE_PARTIAL_WRITE = 0x1,
    PCCL_SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER = 0x2,
    PCCL_SSL_MODE_AUTO_RETRY = 0x4,
    PCCL_SSL_MODE_RELEASE_BUFFERS = 0x10,
    PCCL_SSL_OP_NO_TICKET = 1 << 14,
    PCCL_SSL_OP_CIPHER_SERVER_PREFERENCE = 1 << 22,
    PCCL_SSL_FILETYPE_PEM = 1,
    PCCL_SSL_VERIFY_PEER = 1,
    PCCL_SSL_VERIFY_FAIL_IF_NO_PEER_CERT = 2,
    PCCL_SSL_KEY_UPDATE_NOT_REQUESTED = 0,
    PCCL_TLS1_3_VERSION = 0x304,
    PCCL_BIO_TYPE_SOURCE_SINK = 0x400,
    PCCL_BIO_CTRL_FLUSH = 11,
    PCCL_BIO_FLAGS_READ = 1,
    PCCL_BIO_FLAGS_WRITE = 2,
    PCCL_BIO_FLAGS_RWS = 7,
    PCCL_BIO_FLAGS_SHOULD_RETRY = 8,
    PCCL_EVP_CTRL_AEAD_GET_TAG = 0x10,
    PCCL_EVP_CTRL_AEAD_SET_TAG = 0x11,
    PCCL_EVP_PKEY_X25519 = 1034,
    PCCL_EVP_PKEY_ED25519 = 1087,
    PCCL_NID_ORGANIZATIONAL_UNIT = 18,
    PCCL_X509_V_ERR_CERT_REVOKED = 23,
    PCCL_X509_V_ERR_APPLICATION_VERIFICATION = 50,
    PCCL_OPENSSL_INIT_NO_ATEXIT = 0x80000,
};

/*
 * Returns the library, which the first call loads. Returns NULL with a reason if this host does not have it. Any
 * thread.
 */
const struct pccl_openssl *pccl_openssl(struct pccl_text *reason);
/* Returns the text of the first error in this thread's error queue. */
const char *pccl_openssl_error(const struct pccl_openssl *openssl);

#endif

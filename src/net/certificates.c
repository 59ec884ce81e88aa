#include "net/certificates.h"

#include "os/file.h"

#include <errno.h>
#include <string.h>

/* ---- purpose of a certificate ---- */

/*
 * Checks the unit of the certificate at depth 0. OpenSSL calls this for every certificate of a chain, beginning with
 * the authority's.
 */
static int check_unit(int good, struct x509_store_ctx_st *context, const char *unit)
{
    const struct pccl_openssl *openssl = pccl_openssl(&(struct pccl_text){.length = 0});
    char text[32];
    if (good != 1 || openssl->X509_STORE_CTX_get_error_depth(context) != 0)
        return good;
    const struct x509_st *certificate = openssl->X509_STORE_CTX_get_current_cert(context);
    int length = openssl->X509_NAME_get_text_by_NID(openssl->X509_get_subject_name(certificate),
                                                    PCCL_NID_ORGANIZATIONAL_UNIT, text, sizeof text);
    if (length == (int)strlen(unit) && memcmp(text, unit, strlen(unit)) == 0)
        return 1;
    openssl->X509_STORE_CTX_set_error(context, PCCL_X509_V_ERR_APPLICATION_VERIFICATION);
    return 0;
}

static int check_master(int good, struct x509_store_ctx_st *context)
{
    return check_unit(good, context, "pccl-master");
}

static int check_peer(int good, struct x509_store_ctx_st *context) { return check_unit(good, context, "pccl-join"); }

/* ---- files ---- */

static bool fail(const struct pccl_openssl *openssl, const char *path, struct pccl_text *reason)
{
    int error = pccl_file_check_read(path);
    pccl_text_format(reason, "cannot use %s: %s", path, error ? uv_strerror(error) : pccl_openssl_error(openssl));
    return false;
}

/* Rejects encrypted private keys, because OpenSSL would otherwise prompt for a password. */
static int has_no_password(char *out, int room, int encrypts, void *context)
{
    (void)out;
    (void)room;
    (void)encrypts;
    (void)context;
    return -1;
}

bool pccl_certificates_load(const struct pccl_openssl *openssl, struct ssl_ctx_st *context, const struct pccl_pem *pem,
                            enum pccl_certificate_use use, struct pccl_text *reason)
{
    openssl->ERR_clear_error();
    openssl->SSL_CTX_set_default_passwd_cb(context, has_no_password);
    if (openssl->SSL_CTX_use_certificate_chain_file(context, pem->chain) != 1)
        return fail(openssl, pem->chain, reason);
    if (openssl->SSL_CTX_use_PrivateKey_file(context, pem->key, PCCL_SSL_FILETYPE_PEM) != 1 ||
        openssl->SSL_CTX_check_private_key(context) != 1)
        return fail(openssl, pem->key, reason);
    if (use == PCCL_CERTIFICATE_OF_PAGES)
        return true;
    if (openssl->SSL_CTX_load_verify_file(context, pem->authority) != 1)
        return fail(openssl, pem->authority, reason);
    openssl->SSL_CTX_set_verify(context, PCCL_SSL_VERIFY_PEER | PCCL_SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
                                use == PCCL_CERTIFICATE_OF_PEER ? check_master : check_peer);
    return true;
}

bool pccl_certificates_expect(const struct pccl_openssl *openssl, struct ssl_ctx_st *context, const char *host,
                              const char *authority, struct pccl_text *reason)
{
    struct X509_VERIFY_PARAM_st *wanted = openssl->SSL_CTX_get0_param(context);
    openssl->ERR_clear_error();
    if (authority[0] ? openssl->SSL_CTX_load_verify_file(context, authority) != 1
                     : openssl->SSL_CTX_set_default_verify_paths(context) != 1)
        return fail(openssl, authority[0] ? authority : "the system's authorities", reason);
    struct pccl_text name = {.length = 0}; /* the host without the zone, which certificates omit */
    pccl_text_add_bytes(&name, host, strcspn(host, "%"));
    if (openssl->X509_VERIFY_PARAM_set1_ip_asc(wanted, name.bytes) != 1 &&
        openssl->X509_VERIFY_PARAM_set1_host(wanted, name.bytes, 0) != 1)
        return fail(openssl, host, reason);
    openssl->SSL_CTX_set_verify(context, PCCL_SSL_VERIFY_PEER, NULL);
    return true;
}

void pccl_certificates_fingerprint(const struct pccl_openssl *openssl, const struct x509_st *certificate,
                                   char text[PCCL_FINGERPRINT_TEXT + 1])
{
    static const char digits[] = "0123456789abcdef";
    uint8_t bytes[PCCL_FINGERPRINT_BYTES];
    text[0] = '\0';
    if (!certificate || !openssl->X509_digest(certificate, openssl->EVP_sha256(), bytes, NULL))
        return;
    for (int i = 0; i < PCCL_FINGERPRINT_BYTES; i++) {
        text[2 * i] = digits[bytes[i] >> 4];
        text[2 * i + 1] = digits[bytes[i] & 15];
    }
    text[PCCL_FINGERPRINT_TEXT] = '\0';
}

/* Error texts for failed handshakes, for the logs and errors of both ends. */
#include "net/openssl.h"
#include "net/secure.h"

enum {
    REASON_MASK = 0x7fffff,
    REASON_NO_CERTIFICATE = 199,
    REASON_NOT_VERIFIED = 134,
    REASON_ALERTS = 1000,
    REASON_REVOKED = 1044, /* received certificate_revoked alert */
    REASON_HANDSHAKE = 1040,
    REASON_EXPIRED = 1045,
    REASON_OTHER_AUTHORITY = 1048,
    REASON_NO_KNOCK = 1049, /* received access_denied alert */
};

/* A connection whose handshake has failed. */
struct failure {
    const struct pccl_keys *keys;
    enum pccl_secure_role role;
    const struct pccl_openssl *openssl;
    const struct ssl_st *ssl;
    struct pccl_text *why;
};

const char *pccl_secure_plain_words(const struct pccl_keys *keys, enum pccl_secure_role role)
{
    switch (role) {
    case PCCL_SECURE_PEER:
        return pccl_keys_has_files(keys)
                   ? "the master does not encrypt because it has no certificate: start it with --tls-cert, --tls-key "
                     "and --tls-ca, or start this peer without PCCL_TLS_CERT, PCCL_TLS_KEY and PCCL_TLS_CA"
                   : "the master does not encrypt because it has no token: start it with --token-file, or start this "
                     "peer without PCCL_TOKEN and PCCL_TOKEN_FILE. If it has a token, its version of PCCL is older "
                     "than this peer's";
    case PCCL_SECURE_MASTER:
        return pccl_keys_has_files(keys) ? "this master requires encrypted connections: start the peer with a "
                                           "certificate in PCCL_TLS_CERT, PCCL_TLS_KEY and PCCL_TLS_CA"
                                         : "this master requires encrypted connections: start the peer with the "
                                           "master's token in PCCL_TOKEN or PCCL_TOKEN_FILE";
    case PCCL_SECURE_VISITOR: return "it does not encrypt: its address lacks https://";
    case PCCL_SECURE_PAGES: return "HTTPS required: use an address that begins with https://";
    default: return "one side of the link encrypts and the other does not";
    }
}

/* Explains an error about a certificate. told: reported by the other side. */
static void explain_certificate(const struct failure *by, unsigned long error, bool told)
{
    bool at_master = by->role == PCCL_SECURE_MASTER;
    long result = by->openssl->SSL_get_verify_result(by->ssl);
    const char *words = by->openssl->X509_verify_cert_error_string(result);
    if (error == REASON_NO_CERTIFICATE)
        pccl_text_format(by->why, "it has no certificate");
    else if (error == REASON_NO_KNOCK)
        pccl_text_format(by->why, "the master requires its token instead of a certificate");
    else if (error == REASON_NOT_VERIFIED && result == PCCL_X509_V_ERR_APPLICATION_VERIFICATION)
        pccl_text_format(by->why, "%s certificate has the wrong role: expected %s as the first OU of its subject",
                         at_master ? "its" : "the master's", at_master ? "pccl-join" : "pccl-master");
    else if (error == REASON_NOT_VERIFIED)
        pccl_text_format(by->why, "%s certificate is invalid: %s", at_master ? "its" : "the master's", words);
    else if (told)
        pccl_text_format(by->why, "%s does not accept %s certificate: %s", at_master ? "it" : "the master",
                         at_master ? "this master's" : "this peer's",
                         error == REASON_EXPIRED           ? "it has expired"
                         : error == REASON_OTHER_AUTHORITY ? "it was signed by an unknown authority"
                         : error == REASON_HANDSHAKE       ? "it has the wrong role; its first OU names the role"
                                                           : pccl_openssl_error(by->openssl));
    else
        pccl_text_format(by->why, "encryption failed: %s", pccl_openssl_error(by->openssl));
}

/* Returns true if the other side has reported that our token was revoked. */
static bool explain(const struct failure *by)
{
    unsigned long error = by->openssl->ERR_peek_error() & REASON_MASK;
    const char *words = pccl_openssl_error(by->openssl);
    bool told = error >= REASON_ALERTS; /* the other side has ended the handshake with an alert */
    if (by->role < PCCL_SECURE_DIALED && pccl_keys_has_files(by->keys)) {
        explain_certificate(by, error, told);
        return false;
    }
    switch (by->role) {
    case PCCL_SECURE_PEER:
        if (error == REASON_NOT_VERIFIED || error == REASON_NO_KNOCK)
            pccl_text_format(
                by->why, "the master that answered %s",
                pccl_keys_is_shared(by->keys)
                    ? "has a different key: its PCCL_SECRET differs, or its build of PCCL derives other keys from it"
                    : "is not the one that issued the token: its key is different");
        else if (error == REASON_REVOKED)
            pccl_text_format(by->why, "the master does not accept the token: it was revoked");
        else if (told)
            pccl_text_format(by->why, "the master does not accept the token: it has a different one");
        else
            pccl_text_format(by->why, "encryption failed: %s", words);
        break;
    case PCCL_SECURE_MASTER:
        if (error == REASON_NO_CERTIFICATE)
            pccl_text_format(by->why, "it has no token");
        else if (error == REASON_NOT_VERIFIED &&
                 by->openssl->SSL_get_verify_result(by->ssl) == PCCL_X509_V_ERR_CERT_REVOKED)
            pccl_text_format(by->why, "its token was revoked");
        else if (error == REASON_NOT_VERIFIED)
            pccl_text_format(by->why, "its token is not this master's");
        else if (told)
            pccl_text_format(by->why, "its token belongs to a different master");
        else
            pccl_text_format(by->why, "encryption failed: %s", words);
        break;
    case PCCL_SECURE_VISITOR:
        if (error == REASON_NOT_VERIFIED) {
            long result = by->openssl->SSL_get_verify_result(by->ssl);
            pccl_text_format(by->why, "unexpected certificate: %s",
                             result == PCCL_X509_V_ERR_APPLICATION_VERIFICATION
                                 ? "its fingerprint differs"
                                 : by->openssl->X509_verify_cert_error_string(result));
        } else {
            pccl_text_format(by->why, "encryption failed: %s", words);
        }
        break;
    default: pccl_text_format(by->why, "the two sides of the link have different keys: %s", words); break;
    }
    return by->role == PCCL_SECURE_PEER && error == REASON_REVOKED;
}

bool pccl_secure_explain(const struct pccl_keys *keys, enum pccl_secure_role role, const struct pccl_openssl *openssl,
                         const struct ssl_st *ssl, struct pccl_text *why)
{
    return explain(&(struct failure){keys, role, openssl, ssl, why});
}

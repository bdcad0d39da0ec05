#include "pki.h"

#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include <cstring>

namespace muster::testcluster {
namespace {

struct Free {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509_EXTENSION* extension) const { X509_EXTENSION_free(extension); }
};
template <class T>
using Owned = std::unique_ptr<T, Free>;

constexpr long kDay = 24L * 60 * 60;

std::unexpected<std::string> openssl_error(const std::string& what) {
  char text[256] = "";
  ERR_error_string_n(ERR_get_error(), text, sizeof text);
  return std::unexpected(what + ": " + text);
}

template <class Write>
std::string pem(Write write) {
  const Owned<BIO> bio(BIO_new(BIO_s_mem()));
  if (!bio || write(bio.get()) != 1) return {};
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return std::string(data, static_cast<std::size_t>(size));
}

bool add_extension(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const Owned<X509_EXTENSION> extension(X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str()));
  return extension && X509_add_ext(certificate, extension.get(), -1) == 1;
}

struct Subject {
  std::string common_name;
  std::vector<std::string> organisations;
};

struct Extension {
  int nid;
  std::string value;
};

// Signs with its own key if `authority` is null.
Result<KeyPair> make_certificate(const KeyPair* authority, const Subject& subject,
                                 const std::vector<Extension>& extensions) {
  const Owned<EVP_PKEY> key(EVP_EC_gen("P-256"));
  const Owned<X509> certificate(X509_new());
  if (!key || !certificate) return openssl_error("making a key");
  unsigned char serial[16];
  RAND_bytes(serial, sizeof serial);
  serial[0] = static_cast<unsigned char>((serial[0] & 0x7f) | 0x01);  // positive, of full length
  const std::unique_ptr<BIGNUM, decltype(&BN_free)> number(BN_bin2bn(serial, sizeof serial, nullptr),
                                                           &BN_free);
  BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate.get()));
  X509_set_version(certificate.get(), X509_VERSION_3);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -300);  // A clock may be set back a little.
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 30 * kDay);
  X509_set_pubkey(certificate.get(), key.get());
  X509_NAME* name = X509_get_subject_name(certificate.get());
  const auto add = [&](const char* field, const std::string& value) {
    X509_NAME_add_entry_by_txt(name, field, MBSTRING_UTF8,
                               reinterpret_cast<const unsigned char*>(value.c_str()), -1, -1, 0);
  };
  for (const std::string& organisation : subject.organisations) add("O", organisation);
  add("CN", subject.common_name);

  Owned<X509> issuer;
  Owned<EVP_PKEY> issuer_key;
  if (authority) {
    const Owned<BIO> certificate_text(BIO_new_mem_buf(authority->certificate.data(), -1));
    const Owned<BIO> key_text(BIO_new_mem_buf(authority->private_key.data(), -1));
    issuer.reset(PEM_read_bio_X509(certificate_text.get(), nullptr, nullptr, nullptr));
    issuer_key.reset(PEM_read_bio_PrivateKey(key_text.get(), nullptr, nullptr, nullptr));
    if (!issuer || !issuer_key) return openssl_error("reading the certificate authority");
  }
  X509* signer = issuer ? issuer.get() : certificate.get();
  X509_set_issuer_name(certificate.get(), X509_get_subject_name(signer));
  for (const Extension& extension : extensions)
    if (!add_extension(certificate.get(), signer, extension.nid, extension.value))
      return openssl_error("certificate extension " + extension.value);
  if (X509_sign(certificate.get(), issuer_key ? issuer_key.get() : key.get(), EVP_sha256()) == 0)
    return openssl_error("signing a certificate");

  KeyPair result;
  result.certificate = pem([&](BIO* bio) { return PEM_write_bio_X509(bio, certificate.get()); });
  result.private_key = pem([&](BIO* bio) {
    return PEM_write_bio_PrivateKey(bio, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  });
  result.public_key = pem([&](BIO* bio) { return PEM_write_bio_PUBKEY(bio, key.get()); });
  if (result.certificate.empty() || result.private_key.empty()) return openssl_error("writing a certificate");
  return result;
}

}  // namespace

Result<KeyPair> make_key() {
  const Owned<EVP_PKEY> key(EVP_EC_gen("P-256"));
  if (!key) return openssl_error("making a key");
  KeyPair result;
  result.private_key = pem([&](BIO* bio) {
    return PEM_write_bio_PrivateKey(bio, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  });
  result.public_key = pem([&](BIO* bio) { return PEM_write_bio_PUBKEY(bio, key.get()); });
  return result;
}

Result<KeyPair> make_authority(const std::string& name) {
  return make_certificate(nullptr, {name, {}},
                          {{NID_basic_constraints, "critical,CA:TRUE"},
                           {NID_key_usage, "critical,keyCertSign,cRLSign"},
                           {NID_subject_key_identifier, "hash"}});
}

Result<KeyPair> make_server_certificate(const KeyPair& authority, const std::vector<std::string>& names) {
  std::string joined;
  for (const std::string& name : names) joined += (joined.empty() ? "" : ",") + name;
  return make_certificate(&authority, {"kube-apiserver", {}},
                          {{NID_basic_constraints, "critical,CA:FALSE"},
                           {NID_key_usage, "critical,digitalSignature"},
                           {NID_ext_key_usage, "serverAuth"},
                           {NID_authority_key_identifier, "keyid"},
                           {NID_subject_alt_name, joined}});
}

Result<KeyPair> make_client_certificate(const KeyPair& authority, const std::string& user,
                                        const std::vector<std::string>& groups) {
  return make_certificate(&authority, {user, groups},
                          {{NID_basic_constraints, "critical,CA:FALSE"},
                           {NID_key_usage, "critical,digitalSignature"},
                           {NID_ext_key_usage, "clientAuth"},
                           {NID_authority_key_identifier, "keyid"}});
}

}  // namespace muster::testcluster

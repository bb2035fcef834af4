// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/http/tls.h"

#include <fmt/format.h>
#include <openssl/asn1.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509err.h>

#include <boost/asio/ssl/error.hpp>
#include <chrono>
#include <ctime>

#include "foundation/http/tls_impl.h"

namespace afterimage {
namespace {

namespace ssl = boost::asio::ssl;
using TlsFailure = boost::system::error_code;

std::unexpected<Error> not_usable(const std::string& file, std::string_view what,
                                  const TlsFailure& failure) {
  // What OpenSSL reports of an earlier file must not be taken for the next.
  ERR_clear_error();
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("{}: {} ({})", file, what, failure.message()));
}

/// OpenSSL compares a key with the certificate as it reads it.
bool is_mismatch(const TlsFailure& failure) {
  if (failure.category() != boost::asio::error::get_ssl_category()) return false;
  const int reason = ERR_GET_REASON(static_cast<unsigned long>(failure.value()));
  return reason == X509_R_KEY_VALUES_MISMATCH || reason == X509_R_KEY_TYPE_MISMATCH;
}

WallTime time_of(const ASN1_TIME* time) {
  std::tm parts{};
  if (time == nullptr || ASN1_TIME_to_tm(time, &parts) != 1) return {};
  return WallTime(std::chrono::seconds(timegm(&parts)));
}

}  // namespace

TlsIdentity::TlsIdentity(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TlsIdentity::~TlsIdentity() = default;

WallTime TlsIdentity::expires() const { return impl_->expires; }

Result<std::shared_ptr<const TlsIdentity>> TlsIdentity::load(const std::string& certificate_file,
                                                             const std::string& key_file) {
  auto impl = std::make_unique<Impl>();
  ssl::context& context = impl->context;
  TlsFailure failure;
  context.set_options(ssl::context::default_workarounds | ssl::context::no_sslv2 |
                          ssl::context::no_sslv3 | ssl::context::no_tlsv1 |
                          ssl::context::no_tlsv1_1 | ssl::context::no_compression,
                      failure);
  // A server must not wait for a person to type a pass phrase.
  context.set_password_callback(
      [](std::size_t /*size*/, ssl::context::password_purpose /*purpose*/) {
        return std::string();
      },
      failure);
  SSL_CTX* const handle = context.native_handle();
  SSL_CTX_set_mode(handle, SSL_MODE_RELEASE_BUFFERS);  // idle connections hold none
  context.use_certificate_chain_file(certificate_file, failure);
  if (failure) {
    return not_usable(certificate_file, "this is not a PEM file with a certificate", failure);
  }
  const std::string& key = key_file.empty() ? certificate_file : key_file;
  context.use_private_key_file(key, ssl::context::pem, failure);
  if (is_mismatch(failure)) {
    return not_usable(key, "this key does not belong to the certificate in " + certificate_file,
                      failure);
  }
  if (failure) {
    return not_usable(
        key, "this is not a PEM file with the certificate's private key, without a pass phrase",
        failure);
  }
  impl->expires = time_of(X509_get0_notAfter(SSL_CTX_get0_certificate(handle)));
  return std::shared_ptr<const TlsIdentity>(new TlsIdentity(std::move(impl)));
}

Result<std::shared_ptr<const TlsTrust>> TlsTrust::load(const std::string& ca_file) {
  ssl::context context(ssl::context::tls_client);
  TlsFailure failure;
  context.load_verify_file(ca_file, failure);
  if (failure) {
    return not_usable(ca_file, "this is not a PEM file with certificates of authorities", failure);
  }
  return std::shared_ptr<const TlsTrust>(new TlsTrust(ca_file));
}

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/redis/remote_tls.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "foundation/crypto/system_trust.h"

namespace afterimage {
namespace {

constexpr std::string_view kNoTlsThere =
    "name its TLS port, or write redis:// for a server without TLS";
constexpr std::string_view kShowCertificate =
    "if the server requires a client certificate, set remote.tls.certificate_file and "
    "remote.tls.key_file";

std::unexpected<Error> unusable(std::string_view file, std::string_view what) {
  const unsigned long error = ERR_get_error();
  ERR_clear_error();
  const char* const reason = ERR_reason_error_string(error);
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("{}: {} ({})", file, what, reason != nullptr ? reason : "unknown"));
}

/// No person is there to type a pass phrase.
int no_pass_phrase(char* /*into*/, int /*size*/, int /*writing*/, void* /*data*/) { return 0; }

// The socket of a session. OpenSSL's own writes with write(), which raises SIGPIPE.

int socket_of(BIO* bio) {
  return static_cast<int>(reinterpret_cast<std::intptr_t>(BIO_get_data(bio)));
}

int moved(BIO* bio, ssize_t bytes, int retry_flag) {
  BIO_clear_retry_flags(bio);
  const bool again = bytes < 0 && (errno == EAGAIN || errno == EINTR);
  if (again) BIO_set_flags(bio, retry_flag | BIO_FLAGS_SHOULD_RETRY);
  return static_cast<int>(bytes);
}

int write_socket(BIO* bio, const char* bytes, int size) {
  return moved(bio, ::send(socket_of(bio), bytes, static_cast<std::size_t>(size), MSG_NOSIGNAL),
               BIO_FLAGS_WRITE);
}

int read_socket(BIO* bio, char* into, int size) {
  return moved(bio, ::recv(socket_of(bio), into, static_cast<std::size_t>(size), 0),
               BIO_FLAGS_READ);
}

long control_socket(BIO* /*bio*/, int command, long /*number*/, void* /*pointer*/) {
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

const BIO_METHOD* socket_method() {
  static BIO_METHOD* const kMethod = [] {
    BIO_METHOD* const method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket");
    BIO_meth_set_write(method, write_socket);
    BIO_meth_set_read(method, read_socket);
    BIO_meth_set_ctrl(method, control_socket);
    return method;
  }();
  return kMethod;
}

bool is_numeric(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> into{};
  return ::inet_pton(AF_INET, host.c_str(), into.data()) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), into.data()) == 1;
}

/// Which name or address the certificate must have, and which one the server is asked for.
bool expect_name(SSL* session, const std::string& name) {
  X509_VERIFY_PARAM* const expected = SSL_get0_param(session);
  if (is_numeric(name)) return X509_VERIFY_PARAM_set1_ip_asc(expected, name.c_str()) == 1;
  X509_VERIFY_PARAM_set_hostflags(expected, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  // SSL_set_tlsext_host_name() without its cast; the name is copied.
  return X509_VERIFY_PARAM_set1_host(expected, name.c_str(), name.size()) == 1 &&
         SSL_ctrl(session, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
                  const_cast<char*>(name.c_str())) == 1;
}

/// What an earlier step left must not be taken for this one's.
void begin_step() {
  ERR_clear_error();
  errno = 0;
}

std::string text_of(const ASN1_OCTET_STRING* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const int family = ASN1_STRING_length(address) == 4 ? AF_INET : AF_INET6;
  if (ASN1_STRING_length(address) != (family == AF_INET ? 4 : 16)) return {};
  ::inet_ntop(family, ASN1_STRING_get0_data(address), text.data(), text.size());
  return text.data();
}

/// "cache.example, 10.0.0.5"
std::string names_in(const X509* certificate) {
  constexpr std::size_t kMostNames = 8;
  auto* const names = static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  std::string text;
  for (int i = 0, shown = 0; i < sk_GENERAL_NAME_num(names) && shown < static_cast<int>(kMostNames);
       ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names, i);
    std::string one;
    if (name->type == GEN_DNS) {
      one.assign(reinterpret_cast<const char*>(ASN1_STRING_get0_data(name->d.dNSName)),
                 static_cast<std::size_t>(ASN1_STRING_length(name->d.dNSName)));
    }
    if (name->type == GEN_IPADD) one = text_of(name->d.iPAddress);
    // It is not trusted yet: only what may stand in a log.
    const bool printable = std::ranges::all_of(one, [](char c) { return c > ' ' && c < 0x7F; });
    if (one.empty() || one.size() > 253 || !printable) continue;
    text += (text.empty() ? "" : ", ") + one;
    ++shown;
  }
  GENERAL_NAMES_free(names);
  return text.empty() ? "no name" : text;
}

}  // namespace

void RemoteTls::FreeContext::operator()(ssl_ctx_st* context) const { SSL_CTX_free(context); }

Result<std::shared_ptr<const RemoteTls>> RemoteTls::load(const RemoteTlsOptions& options) {
  std::shared_ptr<RemoteTls> tls(new RemoteTls(options));
  tls->context_.reset(SSL_CTX_new(TLS_client_method()));
  SSL_CTX* const context = tls->context();
  if (context == nullptr) return fail(ErrorCode::kUnavailable, "OpenSSL cannot be used");
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_default_passwd_cb(context, no_pass_phrase);
  // A partly sent value goes on from a later place; idle connections hold no buffers.
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                SSL_MODE_RELEASE_BUFFERS);
  if (options.ca_file.empty()) {
    SSL_CTX_set_default_verify_paths(context);
    const std::string elsewhere = system_trust_elsewhere();
    if (!elsewhere.empty()) SSL_CTX_load_verify_file(context, elsewhere.c_str());
  } else if (SSL_CTX_load_verify_file(context, options.ca_file.c_str()) != 1) {
    return unusable(options.ca_file, "this is not a PEM file with certificates of authorities");
  }
  ERR_clear_error();
  if (options.certificate_file.empty()) {
    if (options.key_file.empty()) return tls;
    return fail(ErrorCode::kInvalidArgument,
                options.key_file + ": a key without a certificate: name its certificate, too");
  }
  const std::string& key = options.key_file.empty() ? options.certificate_file : options.key_file;
  if (SSL_CTX_use_certificate_chain_file(context, options.certificate_file.c_str()) != 1) {
    return unusable(options.certificate_file, "this is not a PEM file with a certificate");
  }
  if (SSL_CTX_use_PrivateKey_file(context, key.c_str(), SSL_FILETYPE_PEM) != 1) {
    return unusable(key, "this is not a PEM file with the key of the certificate in " +
                             options.certificate_file + ", without a pass phrase");
  }
  return tls;
}

Result<std::unique_ptr<TlsStream>> TlsStream::create(std::shared_ptr<const RemoteTls> tls, int fd,
                                                     const std::string& host) {
  const std::string& server_name = tls->options().server_name;
  const std::string name = server_name.empty() ? host : server_name;
  SSL* const session = SSL_new(tls->context());
  std::unique_ptr<TlsStream> stream(new TlsStream(std::move(tls), session, name));
  BIO* const bio = session == nullptr ? nullptr : BIO_new(socket_method());
  if (bio == nullptr || !expect_name(session, name)) {
    BIO_free(bio);
    ERR_clear_error();
    return fail(ErrorCode::kUnavailable, "a certificate cannot be checked for '" + name + "'");
  }
  BIO_set_data(bio, reinterpret_cast<void*>(static_cast<std::intptr_t>(fd)));
  BIO_set_init(bio, 1);
  SSL_set_bio(session, bio, bio);
  SSL_set_app_data(session, stream.get());
  SSL_set_verify(session, SSL_VERIFY_PEER, on_certificate);
  return stream;
}

/// Changes no verdict: notes which names a refused certificate has, for the message.
int TlsStream::on_certificate(int accepted, X509_STORE_CTX* check) {
  if (accepted == 1 || X509_STORE_CTX_get_error_depth(check) != 0) return accepted;
  const void* const session =
      X509_STORE_CTX_get_ex_data(check, SSL_get_ex_data_X509_STORE_CTX_idx());
  auto* const stream = static_cast<TlsStream*>(SSL_get_app_data(static_cast<const SSL*>(session)));
  stream->presented_ = names_in(X509_STORE_CTX_get_current_cert(check));
  return accepted;
}

TlsStream::~TlsStream() { SSL_free(session_); }

Result<std::size_t> TlsStream::handshake() {
  begin_step();
  const int result = SSL_connect(session_);
  return step(result, 1);
}

Result<std::size_t> TlsStream::read(std::span<char> into) {
  begin_step();
  std::size_t bytes = 0;
  const int result = SSL_read_ex(session_, into.data(), into.size(), &bytes);
  heard_ |= result == 1;
  return step(result, bytes);
}

Result<std::size_t> TlsStream::write(std::string_view bytes) {
  begin_step();
  std::size_t written = 0;
  const int result = SSL_write_ex(session_, bytes.data(), bytes.size(), &written);
  return step(result, written);
}

Result<std::size_t> TlsStream::step(int result, std::size_t bytes) {
  if (result == 1) return bytes;
  const int number = errno;
  const int kind = SSL_get_error(session_, result);
  if (kind == SSL_ERROR_WANT_READ || kind == SSL_ERROR_WANT_WRITE) {
    wanted_ = kind == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT;
    return 0;
  }
  const unsigned long error = ERR_peek_error();
  ERR_clear_error();
  return fail(ErrorCode::kUnavailable, kind == SSL_ERROR_SSL
                                           ? reason_of(error)
                                           : closed_reason(kind == SSL_ERROR_SYSCALL ? number : 0));
}

std::string TlsStream::closed_reason(int number) const {
  const std::string why = number == 0 ? "the server closed the connection" : std::strerror(number);
  if (SSL_is_init_finished(session_) == 0) {
    return why + " during the TLS handshake: " + std::string(kNoTlsThere);
  }
  if (heard_) return why;
  // With TLS 1.3 a server refuses a client when that one takes the handshake for done, and what it says
  // is lost with the connection.
  const std::string& file = tls_->options().certificate_file;
  return why + " right after the TLS handshake: " +
         (file.empty() ? std::string(kShowCertificate)
                       : "does it accept the certificate in " + file + "?");
}

std::string TlsStream::reason_of(unsigned long error) const {
  const RemoteTlsOptions& options = tls_->options();
  switch (ERR_GET_REASON(error)) {
    case SSL_R_CERTIFICATE_VERIFY_FAILED:
      return refused_certificate();
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
    case SSL_R_HTTP_REQUEST:
      return "the server does not answer in TLS: " + std::string(kNoTlsThere);
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
      return "the server offers no TLS 1.2 or later: allow it there (tls-protocols)";
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
    case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
      if (options.certificate_file.empty()) return std::string(kShowCertificate);
      break;
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_TLSV1_ALERT_ACCESS_DENIED:
      return fmt::format("the server does not accept the certificate in {} ({})",
                         options.certificate_file, ERR_reason_error_string(error));
    default:
      break;
  }
  const char* const reason = ERR_reason_error_string(error);
  return fmt::format("TLS failed: {}", reason != nullptr ? reason : "unknown reason");
}

/// Why the server's certificate is not accepted, and what to do.
std::string TlsStream::refused_certificate() const {
  const long verdict = SSL_get_verify_result(session_);
  const RemoteTlsOptions& options = tls_->options();
  const std::string authorities =
      options.ca_file.empty() ? "the system trusts" : options.ca_file + " holds";
  switch (verdict) {
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return fmt::format(
          "the server's certificate is not for '{}' but for {}: use one of these names in the URL, "
          "or "
          "set remote.tls.server_name to it",
          name_, presented_);
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return "the server's certificate, or that of its authority, has expired: renew it there";
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return "the server's certificate is not valid yet: compare the clocks";
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
      return fmt::format(
          "the server's certificate is by no authority that {} ({}): set remote.tls.ca_file to the "
          "PEM file of its authority",
          authorities, X509_verify_cert_error_string(verdict));
    default:
      return fmt::format("the server's certificate is not accepted: {}",
                         X509_verify_cert_error_string(verdict));
  }
}

}  // namespace afterimage

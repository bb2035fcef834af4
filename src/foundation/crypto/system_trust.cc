// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/crypto/system_trust.h"

#include <openssl/x509.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>

#include "foundation/platform/environment.h"

namespace afterimage {
namespace {

/// Debian, Fedora, openSUSE, older Fedora, Alpine.
constexpr std::array kBundles{
    "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"};

bool exists(const char* path) {
  std::error_code unknown;
  return std::filesystem::exists(path, unknown);
}

}  // namespace

std::string system_trust_elsewhere() {
  const bool is_told = environment(X509_get_default_cert_file_env()).has_value() ||
                       environment(X509_get_default_cert_dir_env()).has_value();
  if (is_told || exists(X509_get_default_cert_file()) || exists(X509_get_default_cert_dir())) {
    return {};
  }
  const auto* const found = std::ranges::find_if(kBundles, exists);
  return found == kBundles.end() ? std::string() : *found;
}

}  // namespace afterimage

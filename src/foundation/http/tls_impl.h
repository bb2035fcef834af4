// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <boost/asio/ssl/context.hpp>

#include "foundation/http/tls.h"

namespace afterimage {

struct TlsIdentity::Impl {
  /// Connections only read it: OpenSSL counts references by itself.
  mutable boost::asio::ssl::context context{boost::asio::ssl::context::tls_server};
  WallTime expires{};
};

}  // namespace afterimage

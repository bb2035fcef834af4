// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <string>

namespace afterimage {

/// The system's file of authorities whose certificates clients of TLS accept, if it is not where OpenSSL looks; else empty. A program
/// that is linked with OpenSSL's archive looks where the distribution that built it has them, and others have them elsewhere.
/// Threads  Any.
[[nodiscard]] std::string system_trust_elsewhere();

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/platform/environment.h"

#include <cstdlib>

namespace afterimage {

std::optional<std::string> environment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

void set_environment_default(const std::string& name, const std::string& value) {
  constexpr int kKeepExisting = 0;
  ::setenv(name.c_str(), value.c_str(), kKeepExisting);
}

}  // namespace afterimage

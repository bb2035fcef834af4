// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <string>
#include <vector>

#include "gateway/config/settings.h"
#include "gateway/model_server/model_server.h"

namespace afterimage {

/// What an operator reads when a gateway has started before another server: who answers there, what is reused of it,
/// what is not, and which setting changes that. Each is one line.
/// `info`: an error says that nothing answers there.
[[nodiscard]] std::vector<std::string> server_words(const Result<ModelServer>& info,
                                                    const Settings& settings);

}  // namespace afterimage

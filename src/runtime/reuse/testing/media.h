// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "afterimage/reuse.h"

namespace afterimage::testing {

/// An image whose file has these bytes.
inline MediaItem image(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {.modality = Modality::kImage,
          .files = {std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end())}};
}

/// Two rows of 16, all bytes the same.
inline EncoderOutput output(unsigned fill) {
  return {{.dtype = DType::kF32,
           .shape = Shape{2, 16},
           .bytes = std::vector<std::byte>(128, static_cast<std::byte>(fill))}};
}

}  // namespace afterimage::testing

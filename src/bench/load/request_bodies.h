// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "afterimage/units.h"
#include "bench/load/load_trace.h"

namespace afterimage {

struct BodyOptions {
  std::string model;
  bool stream = true;
};

/// Makes the bodies of a load's requests (OpenAI chat completions), in the trace's order. Pictures are
/// data URLs; the most recently used ones are kept encoded. Texts are made of common words, and
/// follow from the trace's seed and their number.
///
/// Threads  Not thread-safe.
class RequestBodies {
 public:
  static constexpr Bytes kKeptPictures = 256_MiB;

  /// `trace` outlives it.
  RequestBodies(const LoadTrace& trace, BodyOptions options);

  /// The body of the next request; nullptr after the last.
  [[nodiscard]] std::shared_ptr<const std::string> next();

 private:
  struct Turn {
    std::uint32_t text = 0;
    std::vector<LoadPicture> pictures;
  };
  struct Encoded {
    std::uint32_t id = 0;
    std::string url;
  };
  using Order = std::list<Encoded>;  // the most recently used first

  const std::string& picture_url(const LoadPicture& picture);
  void append_user(std::string& out, const Turn& turn);

  const LoadTrace& trace_;
  const BodyOptions options_;
  std::size_t at_ = 0;
  std::unordered_map<std::uint32_t, std::size_t> left_;  // requests of each session still to come
  std::unordered_map<std::uint32_t, std::vector<Turn>> sessions_;
  Order order_;
  std::unordered_map<std::uint32_t, Order::iterator> encoded_;
  std::size_t kept_ = 0;  // bytes
};

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/proxy/id_generator.h"

#include <array>
#include <cstring>

#include "afterimage/secret.h"
#include "foundation/platform/random.h"

namespace afterimage {

namespace {

/// 16 digits. Two names a request, so a formatting library is too slow.
void append_hex(std::string& to, std::uint64_t value) {
  std::array<char, 16> digits{};
  for (auto digit = digits.rbegin(); digit != digits.rend(); ++digit, value >>= 4U) {
    *digit = "0123456789abcdef"[value & 0xFU];
  }
  to.append(digits.data(), digits.size());
}

}  // namespace

IdGenerator::IdGenerator(const WallClock& clock) : clock_(clock) {
  const auto chance = random_secret();
  if (!chance.has_value()) {  // names are still unlikely to meet
    high_ = static_cast<std::uint64_t>(clock.now().time_since_epoch().count());
    return;
  }
  std::memcpy(&high_, chance->data(), sizeof high_);
  std::memcpy(&low_, chance->data() + sizeof high_, sizeof low_);
}

std::string IdGenerator::name(std::string_view prefix) {
  const std::uint64_t count = count_++;
  std::string name;
  name.reserve(prefix.size() + 32);
  name += prefix;
  append_hex(name, Rng(high_ + count).next());
  append_hex(name, Rng(low_ ^ count).next());
  return name;
}

ResponseStamp IdGenerator::answer(ApiOperation operation) {
  return {
      .id = name(operation == ApiOperation::kChat ? "chatcmpl-" : "cmpl-"),
      .created = std::chrono::floor<std::chrono::seconds>(clock_.now()).time_since_epoch().count()};
}

std::string IdGenerator::call() { return name("call-"); }

std::string IdGenerator::suffix() { return name(""); }

std::string IdGenerator::request() { return name("req-"); }

}  // namespace afterimage

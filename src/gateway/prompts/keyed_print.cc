// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/prompts/keyed_print.h"

#include <array>
#include <bit>
#include <cstring>

namespace afterimage {
namespace {

std::uint64_t word_at(const std::byte* bytes) {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

/// SipHash with one round a word and three at the end.
class SipState {
 public:
  SipState(std::uint64_t low, std::uint64_t high)
      : v0_(low ^ 0x736f6d6570736575ULL),
        v1_(high ^ 0x646f72616e646f6dULL),
        v2_(low ^ 0x6c7967656e657261ULL),
        v3_(high ^ 0x7465646279746573ULL) {}

  void add(std::uint64_t word) {
    v3_ ^= word;
    round();
    v0_ ^= word;
  }
  std::uint64_t finish() {
    v2_ ^= 0xFF;
    round();
    round();
    round();
    return v0_ ^ v1_ ^ v2_ ^ v3_;
  }

 private:
  void round() {
    v0_ += v1_;
    v1_ = std::rotl(v1_, 13) ^ v0_;
    v0_ = std::rotl(v0_, 32);
    v2_ += v3_;
    v3_ = std::rotl(v3_, 16) ^ v2_;
    v0_ += v3_;
    v3_ = std::rotl(v3_, 21) ^ v0_;
    v2_ += v1_;
    v1_ = std::rotl(v1_, 17) ^ v2_;
    v2_ = std::rotl(v2_, 32);
  }

  std::uint64_t v0_, v1_, v2_, v3_;
};

}  // namespace

PrintKey::PrintKey(const Secret& secret)
    : low_(word_at(secret.data())),
      high_(word_at(secret.data() + 8)),
      pad_(word_at(secret.data() + 16)) {}

std::uint64_t PrintKey::print(std::string_view text) const {
  SipState state(low_, high_);
  const std::uint64_t size = text.size();
  while (text.size() >= 8) {
    state.add(word_at(reinterpret_cast<const std::byte*>(text.data())));
    text.remove_prefix(8);
  }
  std::array<std::byte, 8> last{};
  if (!text.empty()) std::memcpy(last.data(), text.data(), text.size());
  state.add(word_at(last.data()) | (size << 56U));
  return state.finish();
}

std::uint64_t PrintKey::print(std::uint64_t one, std::uint64_t other) const {
  SipState state(low_, ~high_);
  state.add(one);
  state.add(other);
  return state.finish();
}

}  // namespace afterimage

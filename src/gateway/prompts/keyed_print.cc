// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/prompts/keyed_print.h"

#include <array>
#include <bit>
#include <cstring>

namespace afterimage {
namespace {

template <typename Word>
std::uint64_t load(const void* bytes) {
  Word word = 0;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}
std::uint64_t word_at(const void* bytes) { return load<std::uint64_t>(bytes); }

/// The last bytes behind the whole words of a text, without a loop or a call: loads may overlap.
std::uint64_t tail_of(std::string_view text) {
  const std::size_t size = text.size();
  const std::size_t left = size % 8;
  if (left == 0) return 0;
  const char* const end = text.data() + size;
  if (size > 8) return word_at(end - 8) >> (8 * (8 - left));
  const char* const begin = end - left;
  if (left >= 4) {
    return load<std::uint32_t>(begin) | (load<std::uint32_t>(end - 4) << (8 * (left - 4)));
  }
  if (left == 1) return load<std::uint8_t>(begin);
  return load<std::uint16_t>(begin) | (load<std::uint8_t>(end - 1) << (8 * (left - 1)));
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
      pad_(word_at(secret.data() + 16)),
      words_(factors('w')),
      pairs_(factors('p')) {}

PrintKey::Factors PrintKey::factors(char name) const {
  Factors made{};
  for (std::size_t i = 0; i < made.size(); ++i) {
    const std::array<char, 2> text{name, static_cast<char>('0' + i)};
    made.at(i) = print(std::string_view(text.data(), text.size()));
  }
  return made;
}

std::uint64_t PrintKey::print(std::string_view text) const {
  SipState state(low_, high_);
  const std::uint64_t size = text.size();
  const char* const whole = text.data() + (size & ~std::uint64_t{7});
  for (const char* at = text.data(); at != whole; at += 8) state.add(word_at(at));
  state.add(tail_of(text) | (size << 56U));
  return state.finish();
}

std::uint64_t PrintKey::print_word(std::string_view word) const {
  const std::size_t size = word.size();
  if (size > kShortWord) return print(word);
  if (size < 8) return print_short(tail_of(word), 0, size);
  return print_short(word_at(word.data()), tail_of(word), size);
}

}  // namespace afterimage

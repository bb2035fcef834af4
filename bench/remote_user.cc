// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
//
// One process that shares entries through servers, told what to do line by line: scripts/redis-matrix.py
// runs several of them.
//
//   remote_user URL TIMEOUT_MS [CA_FILE [SERVER_NAME]]
//
//   put FIRST COUNT BYTES     "ok", once other processes can find them, or why not
//   get FIRST COUNT BYTES     "HITS MISSES WRONG"
//   erase FIRST COUNT         "ERASED", how many for certain, and why not the first that is not
//   reason                    what is degraded; an empty line: nothing
//
// Passwords come from AFTERIMAGE_REMOTE_PASSWORD and AFTERIMAGE_REMOTE_SENTINEL_PASSWORD.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "afterimage/clock.h"
#include "afterimage/memory_budget.h"
#include "afterimage/shared_store.h"
#include "foundation/platform/environment.h"
#include "foundation/platform/random.h"

namespace afterimage {
namespace {

TierKey key_of(std::uint64_t n) {
  TierKey key{.entry_class = EntryClass::kEncoderOutput};
  Rng rng(n);
  for (std::byte& byte : key.bytes) byte = static_cast<std::byte>(rng.below(256));
  return key;
}

std::vector<std::byte> bytes_of(std::uint64_t n, std::size_t size) {
  std::vector<std::byte> bytes(size);
  Rng rng(~n);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(rng.below(256));
  return bytes;
}

class User {
 public:
  explicit User(Tier& tier) : tier_(tier) {}

  std::string put(std::uint64_t first, std::uint64_t count, std::size_t size) {
    for (std::uint64_t n = first; n < first + count; ++n) {
      const auto put = tier_.put(key_of(n), {}, bytes_of(n, size));
      if (!put.has_value()) return put.error().message;
    }
    const auto flushed = tier_.flush();
    return flushed.has_value() ? "ok" : flushed.error().message;
  }

  std::string get(std::uint64_t first, std::uint64_t count, std::size_t size) {
    std::uint64_t hits = 0;
    std::uint64_t wrong = 0;
    for (std::uint64_t n = first; n < first + count; ++n) {
      const auto found = tier_.get(key_of(n), memory_);
      if (!found.has_value() || !found->has_value()) continue;
      const bool right = std::ranges::equal((*found)->bytes, bytes_of(n, size));
      ++(right ? hits : wrong);
    }
    std::ostringstream out;
    out << hits << ' ' << count - hits - wrong << ' ' << wrong;
    return out.str();
  }

  std::string erase(std::uint64_t first, std::uint64_t count) {
    std::uint64_t erased = 0;
    std::string why;
    for (std::uint64_t n = first; n < first + count; ++n) {
      const auto done = tier_.erase(key_of(n));
      if (done.has_value()) ++erased;
      if (!done.has_value() && why.empty()) why = " " + done.error().message;
    }
    return std::to_string(erased) + why;
  }

  std::string answer(const std::string& line) {
    std::istringstream words(line);
    std::string verb;
    std::uint64_t first = 0;
    std::uint64_t count = 0;
    std::size_t size = 0;
    words >> verb >> first >> count >> size;
    if (verb == "put") return put(first, count, size);
    if (verb == "get") return get(first, count, size);
    if (verb == "erase") return erase(first, count);
    if (verb == "reason") return tier_.stats().degraded_reason;
    return "put, get, erase or reason";
  }

 private:
  Tier& tier_;
  MemoryBudget memory_{256_MiB};
};

int serve(int argc, char** argv) {
  const auto argument = [&](int i) { return i < argc ? std::string(argv[i]) : std::string(); };
  const SystemClock clock;
  const auto store = SharedStore::open(
      {.url = argument(1),
       .password = environment("AFTERIMAGE_REMOTE_PASSWORD").value_or(""),
       .sentinel_password = environment("AFTERIMAGE_REMOTE_SENTINEL_PASSWORD").value_or(""),
       .tls_ca_file = argument(3),
       .tls_server_name = argument(4),
       .put_timeout = std::chrono::seconds(5),
       .timeout = std::chrono::milliseconds(std::atoi(argument(2).c_str()))},
      clock);
  if (!store.has_value()) {
    std::cout << "refused: " << store.error().message << std::endl;
    return 1;
  }
  User user((*store)->tier());
  std::cout << "open" << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << user.answer(line) << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace afterimage

int main(int argc, char** argv) { return afterimage::serve(argc, argv); }

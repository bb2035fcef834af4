// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Well-formed server replies that say something else: another entry, other lengths, other types,
// with good checksums; and commands that a server accepts and does not execute.
#include "fire/forged_remote.h"

#include <cstring>

#include "storage/memory/checksum.h"
#include "storage/redis/testing/scripted_server.h"
#include "storage/remote/manifest.h"
#include "storage/remote/remote_tier.h"

namespace afterimage::fire {

using testing::Said;
using testing::ScriptedServer;
using testing::tier_bytes;
using testing::tier_key;

namespace {

using namespace std::chrono_literals;
using Words = ScriptedServer::Words;

constexpr std::size_t kSmall = 700;
constexpr std::size_t kLarge = 5'000;
constexpr Bytes kChunk = 2_KiB;
constexpr Bytes kLargest = 64_KiB;
// Layout of a manifest: docs/formats/remote.md.
constexpr std::size_t kVersionAt = 8;
constexpr std::size_t kSizeAt = 12;
constexpr std::size_t kSumAt = 16;
constexpr std::size_t kKeyAt = 32;
constexpr std::size_t kCostAt = 88;
constexpr std::size_t kSumsAt = 100;

EntryMeta meta_of(std::size_t size) {
  return {.tensors = {{DType::kU8, Shape{size}}}, .cost = Duration(size)};
}

std::uint32_t word_at(const std::string& text, std::size_t at) {
  std::uint32_t word = 0;
  std::memcpy(&word, text.data() + at, sizeof word);
  return word;
}
void set_word(std::string& text, std::size_t at, std::uint32_t word) {
  std::memcpy(text.data() + at, &word, sizeof word);
}
/// Recomputes the checksums, as an attacker could.
void sign(std::string& text) {
  std::memset(text.data() + kSumAt, 0, 8);
  const auto manifest = std::as_bytes(std::span(text)).first(word_at(text, kSizeAt));
  const std::uint64_t sum = short_checksum(manifest);
  std::memcpy(text.data() + kSumAt, &sum, sizeof sum);
}
/// Adds bytes to a manifest, with matching lengths and checksums.
void widen(std::string& text, std::size_t at, std::size_t bytes) {
  text.insert(at, bytes, '\0');
  set_word(text, kSizeAt, word_at(text, kSizeAt) + static_cast<std::uint32_t>(bytes));
}

std::string bulk(const std::string& text) {
  return to_resp({.kind = RespKind::kBulk, .text = text});
}
/// The content of a bulk reply.
std::string text_of(const std::string& answer) {
  const std::size_t begin = answer.find('\n') + 1;
  return answer.substr(begin, answer.size() - begin - 2);
}

/// One way to forge the reply to a GET.
struct ReplyForgery {
  const char* name;
  bool chunk;    // forge a chunk; otherwise the value with the manifest
  bool damaged;  // counted as damage, which is not a server failure
  std::string (*tell)(const std::string& honest);
};

template <auto kChange>
std::string changed(const std::string& honest) {
  std::string text = text_of(honest);
  kChange(text);
  return bulk(text);
}

const ReplyForgery kReplies[] = {
    {"a key", false, true, changed<[](std::string& t) { t[kKeyAt] ^= 1, sign(t); }>},
    {"magic", false, true, changed<[](std::string& t) { t[7] = '2', sign(t); }>},
    {"a version", false, true, changed<[](std::string& t) { t[kVersionAt] = 2, sign(t); }>},
    {"a cost, unsigned", false, true, changed<[](std::string& t) { t[kCostAt] ^= 1; }>},
    {"one checksum too many", false, true, changed<[](std::string& t) {
       const std::size_t size = word_at(t, kSizeAt);
       widen(t, size, sizeof(Checksum));
       set_word(t, kSumsAt, 2);
       std::memcpy(t.data() + size, t.data() + size - sizeof(Checksum), sizeof(Checksum));
       sign(t);
     }>},
    {"bytes after the tensor specs", false, true, changed<[](std::string& t) {
       widen(t, word_at(t, kSizeAt) - sizeof(Checksum), 8);
       sign(t);
     }>},
    {"a truncated manifest", false, true, changed<[](std::string& t) { t.resize(120); }>},
    {"a byte after the value", false, true, changed<[](std::string& t) { t += 'x'; }>},
    {"a truncated value", false, true, changed<[](std::string& t) { t.pop_back(); }>},
    {"a flipped bit", false, true, changed<[](std::string& t) { t.back() ^= 1; }>},
    {"a number", false, true, [](const std::string& honest) { return ":" + honest.substr(1); }},
    {"a bulk longer than its length", false, false,
     [](const std::string& honest) { return honest.substr(0, honest.size() - 2) + "xy"; }},
    {"a flipped bit of a chunk", true, true, changed<[](std::string& t) { t[9] ^= 1; }>},
    {"a longer chunk", true, true, changed<[](std::string& t) { t += 'x'; }>},
    {"a shorter chunk", true, true, changed<[](std::string& t) { t.pop_back(); }>},
    {"a missing chunk", true, false, [](const std::string&) -> std::string { return "$-1\r\n"; }},
};

/// A server and one client of it.
struct RemoteParty {
  explicit RemoteParty(ScriptedServer& server) {
    RemoteTierOptions options{.servers = {.seeds = {server.address()},
                                          .connect_timeout = 2s,
                                          .timeout = 2s,
                                          .connections = 1,
                                          .breaker = {.failure_threshold = 1,
                                                      .open_duration = 1ms,
                                                      .ramp_tenth = 0ms,
                                                      .ramp_third = 0ms}},
                              .chunk = kChunk,
                              .largest = kLargest,
                              .flush_timeout = 20s,
                              .senders = 1,
                              .known_absent = 0ms};
    tier = RemoteTier::open(std::move(options), memory, clock).value();
  }
  bool put(std::uint64_t n, std::size_t size, std::uint64_t version = 0) const {
    return tier->put(tier_key(n), meta_of(size), tier_bytes(n + version, size)) && tier->flush();
  }
  std::optional<TierEntry> get(std::uint64_t n) {
    // Not the message about a server that it does not ask for a moment.
    const Duration until = clock.now() + 20s;
    while (true) {
      const std::uint64_t before = tier->remote_stats().circuit_rejected;
      auto found = tier->get(tier_key(n), memory);
      const bool asked = tier->remote_stats().circuit_rejected == before;
      if (asked || clock.now() > until) {
        return found.has_value() ? *std::move(found) : std::nullopt;
      }
    }
  }
  bool finds(std::uint64_t n, std::size_t size, std::uint64_t version = 0) {
    const auto found = get(n);
    return found.has_value() && found->meta == meta_of(size) &&
           std::ranges::equal(found->bytes, tier_bytes(n + version, size));
  }

  MemoryBudget memory{16_MiB};
  SystemClock clock;
  std::unique_ptr<RemoteTier> tier;
};

class RemoteForger {
 public:
  explicit RemoteForger(Tally& tally) : tally_(tally) {}

  void every_reply() {
    for (const ReplyForgery& forgery : kReplies) {
      ScriptedServer server;
      RemoteParty party(server);
      const std::size_t size = forgery.chunk ? kLarge : kSmall;
      count(party.put(1, size), "before any fault: a put fails");
      const std::string kind = forgery.chunk ? "afi1:c:" : "afi1:m:";
      server.set_script([&](const Words& words, const std::string& honest) -> Said {
        const bool meant = words[0] == "GET" && words[1].starts_with(kind) &&
                           (!forgery.chunk || words[1].ends_with(":1"));
        return {meant ? forgery.tell(honest) : honest};
      });
      const std::string what = std::string(forgery.name) + " of a remote entry";
      must_miss(party, 1, what);
      if (forgery.damaged) {
        // The server is healthy, so the entry must be reported as damaged.
        count(party.tier->stats().damaged == 1, what + " is not counted as damage");
        count(party.tier->remote_stats().cluster.times_opened == 0,
              what + " is counted as a server failure");
      }
      server.set_script(nullptr);
      count(serves_again(party, 1, size), what + " is returned forever");
    }
  }
  void anothers_entry() {
    ScriptedServer server;
    RemoteParty party(server);
    count(party.put(1, kSmall) && party.put(2, kSmall), "before any fault: a put fails");
    server.set_script([&](const Words& words, const std::string& honest) -> Said {
      return {words[0] == "GET" ? bulk(server.another_value(words[1])) : honest};
    });
    must_miss(party, 1, "another's entry");
  }
  /// An entry larger than any that this client puts, although it is intact.
  void too_large() {
    ScriptedServer server;
    RemoteParty party(server);
    const auto value = tier_bytes(1, 2 * kLargest.value());
    const auto manifest = encode_manifest({.key = tier_key(1),
                                           .meta = {},
                                           .value_bytes = value.size(),
                                           .sums = {Checksum::of(value)}});
    std::string all(reinterpret_cast<const char*>(manifest.data()), manifest.size());
    all.append(reinterpret_cast<const char*>(value.data()), value.size());
    server.set_script([&](const Words& words, const std::string& honest) -> Said {
      return {words[0] == "GET" ? bulk(all) : honest};
    });
    must_miss(party, 1, "an oversized remote entry");
  }
  void chunks_of_two() {
    ScriptedServer server;
    RemoteParty party(server);
    count(party.put(1, kLarge) && party.put(2, kLarge), "before any fault: a put fails");
    lost_unless(party.finds(1, kLarge) && party.finds(2, kLarge),
                "one entry's chunks under another entry's names");
  }
  /// A replacement that failed keeps the entry that it was to replace.
  void half_a_replacement() {
    ScriptedServer server;
    RemoteParty party(server);
    count(party.put(1, kLarge), "before any fault: a put fails");
    server.set_script([](const Words& words, const std::string& honest) -> Said {
      const bool second =
          words[0] == "SET" && words[1].starts_with("afi1:c:") && words[1].ends_with(":1");
      return {second ? "-OOM command not allowed\r\n" : honest};
    });
    count(!party.put(1, kLarge, 77), "half an entry was acknowledged");
    server.set_script(nullptr);
    lost_unless(party.finds(1, kLarge), "the entry that was to be replaced is gone");
  }
  /// The server reports a previous value that is another entry's or was just put: no entry's chunks
  /// may be deleted for it.
  void chunks_of_whom() {
    for (const bool own : {true, false}) {
      ScriptedServer server;
      RemoteParty party(server);
      std::string before;
      server.set_script([&](const Words& words, const std::string& honest) -> Said {
        if (words[0] != "SET" || !words[1].starts_with("afi1:m:")) return {honest};
        const std::string told = own ? words[2] : before;
        before = words[2];
        return {told.empty() ? honest : bulk(told)};
      });
      count(party.put(2, kLarge) && party.put(1, kLarge), "before any fault: a put fails");
      server.set_script(nullptr);
      lost_unless(party.finds(1, kLarge), "a put deletes its own chunks");
      lost_unless(party.finds(2, kLarge), "a replacement deletes another entry's chunks");
    }
  }
  void chunks_of_whom_is_erased() {
    ScriptedServer server;
    RemoteParty party(server);
    std::string others;
    server.set_script([&](const Words& words, const std::string& honest) -> Said {
      const bool meant = words[1] == manifest_name(tier_key(2));
      if (words[0] == "SET" && meant) others = words[2];
      return {words[0] == "GET" && !meant ? bulk(others) : honest};
    });
    count(party.put(1, kLarge) && party.put(2, kLarge), "before any fault: a put fails");
    count(party.tier->erase(tier_key(1)).has_value(), "an erase fails");
    server.set_script(nullptr);
    lost_unless(party.finds(2, kLarge), "an erase deletes another entry's chunks");
  }
  void what_servers_say() {
    says("SET", "+QUEUED\r\n", "a put that was not executed is acknowledged",
         [](RemoteParty& party) { return !party.put(1, kSmall); });
    says("DEL", "+OK\r\n", "an erase that was not executed is acknowledged",
         [](RemoteParty& party) { return !party.tier->erase(tier_key(1)); });
    says("EXISTS", "$1\r\n1\r\n", "an unexpected reply is taken for a yes", [](RemoteParty& party) {
      party.tier->probe(std::array{tier_key(1)});
      return !party.tier->holds(tier_key(1));
    });
    // A duplicated reply is not the reply to the next command.
    says("EXISTS", ":1\r\n:1\r\n", "a reply is taken for the next command's",
         [](RemoteParty& party) {
           party.tier->probe(std::array{tier_key(1)});
           party.tier->probe(std::array{tier_key(2)});
           return party.tier->holds(tier_key(1)) && !party.tier->holds(tier_key(2));
         });
  }
  /// A delayed reply may still arrive: the connection is not used for anything else.
  void a_late_answer() {
    ScriptedServer server;
    RemoteParty party(server);
    count(party.put(1, kSmall) && party.put(2, kSmall), "before any fault: a put fails");
    std::uint64_t astray = 0;
    server.set_script([&](const Words& words, const std::string& honest) -> Said {
      if (astray == server.asking()) return {bulk(server.another_value(words[1]))};
      if (words[0] != "GET" || astray != 0) return {honest};
      astray = server.asking();
      return {":1\r\n"};
    });
    must_miss(party, 1, "a number");
    lost_unless(party.finds(2, kSmall), "a late reply is taken for the next command's");
  }
  /// A write that timed out completes while its entry is being erased.
  void a_late_write() {
    ScriptedServer server;
    RemoteParty party(server);
    std::optional<Words> late;
    server.set_script([&](const Words& words, const std::string& honest) -> Said {
      if (words[0] == "SET") {
        late = words;
        server.keep(words[1], std::nullopt);
        return {"", Said::Then::kClose};
      }
      if (words[0] == "DEL" && late.has_value()) {
        server.keep((*late)[1], (*late)[2]);
        late.reset();
      }
      return {honest};
    });
    count(!party.put(1, kSmall), "a put without a reply is acknowledged");
    count(party.tier->erase(tier_key(1)).has_value(), "an erase fails");
    must_miss(party, 1, "an entry written while it was erased");
  }
  /// An erased entry comes back when a replica that missed the erase is promoted.
  void copies() {
    for (const bool heard : {true, false}) {
      ScriptedServer server(true, true);
      RemoteParty party(server);
      count(party.put(1, kSmall), "before any fault: a put fails");
      server.set_script([&](const Words& words, const std::string& honest) -> Said {
        return {words[0] != "WAIT" ? honest : heard ? ":1\r\n" : ":0\r\n"};
      });
      count(party.tier->erase(tier_key(1)).has_value() == heard,
            "an erase that a replica has not received is acknowledged");
    }
  }

 private:
  void count(bool good, const std::string& what) {
    ++tally_.injected;
    tally_.detected += good ? 1 : 0;
    tally_.expect(good, what);
  }
  void lost_unless(bool there, const std::string& what) {
    tally_.lost += there ? 0 : 1;
    count(there, what);
  }
  void must_miss(RemoteParty& party, std::uint64_t n, const std::string& what) {
    ++tally_.answers;
    const bool served = party.get(n).has_value();
    tally_.wrong += served ? 1 : 0;
    count(!served, what + " was served");
  }
  /// The server gives this reply, once.
  void says(const std::string& verb, const std::string& answer, const std::string& what,
            bool (*refused)(RemoteParty&)) {
    ScriptedServer server;
    RemoteParty party(server);
    bool said = false;
    server.set_script([&](const Words& words, const std::string& honest) -> Said {
      return {words[0] == verb && !std::exchange(said, true) ? answer : honest};
    });
    count(refused(party), what);
    count(said, "the script never sees a " + verb);
  }
  /// A server whose circuit opened is tried again before long.
  static bool serves_again(RemoteParty& party, std::uint64_t n, std::size_t size) {
    const Duration until = party.clock.now() + 20s;
    while (!party.finds(n, size)) {
      if (party.clock.now() > until) return false;
    }
    return true;
  }

  Tally& tally_;
};

}  // namespace

void forge_remote(Tally& tally) {
  RemoteForger forger(tally);
  forger.every_reply();
  forger.anothers_entry();
  forger.too_large();
  forger.chunks_of_two();
  forger.half_a_replacement();
  forger.chunks_of_whom();
  forger.chunks_of_whom_is_erased();
  forger.what_servers_say();
  forger.a_late_answer();
  forger.a_late_write();
  forger.copies();
}

}  // namespace afterimage::fire

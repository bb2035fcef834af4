// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/kv.h"
#include "afterimage/result.h"
#include "afterimage/units.h"

namespace afterimage {

/// A share with its 95 % confidence interval.
struct ShareInterval {
  double value = 0;
  double low = 0;
  double high = 1;
};

/// How often a model's next token differed when it used KV of images from other positions.
struct TokenLoss {
  std::uint64_t requests = 0;
  std::uint64_t same = 0;   // tokens up to the first that differs; later ones follow another text
  std::uint64_t other = 0;  // answers in which one differed
  double divergence = 0;    // mean KL divergence of the next token's distribution, in nats

  /// Of tokens that differ, by Wilson's score. With no tokens: [0, 1].
  [[nodiscard]] ShareInterval share() const;
  bool operator==(const TokenLoss&) const = default;
};

/// Right answers to questions whose answer is known, with exact KV and with moved KV.
struct TaskLoss {
  std::string name;  // "single-hop", "multi-hop"
  std::uint64_t asked = 0;
  std::uint64_t right = 0;   // exactly
  std::uint64_t lost = 0;    // right exactly, wrong with moved KV
  std::uint64_t gained = 0;  // the other way round

  [[nodiscard]] std::uint64_t right_moved() const { return right - lost + gained; }
  /// Of answers lost, less those gained: -1 to 1. Agresti and Min's interval for paired shares.
  [[nodiscard]] ShareInterval share() const;
  bool operator==(const TaskLoss&) const = default;
};

/// What `afterimage-lab certify` found out about one model: moving KV of images, with this many
/// tokens of each computed anew, changed so much and not more.
///
/// Shape    Lines of text, in this order: "afterimage moved media 1"; "origin" and 64 hex digits;
///          "engine" and a text; "recomputed", "requests", "same", "other" and a number each;
///          "divergence" and a number with twelve decimals; any number of "task" with a name, asked,
///          right, lost and gained; "sha256" and the digest of all bytes before that line. One space
///          between words, no other spaces, each line ends with a line feed.
/// Errors   parse_certificate(): kCorruption, naming the line: anything else, also another digest
///          and counts that cannot be. The digest finds damage; it is no signature: an attacker
///          who can write the file can write another.
/// Threads  Values.
struct MovedCertificate {
  KvOrigin origin{};        // of the engine: model, weights, encoder, template, KV layout
  std::string engine;       // for people: printable ASCII, at most 200 characters
  TokenCount recomputed{};  // of each item
  TokenLoss tokens;
  std::vector<TaskLoss> tasks;

  bool operator==(const MovedCertificate&) const = default;
};

[[nodiscard]] std::string write_certificate(const MovedCertificate& certificate);
[[nodiscard]] Result<MovedCertificate> parse_certificate(std::string_view text);

/// kInvalidArgument, for the operator: the certificate is of another model, or its tokens' loss is
/// not surely at most `max_loss`.
[[nodiscard]] Result<void> check_certificate(const MovedCertificate& certificate,
                                             const KvOrigin& origin, double max_loss);

}  // namespace afterimage

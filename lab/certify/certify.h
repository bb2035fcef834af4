// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "afterimage/clock.h"
#include "afterimage/engine.h"
#include "afterimage/result.h"
#include "bench/workload/workload.h"
#include "runtime/certificate/moved_certificate.h"
#include "runtime/engine_api/key_rotation.h"

namespace afterimage {

/// Largest losses under which a certificate is given. A bound is the upper end of a 95 % interval.
struct CertifyLimits {
  double tokens = 0.01;       // share of tokens that differ
  double divergence = 0.05;   // mean KL divergence of the next token's distribution, in nats
  double single_hop = 0.005;  // right answers lost, of questions about one image
  double multi_hop = 0.02;    // of questions about several
};

struct CertifyOptions {
  /// Numbers of tokens of each image that are computed anew, ascending: the certificate is for the
  /// first that keeps to the limits.
  std::vector<std::uint32_t> recomputed = {0, 1, 2, 4, 8, 16};
  TokenCount max_tokens{16};  // of an answer
  CertifyLimits limits;
  std::string engine_name = "reference";
  std::function<void(std::size_t done, std::size_t of)> on_progress = {};
};

/// One way to get the KV of a request's images.
struct CertifyColumn {
  std::string name;         // "recompute", "as it was", "turned", "turned, 4 computed"
  bool turned = false;      // keys are rotated to their new places
  TokenCount recomputed{};  // of each image
  TokenLoss tokens;
  std::vector<TaskLoss> tasks;  // "single-hop", "multi-hop"; those that were asked
  std::uint64_t image_tokens = 0;
  std::uint64_t computed = 0;  // of them
  Duration first_token{0};     // in all requests, without encoding
};

struct CertifyReport {
  std::string engine;
  std::string rotation;  // "RoPE", "M-RoPE"
  CertifyLimits limits;
  /// Largest difference of a first-layer key, turned to its new place, from the one computed there,
  /// relative to its length: only a wrong rotation makes it large.
  double key_difference = 0;
  std::uint64_t skipped = 0;           // requests without images
  std::vector<CertifyColumn> columns;  // the first is the full recompute
  /// Of the first column that keeps to the limits; nullopt: none does.
  std::optional<MovedCertificate> certificate;
  std::string verdict;  // for people: which column, or why none
};

/// Answers each request of a workload with full recompute and with KV of its images computed in
/// another context: after another image of the workload and with the images in reverse order. Where
/// the workload knows the right answer, an answer is right if it is that text.
///
/// Errors   kUnsupported: the engine's KV cannot be moved, saying why; kInvalidArgument: no request
///          has an image; errors of the engine.
/// Threads  One. Cost: one prefill of each request for every column, and one more.
Result<CertifyReport> certify(const Engine& engine, const Workload& workload,
                              const CertifyOptions& options);

/// The table, then the verdict.
[[nodiscard]] std::string to_text(const CertifyReport& report);
/// The table in Markdown, for documents.
[[nodiscard]] std::string to_markdown(const CertifyReport& report);
[[nodiscard]] std::string to_json(const CertifyReport& report);

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <memory>

#include "afterimage/clock.h"
#include "caches/similarity/embedder.h"
#include "caches/similarity/model_endpoint.h"

namespace afterimage {

/// A remote model behind OpenAI's /v1/embeddings, with a deadline per call and a circuit breaker.
///
/// Shape    As many dimensions as the first response had; another number later is an error. Vectors
///          are normalized to length 1.
/// Errors   kUnavailable: no server, a status other than 200, or the circuit is open. kTimeout.
///          kCorruption: a response without valid vectors. kUnsupported: an image.
/// Threads  Any; calls do not wait for each other.
class EndpointEmbedder final : public Embedder {
 public:
  /// Requests one vector to learn the dimensions, within ten times the deadline. `batch`: texts per
  /// call. `clock` must outlive the embedder.
  static Result<std::unique_ptr<EndpointEmbedder>> create(ModelEndpointOptions options,
                                                          const Clock& clock,
                                                          std::size_t batch = 64);

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] std::size_t dimensions() const override { return dimensions_; }
  [[nodiscard]] Result<std::vector<Vector>> embed(std::span<const EmbedInput> inputs) override;

 private:
  EndpointEmbedder(ModelEndpointOptions options, const Clock& clock, std::size_t batch)
      : batch_(batch), endpoint_(std::move(options), "embeddings", clock) {}
  /// One call, ignoring the circuit breaker.
  Result<std::vector<Vector>> ask(std::span<const std::string_view> texts, Duration deadline);

  const std::size_t batch_;
  std::string name_;
  std::size_t dimensions_ = 0;  // 0: unknown yet
  ModelEndpoint endpoint_;
};

/// The vectors of a /v1/embeddings response, in the order of the request whatever the order of the
/// response; each of length 1. kCorruption: not `count` finite vectors of one length (of
/// `dimensions` floats, if that is not 0).
Result<std::vector<Vector>> parse_embeddings(std::string_view body, std::size_t count,
                                             std::size_t dimensions);

}  // namespace afterimage

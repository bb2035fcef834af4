// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <memory>

#include "afterimage/clock.h"
#include "caches/similarity/embedder.h"
#include "foundation/http/client.h"
#include "foundation/http/url.h"
#include "foundation/platform/mutex.h"

namespace afterimage {

struct EndpointOptions {
  Url url;                 // of the call itself: http://localhost:8000/v1/embeddings
  std::string model;       // as the server knows it
  std::string key;         // "Authorization: Bearer <key>"; empty: none
  std::size_t batch = 64;  // texts a call
  Duration deadline =
      std::chrono::milliseconds(150);  // of a call; the first may take ten times as long
  unsigned failures = 3;               // in a row, and nobody is asked for a while
  Duration rest = std::chrono::seconds(5);
};

/// A model elsewhere, behind OpenAI's /v1/embeddings. Whoever waits for a vector waits no longer
/// than the deadline; a server that fails is left alone for a while, and then tried again.
///
/// Shape    As many dimensions as the first answer had; another number later is an error. What is
///          not of length 1 is made so.
/// Errors   kUnavailable: no answer in time, a status other than 200, or it is left alone.
///          kCorruption: an answer that holds no vectors. kUnsupported: a picture.
/// Threads  Any; calls do not wait for each other.
class EndpointEmbedder final : public Embedder {
 public:
  /// Asks for one vector, to learn the dimensions. `clock` outlives the embedder.
  static Result<std::unique_ptr<EndpointEmbedder>> create(EndpointOptions options,
                                                          const Clock& clock);

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] std::size_t dimensions() const override { return dimensions_; }
  [[nodiscard]] Result<std::vector<Vector>> embed(std::span<const EmbedInput> inputs) override;

 private:
  EndpointEmbedder(EndpointOptions options, const Clock& clock);
  Result<std::vector<Vector>> call(std::span<const std::string_view> texts, Duration deadline);
  Result<std::vector<Vector>> ask(std::span<const std::string_view> texts, Duration deadline);

  EndpointOptions options_;
  const Clock& clock_;
  std::string name_;
  std::size_t dimensions_ = 0;  // 0: not known yet
  Mutex mutex_;
  unsigned failed_ AFI_GUARDED_BY(mutex_) = 0;  // in a row
  Duration rests_until_ AFI_GUARDED_BY(mutex_){0};
};

/// The vectors in an answer of /v1/embeddings, in the order of what was asked, whatever the order
/// they stand in; each of length 1. kCorruption: not `count` vectors of one length (and of
/// `dimensions` floats, if that is not 0), all finite.
Result<std::vector<Vector>> parse_embeddings(std::string_view body, std::size_t count,
                                             std::size_t dimensions);

}  // namespace afterimage

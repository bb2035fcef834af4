// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "afterimage/clock.h"
#include "caches/similarity/model_endpoint.h"
#include "caches/similarity/verifier.h"

namespace afterimage {

/// A remote cross-encoder behind /v1/rerank, as Cohere, Jina, vLLM and llama-server have it:
/// {"model", "query", "documents"} -> {"results": [{"index", "relevance_score"}]}. The query is the
/// new question, the documents are stored ones. With a deadline per call and a circuit breaker.
///
/// Shape    Scores are the server's: Cohere, Jina and vLLM send probabilities, llama-server logits.
/// Errors   Those of Verifier.
/// Threads  Any; calls do not wait for each other.
class EndpointVerifier final : public Verifier {
 public:
  /// Asks the server nothing. `clock` must outlive the verifier.
  EndpointVerifier(ModelEndpointOptions options, const Clock& clock);

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] Result<std::vector<float>> score(
      std::string_view question, std::span<const std::string_view> candidates) override;

 private:
  const std::string name_;
  ModelEndpoint endpoint_;
};

/// The scores of a /v1/rerank response, in the order of `documents` whatever the order of the
/// response. kCorruption: not exactly one finite score for each, or a score that comes with the text
/// of another document.
Result<std::vector<float>> parse_rerank(std::string_view body,
                                        std::span<const std::string_view> documents);

}  // namespace afterimage

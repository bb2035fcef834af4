// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "caches/similarity/endpoint_embedder.h"
#include "caches/similarity/hashed_ngrams.h"
#include "caches/similarity/projected_embedder.h"
#include "testing/embedder_conformance.h"
#include "testing/local_server.h"

namespace afterimage {
namespace {

using nlohmann::json;
using testing::EmbedderConformance;
using testing::EmbedderFactory;
using testing::LocalServer;

/// A server whose vectors depend on the text, and the embedder that asks it.
class ServedEmbedder final : public Embedder {
 public:
  ServedEmbedder() : server_(answer) {
    ModelEndpointOptions options;
    options.url = parse_url(server_.url("/v1/embeddings")).value();
    options.model = "m";
    asking_ = EndpointEmbedder::create(std::move(options), clock_).value();
  }

  [[nodiscard]] const std::string& name() const override { return asking_->name(); }
  [[nodiscard]] std::size_t dimensions() const override { return asking_->dimensions(); }
  [[nodiscard]] Result<std::vector<Vector>> embed(std::span<const EmbedInput> inputs) override {
    return asking_->embed(inputs);
  }

 private:
  static std::string answer(const std::string&, const std::string& body) {
    json data = json::array();
    const json asked = json::parse(body);
    for (const json& text : asked["input"]) {
      const auto size = static_cast<double>(text.get<std::string>().size());
      data.push_back({{"index", data.size()}, {"embedding", {size, 10.0}}});
    }
    return testing::http_answer(json{{"data", data}}.dump());
  }

  LocalServer server_;
  ManualClock clock_;
  std::unique_ptr<EndpointEmbedder> asking_;
};

std::unique_ptr<Embedder> projected_ngrams() {
  HashedNgrams of = HashedNgrams::create(16).value();
  std::vector<float> matrix(3 * (of.dimensions() + 1));
  for (std::size_t i = 0; i < matrix.size(); ++i) matrix[i] = static_cast<float>(i % 7) - 2.5F;
  return ProjectedEmbedder::create(std::make_unique<HashedNgrams>(std::move(of)),
                                   std::as_bytes(std::span(matrix)))
      .value();
}

std::vector<EmbedderFactory> embedders() {
  return {{"hashed_ngrams",
           [] { return std::make_unique<HashedNgrams>(HashedNgrams::create().value()); },
           {"a red car", "two brown dogs", "猫はどこ"}},
          {"projected", projected_ngrams, {"a red car", "two dogs", "where is the cup"}},
          {"endpoint", [] { return std::make_unique<ServedEmbedder>(); }, {"red", "a red car"}}};
}

INSTANTIATE_TEST_SUITE_P(Embedders, EmbedderConformance, ::testing::ValuesIn(embedders()),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <memory>
#include <string>

#include "engines/llama/sequence_rows.h"
#include "engines/llama_library/loaded_model.h"
#include "testing/demo_models.h"

namespace afterimage::testing {

/// A demo model without an engine: what LlamaRun and the checks work on. Of models with only full
/// attention.
struct ModelRows {
  std::unique_ptr<const LoadedModel> model;
  SequenceRows rows;

  static ModelRows load(const LlamaOptions& options) {
    auto model = LoadedModel::load(options).value();
    constexpr std::array<TokenId, 3> kFew{TokenId(0), TokenId(1), TokenId(2)};
    EXPECT_TRUE(model->append({.tokens = kFew}).has_value());
    const auto written = model->save(0, false).value();
    model->clear(0);
    constexpr std::array kKinds{KvKind::kFull};
    auto rows = SequenceRows::learn(written, TokenCount(3), kKinds, {}).value();
    return {std::move(model), std::move(rows)};
  }
};

}  // namespace afterimage::testing

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/experiment/likeness_rungs.h"

namespace afterimage {
namespace {

/// Until there are such rungs: nothing is like anything.
class NoLikenessRungs final : public LikenessRungs {
 public:
  Result<std::optional<LikeAnswer>> find(Question& /*question*/, const Sample& /*sample*/,
                                         Techniques& /*techniques*/) override {
    return std::nullopt;
  }
  Result<void> insert(Question& /*question*/, const Sample& /*sample*/) override { return {}; }
  [[nodiscard]] std::vector<std::string> remarks() const override { return {}; }
};

}  // namespace

Result<std::unique_ptr<LikenessRungs>> make_likeness_rungs(const ExperimentSpec& /*spec*/,
                                                           AnswerCache& /*cache*/,
                                                           MemoryBudget& /*budget*/,
                                                           const Clock& /*clock*/,
                                                           const ImageRoots& /*images*/) {
  return std::make_unique<NoLikenessRungs>();
}

}  // namespace afterimage

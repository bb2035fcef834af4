// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "afterimage/result.h"
#include "foundation/platform/files.h"
#include "lab/datasets/question_set.h"
#include "lab/datasets/sample.h"

namespace afterimage {

/// The self-contained image questions of a set, as samples with programs, groups, true answers and
/// images. Questions about told scenes, with a history or with tools are left out, because
/// GQA-style data sets cannot represent them. metadata holds the "wording" and the "trap".
Result<std::vector<Sample>> picture_samples(const QuestionSet& set);

/// Writes samples in GQA's published form: <folder>/val_balanced_questions.json, and images as
/// <folder>/images/<id>.png.
Result<void> write_gqa(const std::string& folder, std::span<const Sample> samples, Files& files);

}  // namespace afterimage

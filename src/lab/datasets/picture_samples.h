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

/// The questions of a set that are about pictures and stand alone, as samples with their programs,
/// groups, true answers and pictures. What is told, follows other messages or offers tools has no
/// form in a data set of questions and pictures. metadata says how a question is put ("wording")
/// and what it is a trap for ("trap").
Result<std::vector<Sample>> picture_samples(const QuestionSet& set);

/// Writes samples as GQA is published: <folder>/val_balanced_questions.json, and their pictures as
/// <folder>/images/<id>.png.
Result<void> write_gqa(const std::string& folder, std::span<const Sample> samples, Files& files);

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "afterimage/digest.h"
#include "afterimage/media.h"

namespace afterimage {

/// One step of a question's program: "select: lamp", "query: color".
struct SemanticStep {
  std::string operation;
  std::string argument;
};

/// One question about one image with its answer, as in a data set. Fields that the data set lacks
/// are empty.
struct Sample {
  std::string dataset_id;  // the question's id: "05515938"
  std::string image_id;
  std::string question;
  std::string answer;  // one or two words
  std::string full_answer;
  std::string global_group;
  std::string local_group;
  std::string semantic_str;
  std::vector<SemanticStep> semantic;
  std::string chunk_override;   // the cache key, overriding the chunk source
  std::string expected_hit;     // the technique expected to hit: "semantic_text"
  std::string metadata = "{}";  // all other fields of the record, as JSON

  /// Candidate image names from the data set, searched below the image roots only.
  std::vector<std::string> image_names;
  std::string image_path;                // where the image was found
  FileBytes image;                       // its bytes, if it is not in a file
  std::optional<ContentDigest> content;  // absent: no image is attached

  [[nodiscard]] bool names_picture() const { return !image_id.empty() || !image_names.empty(); }
};

}  // namespace afterimage

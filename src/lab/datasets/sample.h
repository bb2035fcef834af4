// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "afterimage/digest.h"
#include "afterimage/media.h"

namespace afterimage {

/// One step of the program that a question is: "select: lamp", "query: color".
struct SemanticStep {
  std::string operation;
  std::string argument;
};

/// One question about one picture, with its answer, as a data set has it. Fields that a data set
/// does not have are empty.
struct Sample {
  std::string dataset_id;  // the question's: "05515938"
  std::string image_id;
  std::string question;
  std::string answer;  // in a word or two
  std::string full_answer;
  std::string global_group;
  std::string local_group;
  std::string semantic_str;
  std::vector<SemanticStep> semantic;
  std::string chunk_override;   // the key to look up, whatever the chunk source
  std::string expected_hit;     // what a technique is expected to make of it: "semantic_text"
  std::string metadata = "{}";  // all else that the data set says, as JSON

  /// Where the picture may be: names from the data set, looked for below the image roots only.
  std::vector<std::string> image_names;
  std::string image_path;                // where it was found
  FileBytes image;                       // its bytes, if they are no file's
  std::optional<ContentDigest> content;  // absent: no picture is attached

  [[nodiscard]] bool names_picture() const { return !image_id.empty() || !image_names.empty(); }
};

}  // namespace afterimage

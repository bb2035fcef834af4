// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <string>
#include <vector>

#include "afterimage/result.h"

namespace afterimage {

/// The files of a model by the name of its first: that one, and where it is called
/// "x-00001-of-00003.gguf" the others, in order.
std::vector<std::string> files_of(const std::string& path);

/// Names a model's file by all of its bytes, and all files of a model in several
/// ("x-00001-of-00003.gguf"): the same weights under another name are the same, other weights
/// under the same name are not. Reads all of it, as fast as it can be read. Guards against
/// mistakes: whoever may write the operator's models need not forge names.
/// kNotFound, kUnavailable: a file cannot be read.
Result<std::string> content_name(const std::string& path);

}  // namespace afterimage

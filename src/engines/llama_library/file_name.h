// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "afterimage/result.h"

namespace afterimage {

/// The files of a model given its first file: just that file, or, if it is named
/// "x-00001-of-00003.gguf", all parts in order.
std::vector<std::string> files_of(const std::string& path);

/// Content-based name of a model: a digest over all bytes of its file, or of all its parts
/// ("x-00001-of-00003.gguf"). The same weights under another file name get the same name; different
/// weights under the same file name do not. Reads every byte. It guards against mistakes, not
/// against forgery: anyone who can write the operator's model files is trusted.
///
/// Errors   kNotFound, kUnavailable: a file cannot be read. kCancelled: stopped.
Result<std::string> content_name(const std::string& path, const std::stop_token& stop = {});

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "afterimage/identity.h"
#include "gateway/openai/request.h"

namespace afterimage::testing {

/// What a chat's body is found by in the cache: its scope and its question.
inline std::pair<ScopeId, std::string> identity_of(const std::string& chat) {
  auto read = read_api_request(ApiOperation::kChat, chat, ApiReader::kOtherServer);
  EXPECT_TRUE(read.has_value()) << read.error().message << "\n" << chat;
  std::vector<ContentDigest> contents;
  for (const ApiMedia& media : read->media) {
    EXPECT_NE(media.bytes, nullptr) << media.name;
    contents.push_back(content_digest({.modality = media.modality, .files = {media.bytes}}));
  }
  static const Namespace space = Namespace::of({.model = "m", .encoder = "e"}, {}, {}).value();
  return {identify(scope_of(*read, contents, {}), space), read->question};
}

}  // namespace afterimage::testing

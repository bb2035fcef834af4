// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/engine.h"

#include <gtest/gtest.h>

namespace afterimage {
namespace {

TEST(MediaOf, ListsItemsInOrderOfAppearance) {
  Request request;
  EXPECT_TRUE(media_of(request).empty());
  const auto item = [](const char* name) { return MediaItem{.files = {}, .name = name}; };
  request.messages = {{.role = Role::kSystem, .parts = {"no media"}},
                      {.role = Role::kUser, .parts = {item("first"), "and", item("second")}},
                      {.role = Role::kUser, .parts = {item("third")}}};
  const auto items = media_of(request);
  ASSERT_EQ(items.size(), 3U);
  EXPECT_EQ(items[0]->name, "first");
  EXPECT_EQ(items[1], &std::get<MediaItem>(request.messages[1].parts[2]));
  EXPECT_EQ(items[2]->name, "third");
}

}  // namespace
}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/text/event_stream.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace afterimage {
namespace {

TEST(EventStream, EventsAreTheSameHoweverTheBytesAreCut) {
  const std::string bytes =
      "data: a\n\nevent: b\r\ndata:c\r\ndata: d\r\n\r\n: ping\n\nodd\rdata\r\rdata: unfinished";
  for (std::size_t piece = 1; piece <= bytes.size(); ++piece) {
    EventStreamReader reader;
    std::vector<std::string> events;
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      reader.feed(std::string_view(bytes).substr(at, piece),
                  [&](std::string_view name, std::string_view data) {
                    events.push_back(std::string(name) + "=" + std::string(data));
                  });
    }
    EXPECT_EQ(events, (std::vector<std::string>{"=a", "b=c\nd", "="})) << piece;
    EXPECT_EQ(reader.unfinished_data(), "unfinished");
    EXPECT_EQ(reader.whole(), bytes.size() - std::string_view("data: unfinished").size());
  }
}

TEST(EventStream, WhatIsWholeEndsAfterEveryLineEndThatEndsAnEvent) {
  const struct {
    const char* bytes;
    std::size_t whole;
  } kCases[] = {{"", 0},
                {"data: a\n", 0},
                {"data: a\n\n", 9},
                {"data: a\r\n\r\n", 11},
                {"data: a\n\r\n", 10},
                {"data: a\r\r", 9},
                {": ping\n\ndata: a\n", 8},
                {"data: a\n\n\n", 10}};
  for (const auto& c : kCases) {
    EventStreamReader whole;
    whole.feed(c.bytes, [](std::string_view, std::string_view) {});
    EXPECT_EQ(whole.whole(), c.whole) << c.bytes;
    EventStreamReader pieces;
    for (const char& byte : std::string_view(c.bytes)) {
      pieces.feed({&byte, 1}, [](std::string_view, std::string_view) {});
    }
    EXPECT_EQ(pieces.whole(), c.whole) << c.bytes;
  }
}

TEST(EventStream, AnEventAboveTheLimitIsDroppedAndItsEndIsSeen) {
  EventStreamReader reader(8);
  std::vector<std::string> events;
  const std::string bytes = "data: 0123456789\n\ndata: b\n\n";
  for (const char& byte : bytes) {
    reader.feed({&byte, 1},
                [&](std::string_view, std::string_view data) { events.emplace_back(data); });
  }
  EXPECT_EQ(events, std::vector<std::string>{"b"});
  EXPECT_TRUE(reader.is_cut());
  EXPECT_EQ(reader.whole(), bytes.size());
}

}  // namespace
}  // namespace afterimage

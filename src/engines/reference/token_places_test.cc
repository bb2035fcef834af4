// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/reference/token_places.h"

#include <gtest/gtest.h>

namespace afterimage {
namespace {

TEST(TokenPlaces, TextCountsOnAlongAllAxes) {
  const Sequence prompt{.tokens = {TokenId(1), TokenId(2)}, .spans = {}};
  EXPECT_EQ(mrope_places(prompt), (std::vector<TokenPlace>{{0, 0, 0}, {1, 1, 1}, {2, 2, 2}}));
  EXPECT_EQ(mrope_places({}), (std::vector<TokenPlace>{{0, 0, 0}}));
}

// One token of text, an image of 3 x 2, an item without a grid.
TEST(TokenPlaces, AnImageHasOneTimeAndRowsAndColumns) {
  const Sequence prompt{.tokens = std::vector<TokenId>(9, TokenId(1)),
                        .spans = {{.offset = TokenCount(1), .length = TokenCount(6), .columns = 3},
                                  {.offset = TokenCount(7), .length = TokenCount(2)}}};
  EXPECT_EQ(mrope_places(prompt), (std::vector<TokenPlace>{{0, 0, 0},
                                                           {1, 1, 1},
                                                           {1, 1, 2},
                                                           {1, 1, 3},
                                                           {1, 2, 1},
                                                           {1, 2, 2},
                                                           {1, 2, 3},
                                                           {4, 4, 4},
                                                           {5, 5, 5},
                                                           {6, 6, 6}}));
}

TEST(TokenPlaces, TheLongerSideCounts) {
  const Sequence tall{.tokens = std::vector<TokenId>(8, TokenId(1)),
                      .spans = {{.length = TokenCount(8), .columns = 2}}};
  EXPECT_EQ(mrope_places(tall).back(), (TokenPlace{4, 4, 4}));
  EXPECT_EQ(mrope_places(tall)[7], (TokenPlace{0, 3, 1}));
}

}  // namespace
}  // namespace afterimage

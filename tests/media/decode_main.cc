// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
//
// afterimage_decode FILE: the image in the file, as a PPM file on the standard output; or exit code 1 and the error on
// the standard error.
#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "foundation/media/decode.h"

int main(int count, char** arguments) {
  using namespace afterimage;
  if (count != 2) {
    fmt::print(stderr, "usage: afterimage_decode FILE\n");
    return 2;
  }
  std::ifstream file(arguments[1], std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto bytes = std::as_bytes(std::span(text));
  const auto image = decode_image(
      {.files = {std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end())},
       .name = "file"});
  if (!image.has_value()) {
    fmt::print(stderr, "{}\n", image.error().message);
    return 1;
  }
  fmt::print("P6\n{} {}\n255\n", image->width, image->height);
  std::fwrite(image->rgb.data(), 1, image->rgb.size(), stdout);
  return 0;
}

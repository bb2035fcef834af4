// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// Any bytes are a shared file that its own writer would write, or a miss.
#include <cstdint>
#include <string>
#include <vector>

#include "afterimage/result.h"
#include "fuzz_input.h"
#include "storage/shared_files/shared_file_format.h"

using namespace afterimage;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  testing::FuzzInput input(data, size);
  const std::string name(1 + input.u16() % 3, 'a');
  const std::string_view rest = input.rest();
  const std::span<const std::byte> whole = std::as_bytes(std::span(rest));
  (void)shared_file::parse(whole, name, true);
  // Few inputs have a right checksum; without it everything else is checked, too.
  const auto parsed = shared_file::parse(whole, name, false);
  if (!parsed.has_value()) return 0;
  AFI_CHECK(parsed->data_offset <= whole.size());
  const auto of_data = whole.subspan(parsed->data_offset);
  std::vector<std::byte> again = shared_file::head(name, parsed->form, of_data);
  again.insert(again.end(), of_data.begin(), of_data.end());
  const auto second = shared_file::parse(again, name, true);
  AFI_CHECK(second.has_value() && second->form == parsed->form);
  return 0;
}

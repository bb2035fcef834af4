// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/prompts/print_table.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "afterimage/result.h"

namespace afterimage {
namespace {

constexpr std::size_t kFewest = 8;  // places

}  // namespace

std::size_t PrintTable::place_of(std::uint64_t print) const {
  std::size_t place = home_of(print);
  while (entries_[place].number != 0 && entries_[place].print != print) place = after(place);
  return place;
}

std::uint64_t PrintTable::find(std::uint64_t print) const {
  return entries_.empty() ? 0 : entries_[place_of(print)].number;
}

void PrintTable::set(std::uint64_t print, std::uint64_t number) {
  AFI_CHECK(number != 0);
  if (entries_.empty()) resize(kFewest);
  std::size_t place = place_of(print);
  if (entries_[place].number == 0) {
    if ((size_ + 1) * 4 > entries_.size() * 3) {
      resize(entries_.size() * 2);
      place = place_of(print);
    }
    ++size_;
  }
  entries_[place] = {.print = print, .number = number};
}

void PrintTable::erase(std::uint64_t print, std::uint64_t number) {
  if (entries_.empty()) return;
  std::size_t gap = place_of(print);
  if (entries_[gap].number == 0 || entries_[gap].number != number) return;
  // What stands behind it moves up, unless the gap lies before its home.
  for (std::size_t place = after(gap); entries_[place].number != 0; place = after(place)) {
    const std::size_t most = entries_.size() - 1;
    const std::size_t from_home = (place - home_of(entries_[place].print)) & most;
    if (from_home < ((place - gap) & most)) continue;
    entries_[gap] = entries_[place];
    gap = place;
  }
  entries_[gap] = {};
  --size_;
  if (size_ * 4 < entries_.size() && entries_.size() > kFewest) resize(entries_.size() / 2);
}

void PrintTable::resize(std::size_t places) {
  const std::vector<Entry> before = std::exchange(entries_, std::vector<Entry>(places));
  shift_ = 64U - static_cast<unsigned>(std::countr_zero(places));
  for (const Entry& entry : before) {
    if (entry.number != 0) entries_[place_of(entry.print)] = entry;
  }
}

void PrintTable::check_invariants() const {
  std::size_t size = 0;
  for (const Entry& entry : entries_) {
    if (entry.number == 0) continue;
    ++size;
    AFI_CHECK(find(entry.print) == entry.number);
  }
  AFI_CHECK(size == size_ && (entries_.empty() || size < entries_.size()));
}

}  // namespace afterimage

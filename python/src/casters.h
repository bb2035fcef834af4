// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

/// A conversion of a standard type in a source without nanobind's header for it does not compile.
///
/// nanobind compiles it, as a class that nobody bound: the call raises std::bad_cast. Beside another source that has the
/// header, two definitions of one template meet, and the linker of a build without inlining may take the right one; so
/// tests of a Debug build pass, and the release raises.
namespace afterimage::python {

template <typename T>
inline constexpr bool kNeedsHeader = false;
template <typename... A>
inline constexpr bool kNeedsHeader<std::basic_string<A...>> = true;
template <typename... A>
inline constexpr bool kNeedsHeader<std::basic_string_view<A...>> = true;
template <typename... A>
inline constexpr bool kNeedsHeader<std::vector<A...>> = true;
template <typename... A>
inline constexpr bool kNeedsHeader<std::list<A...>> = true;
template <typename T, std::size_t N>
inline constexpr bool kNeedsHeader<std::array<T, N>> = true;
template <typename... A>
inline constexpr bool kNeedsHeader<std::map<A...>> = true;
template <typename... A>
inline constexpr bool kNeedsHeader<std::set<A...>> = true;
template <typename... A>
inline constexpr bool kNeedsHeader<std::unordered_map<A...>> = true;
template <typename... A>
inline constexpr bool kNeedsHeader<std::unordered_set<A...>> = true;
template <typename... A>
inline constexpr bool kNeedsHeader<std::optional<A...>> = true;
template <typename... A>
inline constexpr bool kNeedsHeader<std::pair<A...>> = true;
template <typename... A>
inline constexpr bool kNeedsHeader<std::tuple<A...>> = true;
template <typename... A>
inline constexpr bool kNeedsHeader<std::variant<A...>> = true;
template <typename... A>
inline constexpr bool kNeedsHeader<std::function<A...>> = true;
template <typename... A>
inline constexpr bool kNeedsHeader<std::unique_ptr<A...>> = true;
template <typename... A>
inline constexpr bool kNeedsHeader<std::shared_ptr<A...>> = true;
template <typename... A>
inline constexpr bool kNeedsHeader<std::chrono::duration<A...>> = true;
template <typename... A>
inline constexpr bool kNeedsHeader<std::chrono::time_point<A...>> = true;
template <>
inline constexpr bool kNeedsHeader<std::filesystem::path> = true;

}  // namespace afterimage::python

namespace nanobind::detail {

/// Chosen only where none of nanobind's own casters of these types is declared: those are more specialised.
template <typename T>
  requires afterimage::python::kNeedsHeader<T>
struct type_caster<T> {
  static_assert(!afterimage::python::kNeedsHeader<T>,
                "include the header of nanobind/stl that converts this type");
};

}  // namespace nanobind::detail

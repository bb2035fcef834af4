// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "afterimage/result.h"
#include "foundation/media/decode.h"

namespace afterimage {

namespace {

/// The stored pixels along one axis that contribute to one new pixel, with integer weights. All new
/// pixels of an axis have the same sum of weights, so rounding happens only once, at the end.
struct Taps {
  std::size_t first = 0;
  std::vector<std::uint64_t> weights;
};

struct Axis {
  std::vector<Taps> taps;  // by new pixel
  std::uint64_t weight_sum = 1;
};

/// New pixel i covers [i·from, (i+1)·from) of an axis on which stored pixel j is [j·to, (j+1)·to).
Axis shrink(std::uint64_t from, std::uint64_t to) {
  Axis axis{.taps = std::vector<Taps>(to), .weight_sum = from};
  for (std::uint64_t i = 0; i < to; ++i) {
    const std::uint64_t begin = i * from;
    const std::uint64_t end = begin + from;
    axis.taps[i].first = begin / to;
    for (std::uint64_t j = begin / to; j * to < end; ++j) {
      axis.taps[i].weights.push_back(std::min(end, (j + 1) * to) - std::max(begin, j * to));
    }
  }
  return axis;
}

/// The centre of new pixel i lies at ((2i + 1)·from − to) / 2·to, counted in stored pixel centres;
/// beyond the outermost centres the edge colour is repeated.
Axis stretch(std::uint64_t from, std::uint64_t to) {
  Axis axis{.taps = std::vector<Taps>(to), .weight_sum = 2 * to};
  for (std::uint64_t i = 0; i < to; ++i) {
    const std::uint64_t scaled = (2 * i + 1) * from;
    const std::uint64_t centre = scaled > to ? scaled - to : 0;
    const std::uint64_t left = centre / axis.weight_sum;
    const std::uint64_t rest = centre % axis.weight_sum;
    axis.taps[i].first = left;
    if (left + 1 < from) {
      axis.taps[i].weights = {axis.weight_sum - rest, rest};
    } else {
      axis.taps[i].weights = {axis.weight_sum};
    }
  }
  return axis;
}

Axis make_axis(std::uint32_t from, std::uint32_t to) {
  return to < from ? shrink(from, to) : stretch(from, to);
}

using Row = std::vector<std::uint64_t>;

void resize_row(std::span<const std::uint8_t> stored, const Axis& axis, Row& row) {
  for (std::size_t x = 0; x < axis.taps.size(); ++x) {
    std::array<std::uint64_t, 3> sum{};
    const std::uint8_t* pixel = stored.data() + 3 * axis.taps[x].first;
    for (const std::uint64_t weight : axis.taps[x].weights) {
      for (std::size_t channel = 0; channel < 3; ++channel) sum[channel] += weight * pixel[channel];
      pixel += 3;
    }
    std::copy(sum.begin(), sum.end(), row.begin() + static_cast<std::ptrdiff_t>(3 * x));
  }
}

/// Divides by one number again and again, which a division would take longer for than all else here.
class Divisor {
 public:
  explicit Divisor(std::uint64_t by)
      : by_(static_cast<std::int64_t>(by)), inverse_(1.0 / static_cast<double>(by)) {}
  /// Exact: numbers are below 2^53, so the first quotient is at most one off.
  std::int64_t quotient(std::uint64_t of) const {
    const auto number = static_cast<std::int64_t>(of);
    const auto near = static_cast<std::int64_t>(static_cast<double>(number) * inverse_);
    const std::int64_t rest = number - near * by_;
    return near + (rest >= by_ ? 1 : 0) - (rest < 0 ? 1 : 0);
  }

 private:
  std::int64_t by_;
  double inverse_;
};

/// Cache of stored rows resized to the new width. Each new row needs at most two of them.
class Rows {
 public:
  Rows(const Image& image, const Axis& axis) : image_(image), axis_(axis) {
    rows_.fill(Row(3 * axis.taps.size()));
    held_.fill(image.height);  // no row
  }

  const Row& at(std::size_t y) {
    const std::size_t slot = y % 2;
    if (held_[slot] != y) {
      const std::size_t stride = 3 * std::size_t{image_.width};
      resize_row(std::span(image_.rgb).subspan(y * stride, stride), axis_, rows_[slot]);
      held_[slot] = y;
    }
    return rows_[slot];
  }

 private:
  const Image& image_;
  const Axis& axis_;
  std::array<Row, 2> rows_;
  std::array<std::size_t, 2> held_{};
};

}  // namespace

Image resize(const Image& image, std::uint32_t width, std::uint32_t height) {
  AFI_CHECK(width > 0 && height > 0 && image.width > 0 && image.height > 0);
  AFI_CHECK(image.rgb.size() == 3 * std::size_t{image.width} * image.height);
  if (image.width == width && image.height == height) return image;
  const Axis across = make_axis(image.width, width);
  const Axis down = make_axis(image.height, height);
  const std::uint64_t weight_sum = across.weight_sum * down.weight_sum;
  AFI_CHECK(weight_sum < std::uint64_t{1} << 45U);  // times 256 is a number that Divisor takes
  const Divisor divisor(weight_sum);

  Image resized{.width = width, .height = height, .rgb = {}};
  resized.rgb.reserve(3 * std::size_t{width} * height);
  Rows rows(image, across);
  Row sums(3 * std::size_t{width});
  for (const Taps& taps : down.taps) {
    std::fill(sums.begin(), sums.end(), 0);
    for (std::size_t i = 0; i < taps.weights.size(); ++i) {
      const Row& row = rows.at(taps.first + i);
      for (std::size_t k = 0; k < sums.size(); ++k) sums[k] += taps.weights[i] * row[k];
    }
    for (const std::uint64_t sum : sums) {
      resized.rgb.push_back(static_cast<std::uint8_t>(divisor.quotient(sum + weight_sum / 2)));
    }
  }
  return resized;
}

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// How fast are our matrix products and attention beside llama.cpp's own on the same tensors, one
// thread? The library is as scripts/build-llama.sh builds it: its default switches, without repacked
// weights, which belong to a loaded model.
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engines/llama_kernels/kernels.h"
#include "engines/llama_kernels/library_kernels.h"
#include "ggml-cpu.h"
#include "ggml.h"

namespace afterimage {
namespace {

constexpr std::int64_t kInner = 2048;
constexpr std::int64_t kRows = 8192;  // no processor's second cache holds them, as with a model

/// Random numbers as a tensor of this type and shape has them.
std::vector<std::byte> random_bytes(const ggml_tensor& like) {
  std::mt19937 chance(1);
  std::vector<float> numbers(static_cast<std::size_t>(ggml_nelements(&like)));
  for (float& x : numbers) x = static_cast<float>(chance()) * 0x1p-31F - 1;
  std::vector<std::byte> bytes(ggml_nbytes(&like));
  if (like.type == GGML_TYPE_F32) {
    std::memcpy(bytes.data(), numbers.data(), bytes.size());
  } else {
    ggml_quantize_chunk(like.type, numbers.data(), bytes.data(), 0, ggml_nrows(&like), like.ne[0],
                        nullptr);
  }
  return bytes;
}

ggml_tensor* filled(ggml_context* context, ggml_type type, const std::vector<std::int64_t>& shape) {
  static std::map<std::pair<ggml_type, std::vector<std::int64_t>>, std::vector<std::byte>> made;
  ggml_tensor* const tensor =
      ggml_new_tensor(context, type, static_cast<int>(shape.size()), shape.data());
  std::vector<std::byte>& bytes = made[{type, shape}];
  if (bytes.empty()) bytes = random_bytes(*tensor);
  std::memcpy(tensor->data, bytes.data(), bytes.size());
  return tensor;
}

/// Computes the tensor that `build` makes, again and again.
template <typename Build>
void compute(benchmark::State& state, const std::string& kernels, const Build& build) {
  if (!use_batch_independent_kernels(kernels).has_value()) {
    return state.SkipWithError("this processor has no such kernels");
  }
  const std::unique_ptr<ggml_context, decltype(&ggml_free)> context(
      ggml_init({.mem_size = 512 << 20, .mem_buffer = nullptr, .no_alloc = false}), &ggml_free);
  ggml_cgraph* const graph = ggml_new_graph(context.get());
  ggml_build_forward_expand(graph, build(context.get()));
  ggml_cplan plan = ggml_graph_plan(graph, 1, nullptr);
  std::vector<std::uint8_t> work(plan.work_size);
  plan.work_data = work.data();
  for (auto _ : state) ggml_graph_compute(graph, &plan);
}

void product(benchmark::State& state, const std::string& kernels, ggml_type type,
             std::int64_t columns) {
  compute(state, kernels, [&](ggml_context* context) {
    return ggml_mul_mat(context, filled(context, type, {kInner, kRows}),
                        filled(context, GGML_TYPE_F32, {kInner, columns}));
  });
  state.counters["products/s"] =
      benchmark::Counter(static_cast<double>(state.iterations() * kInner * kRows * columns),
                         benchmark::Counter::kIsRate);
  state.counters["weights/s"] = benchmark::Counter(
      static_cast<double>(state.iterations()) *
          static_cast<double>(ggml_row_size(type, kInner) * static_cast<std::size_t>(kRows)),
      benchmark::Counter::kIsRate, benchmark::Counter::kIs1024);
}

/// The last `queries` of as many keys, each of which sees the keys before it.
void attention(benchmark::State& state, const std::string& kernels, std::int64_t queries,
               std::int64_t keys) {
  constexpr std::int64_t kWidth = 128;
  constexpr std::int64_t kHeads = 8;
  constexpr std::int64_t kKeyHeads = 2;
  compute(state, kernels, [&](ggml_context* context) {
    ggml_tensor* const mask = ggml_new_tensor_2d(context, GGML_TYPE_F16, keys, queries);
    for (std::int64_t q = 0; q < queries; ++q) {
      for (std::int64_t k = 0; k < keys; ++k) {
        static_cast<ggml_fp16_t*>(mask->data)[q * keys + k] =
            ggml_fp32_to_fp16(k <= keys - queries + q ? 0 : -INFINITY);
      }
    }
    return ggml_flash_attn_ext(context, filled(context, GGML_TYPE_F32, {kWidth, queries, kHeads}),
                               filled(context, GGML_TYPE_F16, {kWidth, keys, kKeyHeads}),
                               filled(context, GGML_TYPE_F16, {kWidth, keys, kKeyHeads}), mask,
                               0.088F, 0, 0);
  });
}

void register_all() {
  std::vector<std::string> kernels;
  for (const LlamaKernels* const table : supported_llama_kernels()) {
    kernels.emplace_back(table->name);
  }
  kernels.emplace_back("library");
  const auto add = [](const std::string& name, const auto& run) {
    benchmark::RegisterBenchmark(name.c_str(), run);  // older versions take no string
  };
  for (const ggml_type type : {GGML_TYPE_Q4_K, GGML_TYPE_Q5_K, GGML_TYPE_Q6_K, GGML_TYPE_Q8_0,
                               GGML_TYPE_Q5_0, GGML_TYPE_Q4_0, GGML_TYPE_IQ4_NL, GGML_TYPE_MXFP4,
                               GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_F32}) {
    for (const std::int64_t columns : {1, 2, 8, 512}) {
      for (const std::string& name : kernels) {
        add(std::string("product/") + ggml_type_name(type) + "/" + std::to_string(columns) + "/" +
                name,
            [=](benchmark::State& state) { product(state, name, type, columns); });
      }
    }
  }
  for (const std::int64_t queries : {1, 512}) {
    for (const std::int64_t keys : {512, 4096}) {
      for (const std::string& name : kernels) {
        add("attention/" + std::to_string(queries) + "/" + std::to_string(keys) + "/" + name,
            [=](benchmark::State& state) { attention(state, name, queries, keys); });
      }
    }
  }
}

}  // namespace
}  // namespace afterimage

int main(int argc, char** argv) {
  afterimage::register_all();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <cmath>
#include <cstdint>

#include "bindings.h"
#include "caches/scheduling/encoder_ledger.h"
#include "caches/scheduling/parallel_advice.h"
#include "policy/eviction/workflow_graph.h"

namespace afterimage::python {

namespace {

std::atomic<std::uint64_t>& recommendations() {
  static std::atomic<std::uint64_t> count{0};
  return count;
}

EmbeddingCount embeds(std::int64_t count) {
  if (count < 0) {
    raise(ErrorCode::kInvalidArgument,
          "expected a count of embeddings, got " + std::to_string(count));
  }
  return EmbeddingCount(static_cast<std::uint64_t>(count));
}

/// What a server's configuration allows its media encoders, with the configuration.
struct PyEncoderBudget {
  EncoderBudgetRequest request;
  EncoderBudget budget;

  [[nodiscard]] std::vector<std::tuple<std::string, std::uint64_t, std::uint64_t, std::string>>
  broken(std::string_view modality, std::int64_t size) const {
    std::vector<std::tuple<std::string, std::uint64_t, std::uint64_t, std::string>> limits;
    for (const BrokenLimit& limit : broken_limits(modality, embeds(size), request, budget)) {
      limits.emplace_back(limit.setting, limit.limit.value(), limit.needed.value(), limit.advice);
    }
    return limits;
  }
};

PyEncoderBudget encoder_budget_of(const std::map<std::string, std::int64_t>& largest_items,
                                  std::uint32_t max_num_batched_tokens,
                                  std::int64_t max_num_encoder_input_tokens,
                                  std::int64_t encoder_cache_size, bool chunked_input_disabled,
                                  std::optional<bool> multimodal) {
  EncoderBudgetRequest request{.multimodal = multimodal.value_or(!largest_items.empty()),
                               .max_embeddings_per_item = {},
                               .chunked_input_disabled = chunked_input_disabled,
                               .max_num_batched_tokens = TokenCount(max_num_batched_tokens),
                               .max_num_encoder_input_tokens = embeds(max_num_encoder_input_tokens),
                               .encoder_cache_size = embeds(encoder_cache_size)};
  for (const auto& [modality, size] : largest_items) {
    request.max_embeddings_per_item[modality] = embeds(size);
  }
  EncoderBudget budget = or_raise(compute_encoder_budget(request));
  return {.request = std::move(request), .budget = std::move(budget)};
}

void bind_encoder_budget(nb::module_& module) {
  nb::class_<PyEncoderBudget>(module, "EncoderBudget",
                              "What one step may encode, and what the ledger may hold.\n"
                              "\n"
                              "Unit     Embeddings. Both 0: there is no encoder.")
      .def_prop_ro("compute",
                   [](const PyEncoderBudget& self) { return self.budget.compute.value(); })
      .def_prop_ro("space", [](const PyEncoderBudget& self) { return self.budget.space.value(); })
      .def_prop_ro(
          "warnings", [](const PyEncoderBudget& self) { return self.budget.warnings; },
          "What to tell the operator at start-up.")
      .def("broken_limits", &PyEncoderBudget::broken, nb::arg("modality"), nb::arg("size"),
           "The limits that an item exceeds: (setting, limit, needed, advice). Check when a "
           "request arrives,\n"
           "because such an item would wait for ever.")
      .def(
          "check_item",
          [](const PyEncoderBudget& self, std::string_view modality, std::int64_t size) {
            or_raise(check_item_size(modality, embeds(size), self.request, self.budget));
          },
          nb::arg("modality"), nb::arg("size"),
          "LimitExceeded, with the advice: the item exceeds a limit.");
  module.def(
      "compute_encoder_budget", encoder_budget_of, nb::arg("max_embeddings_per_item"),
      nb::kw_only(), nb::arg("max_num_batched_tokens"), nb::arg("max_num_encoder_input_tokens"),
      nb::arg("encoder_cache_size"), nb::arg("chunked_input_disabled") = false,
      nb::arg("multimodal") = nb::none(),
      "The budgets of a scheduler, raised where needed so that the largest item of any modality "
      "fits; vLLM's\n"
      "compute_encoder_budget.\n"
      "\n"
      "max_embeddings_per_item: by modality, the largest item that its processor can produce; "
      "without those that\n"
      "are disabled. chunked_input_disabled: an item must be encoded within one step. multimodal: "
      "whether the model\n"
      "has an encoder; default: if there are items. If it has one and all are disabled, warnings "
      "says "
      "so.\n"
      "\n"
      "InvalidArgument: it must, and the largest exceeds one step's tokens.");
}

InputIndex input_of(std::int64_t input) {
  if (input < 0 || input > UINT32_MAX) {
    raise(ErrorCode::kInvalidArgument,
          "expected an input index of at least 0, got " + std::to_string(input));
  }
  return InputIndex(static_cast<std::uint32_t>(input));
}

void bind_request_scoped_ledger(nb::module_& module) {
  using Self = RequestScopedLedger;
  nb::class_<Self>(module, "RequestScopedLedger",
                   "A scheduler's accounting of encoder outputs without sharing: each request "
                   "owns those of its inputs,\n"
                   "and released space is free at once. For engines whose workers key outputs by "
                   "(request, input).\n"
                   "\n"
                   "Unit     Embeddings: rows of encoder output.\n"
                   "Errors   NoSpace: allocate() beyond the capacity. InvalidArgument: two sizes "
                   "for one input.\n"
                   "Threads  Any: each call holds the GIL.")
      .def(
          "__init__", [](Self* self, std::int64_t capacity) { new (self) Self(embeds(capacity)); },
          nb::arg("capacity"))
      .def(
          "has",
          [](const Self& self, std::string request, std::int64_t input) {
            return self.has(RequestId(std::move(request)), input_of(input));
          },
          nb::arg("request"), nb::arg("input"))
      .def(
          "fits", [](const Self& self, std::int64_t size) { return self.fits(embeds(size)); },
          nb::arg("size"), "Whether allocate() would succeed.")
      .def(
          "allocate",
          [](Self& self, std::string request, std::int64_t input, std::int64_t size) {
            or_raise(self.allocate(RequestId(std::move(request)), input_of(input), embeds(size)));
          },
          nb::arg("request"), nb::arg("input"), nb::arg("size"),
          "Charges the input. One that is charged already is not charged again.")
      .def(
          "release",
          [](Self& self, std::string request, std::int64_t input) {
            return self.release(RequestId(std::move(request)), input_of(input));
          },
          nb::arg("request"), nb::arg("input"), "Frees the input's space. True if it held any.")
      .def(
          "release_all",
          [](Self& self, std::string request) {
            return self.release_all(RequestId(std::move(request)));
          },
          nb::arg("request"), "Releases every input of the request; returns how many held space.")
      .def(
          "drain_freed",
          [](Self& self) {
            nb::list freed;
            for (const RequestInput& each : self.drain_freed()) {
              freed.append(
                  nb::make_tuple(each.request.text(), static_cast<std::int64_t>(each.input)));
            }
            return freed;
          },
          nb::sig("def drain_freed(self) -> list[tuple[str, int]]"),
          "The (request, input) pairs that workers must drop: released since the last drain.")
      .def("reset", &Self::reset, "Forgets everything.")
      .def(
          "inputs_of",
          [](const Self& self, std::string request) {
            nb::set inputs;
            for (const InputIndex input : self.inputs_of(RequestId(std::move(request)))) {
              inputs.add(static_cast<std::int64_t>(input));
            }
            return inputs;
          },
          nb::arg("request"), nb::sig("def inputs_of(self, request: str) -> set[int]"),
          "The inputs of a request that hold space.")
      .def_prop_ro("capacity", [](const Self& self) { return self.capacity().value(); })
      .def_prop_ro("free_embeddings",
                   [](const Self& self) { return self.free_embeddings().value(); });
}

void bind_parallel_advice(nb::module_& module) {
  nb::class_<ParallelAdvice>(module, "ParallelAdvice",
                             "How several devices should share the media encoder.")
      .def_prop_ro(
          "mode", [](const ParallelAdvice& self) { return std::string(to_string(self.mode)); },
          "The value of --mm-encoder-tp-mode: data (each device encodes whole items) or weights "
          "(all devices\n"
          "share each item).")
      .def_prop_ro(
          "expected_gain",
          [](const ParallelAdvice& self) {
            return nb::make_tuple(self.expected_gain.low, self.expected_gain.high);
          },
          nb::sig("def expected_gain(self) -> tuple[float, float]"),
          "Request throughput of data over weights in percent, lowest and highest, as measured on "
          "similar\n"
          "workloads.")
      .def_ro("prerequisites", &ParallelAdvice::prerequisites, "Of the mode data.")
      .def_ro("reason", &ParallelAdvice::reason);
  module.def(
      "advise_encoder_parallelism",
      [](double parameter_share, std::uint64_t weight_bytes, std::uint32_t images,
         std::uint32_t width, std::uint32_t height, std::uint32_t tensor_parallel_size,
         std::uint64_t headroom_bytes, std::uint32_t depth, bool supports_data_mode) {
        if (!(parameter_share >= 0 && parameter_share <= 1)) {
          raise(ErrorCode::kInvalidArgument,
                "expected parameter_share to be 0 to 1: the encoder's parameters over the whole "
                "model's");
        }
        if (tensor_parallel_size == 0) {
          raise(ErrorCode::kInvalidArgument, "expected tensor_parallel_size of at least 1, got 0");
        }
        const ParallelAdvice advice = advise_encoder_parallelism(
            {.parameter_share = parameter_share,
             .depth = depth,
             .weight_bytes = Bytes(weight_bytes),
             .supports_data_mode = supports_data_mode},
            {.images = images, .width = width, .height = height},
            {.tensor_parallel_size = tensor_parallel_size, .headroom = Bytes(headroom_bytes)});
        if (advice.mode == EncoderParallelMode::kData) ++recommendations();
        return advice;
      },
      nb::kw_only(), nb::arg("parameter_share"), nb::arg("weight_bytes"), nb::arg("images"),
      nb::arg("width"), nb::arg("height"), nb::arg("tensor_parallel_size"),
      nb::arg("headroom_bytes"), nb::arg("depth") = 0, nb::arg("supports_data_mode") = true,
      "Advises how to launch an engine: data, unless that gains nothing or is not possible.\n"
      "\n"
      "parameter_share: the encoder's parameters over the whole model's, 0 to 1. weight_bytes: of "
      "the whole\n"
      "encoder. images, width, height: of a typical request. headroom_bytes: left on the fullest "
      "device.\n"
      "depth: the encoder's blocks. supports_data_mode: the engine has it for this model.");
}

AgentId agent_of(std::int64_t agent) {
  if (agent < 0 || agent >= UINT32_MAX) {
    raise(ErrorCode::kInvalidArgument,
          "expected an agent's number from 0 to 2^32 - 2, got " + std::to_string(agent));
  }
  return AgentId(static_cast<std::uint32_t>(agent));
}

std::optional<std::uint32_t> steps_of(const NextUse& next) {
  return next.steps == NextUse::kNever ? std::nullopt : std::optional(next.steps);
}

nb::list uses_of(const std::vector<AgentUse>& uses) {
  nb::list list;
  for (const AgentUse& use : uses) {
    list.append(nb::make_tuple(static_cast<std::uint32_t>(use.agent), steps_of(use.next),
                               use.next.probability));
  }
  return list;
}

using StepTuple = std::tuple<std::string, std::int64_t, std::vector<std::string>>;
using JumpTuple = std::tuple<std::string, std::string, double>;

WorkflowGraph graph_of(const std::vector<StepTuple>& steps, const std::vector<JumpTuple>& jumps) {
  std::vector<WorkflowStep> named;
  for (const auto& [name, agent, after] : steps) {
    named.push_back({.name = name, .agent = agent_of(agent), .after = after});
  }
  std::vector<WorkflowJump> probable;
  for (const auto& [from, to, probability] : jumps) {
    probable.push_back({.from = from, .to = to, .probability = probability});
  }
  return or_raise(WorkflowGraph::create(std::move(named), probable));
}

void bind_workflow(nb::module_& module) {
  using Self = WorkflowGraph;
  nb::class_<Self>(module, "WorkflowGraph",
                   "A workflow of agents' steps with dependencies and loops: how many steps "
                   "remain until an agent runs\n"
                   "again. done() and again() advance it.\n"
                   "\n"
                   "Errors   InvalidArgument: a step named twice, an unknown name, cyclic "
                   "dependencies (loops must be\n"
                   "         jumps), a probability outside (0, 1].\n"
                   "Threads  Any: each call holds the GIL.")
      .def(
          "__init__",
          [](Self* self, const std::vector<StepTuple>& steps, const std::vector<JumpTuple>& jumps) {
            new (self) Self(graph_of(steps, jumps));
          },
          nb::arg("steps"), nb::arg("jumps") = std::vector<JumpTuple>(),
          nb::sig("def __init__(self, steps: collections.abc.Sequence[tuple[str, int, "
                  "collections.abc.Sequence[str]]], jumps: collections.abc.Sequence[tuple[str, "
                  "str, float]] = ()) -> None"),
          "steps: (name, agent, names of the steps that must be done before). jumps: (from, to, "
          "probability),\n"
          "loops and branches that are not always taken.")
      .def(
          "done", [](Self& self, std::string_view step) { or_raise(self.done(step)); },
          nb::arg("step"), "The step has run.\n\nInvalidArgument: a step before it has not.")
      .def(
          "again", [](Self& self, std::string_view step) { or_raise(self.again(step)); },
          nb::arg("step"), "A jump was taken: the step and all that depend on it run again.")
      .def(
          "next_use",
          [](const Self& self, std::int64_t agent) {
            const NextUse next = self.next_use(agent_of(agent));
            return nb::make_tuple(steps_of(next), next.probability);
          },
          nb::arg("agent"), nb::sig("def next_use(self, agent: int) -> tuple[int | None, float]"),
          "(steps until the agent runs, probability). 0: now; None: never.")
      .def(
          "farthest_first", [](const Self& self) { return uses_of(self.farthest_first()); },
          nb::sig("def farthest_first(self) -> list[tuple[int, int | None, float]]"),
          "(agent, steps, probability) of all agents: the order in which to evict what they hold.")
      .def(
          "worth_prefetching",
          [](const Self& self, std::uint32_t steps, double probability) {
            return uses_of(self.worth_prefetching(steps, probability));
          },
          nb::arg("steps") = 2, nb::arg("probability") = 0.5,
          nb::sig("def worth_prefetching(self, steps: int = 2, probability: float = 0.5) -> "
                  "list[tuple[int, int | None, float]]"),
          "Agents that run within so many steps, but not now, with at least this probability; the "
          "nearest first.");
}

}  // namespace

std::uint64_t data_mode_recommendations() { return recommendations(); }

void bind_scheduling(nb::module_& module) {
  bind_encoder_budget(module);
  bind_request_scoped_ledger(module);
  bind_parallel_advice(module);
  bind_workflow(module);
}

}  // namespace afterimage::python

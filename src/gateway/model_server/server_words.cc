// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/model_server/server_words.h"

#include <fmt/format.h>

#include <string_view>

#include "foundation/text/quantities.h"

namespace afterimage {
namespace {

std::string models_of(const ModelServer& info) {
  if (info.models.empty()) return ", which lists no model";
  std::string text = ", model " + info.models.front();
  if (info.models.size() > 1) text += fmt::format(" and {} more", info.models.size() - 1);
  if (info.context > 0) text += fmt::format(", context of {} tokens", info.context);
  return text;
}

std::string behind(const Result<ModelServer>& info, const UpstreamSettings& upstream) {
  if (!info.has_value()) {
    return fmt::format("behind it: nothing answers yet ({}); requests get 502 until it does",
                       info.error().message);
  }
  if (info->needs_key) {
    return upstream.key_env.empty()
               ? "behind it: a server that wants a key; clients' keys are sent on, or name the "
                 "variable that holds one in upstream.key_env"
               : fmt::format("behind it: a server that refuses the key in {} (upstream.key_env)",
                             upstream.key_env);
  }
  const std::string version = info->version.empty() ? "" : " " + info->version;
  return fmt::format("behind it: {}{}{}", to_string(info->kind), version, models_of(*info));
}

std::string where(const MemorySettings& memory, const std::string& remote) {
  std::string text = fmt::format("memory ({})", print_size(memory.budget));
  if (!memory.disk.empty()) text += ", disk";
  if (!remote.empty()) text += ", Redis";
  return text;
}

std::string answers(const Settings& settings) {
  const AnswerSettings& answers = settings.answers;
  if (!answers.enabled) return "answers: none is kept (answers.enabled = false)";
  std::string text = fmt::format("answers: the same request again is answered from {}",
                                 where(settings.memory, settings.remote.url));
  if (answers.sampled == kPerRequester) {
    text +=
        "; without temperature 0 or a seed each requester gets each answer once (answers.sampled "
        "= \"per-requester\")";
  } else if (answers.sampled == kReplay) {
    text += ", whatever its temperature (answers.sampled = \"replay\")";
  } else {
    text += " if it has temperature 0 or a seed (answers.sampled = \"off\")";
  }
  return text;
}

std::string prompts(const Result<ModelServer>& info) {
  if (info.has_value() && info->caches_prefixes == false) {
    const std::string_view how = info->kind == ServerKind::kVllm
                                     ? "start it with --enable-prefix-caching"
                                     : "start it without --disable-radix-cache";
    return fmt::format("prompts: {} keeps no prefixes: {}", to_string(info->kind), how);
  }
  return "prompts: what of a prompt the server can reuse, and what stood in the way, is in each "
         "response (X-Afterimage-Prefix) and on the page";
}

std::string not_here(const Result<ModelServer>& info) {
  const ServerKind kind = info.has_value() ? info->kind : ServerKind::kUnknown;
  if (kind == ServerKind::kVllm || kind == ServerKind::kSglang) {
    return fmt::format(
        "not here: encoder outputs and KV stay in {}; its plug-in keeps and shares them "
        "(python/README.md)",
        to_string(kind));
  }
  if (kind == ServerKind::kLlamaServer || kind == ServerKind::kOllama ||
      kind == ServerKind::kLmStudio) {
    return "not here: encoder outputs and KV stay in the server; to reuse them too, run the "
           "model's GGUF here: afterimage serve --engine llama --model FILE";
  }
  return "not here: encoder outputs and KV stay in the server";
}

}  // namespace

std::vector<std::string> server_words(const Result<ModelServer>& info, const Settings& settings) {
  std::vector<std::string> words{behind(info, settings.upstream)};
  if (!settings.upstream.replicas.empty()) {
    words.front() += fmt::format(" (the first of {} replicas)", settings.upstream.replicas.size());
  }
  words.push_back(answers(settings));
  words.push_back(prompts(info));
  words.push_back(not_here(info));
  return words;
}

}  // namespace afterimage

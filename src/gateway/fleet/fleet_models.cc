// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/fleet/fleet_models.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "gateway/openai/record.h"

namespace afterimage {
namespace {

using ModelsJson = nlohmann::ordered_json;

constexpr std::string_view kModels = "/v1/models";
constexpr std::size_t kMostBytes = std::size_t{4} << 20U;  // of one replica's list
constexpr std::size_t kMostModels = 10'000;                // of one replica
constexpr std::size_t kMostKept = 64;                      // lists, one for each key of clients

std::string_view path_of(const BackendRequest& request) {
  return std::string_view(request.target).substr(0, request.target.find('?'));
}

void reply(BackendListener& listener, unsigned status, const std::string& body) {
  listener.on_head(status, {{"Content-Type", "application/json"},
                            {"Content-Length", std::to_string(body.size())}});
  listener.on_bytes(body);
  listener.on_end();
}

/// The entries of a list that a replica answered; nullopt: it is none.
std::optional<std::vector<ModelsJson>> entries_of(const std::string& body) {
  const auto json = ModelsJson::parse(body, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("data") || !json["data"].is_array()) return std::nullopt;
  std::vector<ModelsJson> entries;
  for (const ModelsJson& entry : json["data"]) {
    const bool named = entry.is_object() && entry.contains("id") && entry["id"].is_string();
    if (named && entries.size() < kMostModels) entries.push_back(entry);
  }
  return entries;
}

/// The whole list, or one entry of it.
void reply_with(BackendListener& listener, const ModelsJson& list, std::string_view path) {
  if (path == kModels) {
    return reply(listener, 200, list.dump(-1, ' ', false, ModelsJson::error_handler_t::replace));
  }
  const std::string_view id = path.substr(kModels.size() + 1);
  for (const ModelsJson& entry : list["data"]) {
    if (entry["id"].get_ref<const std::string&>() != id) continue;
    return reply(listener, 200, entry.dump(-1, ' ', false, ModelsJson::error_handler_t::replace));
  }
  reply(listener, 404,
        api_error(fmt::format("no replica has the model '{}'", id), "invalid_request_error",
                  "model_not_found"));
}

}  // namespace

struct FleetModels::Kept {
  struct List {
    std::shared_ptr<const ModelsJson> list;
    Duration since{0};
  };
  Mutex mutex;
  std::map<std::string, List> by_key AFI_GUARDED_BY(mutex);  // by the digest of the client's key
};

/// One question to all replicas.
class FleetModels::Gathering final : public std::enable_shared_from_this<FleetModels::Gathering> {
 public:
  struct Options {
    std::string path;
    std::string key;  // of Kept
    const Clock& clock;
    std::shared_ptr<Kept> kept;
    std::shared_ptr<BackendListener> listener;
  };
  explicit Gathering(Options options) : options_(std::move(options)) {}

  void start(const BackendRequest& request,
             const std::vector<std::pair<ReplicaSetting, std::shared_ptr<Backend>>>& servers);
  /// Answers with what came until now.
  void finish();
  void cancel();

 private:
  class Part;
  void came(std::size_t index, std::optional<std::vector<ModelsJson>> entries);
  void stop_calls();

  const Options options_;
  Mutex mutex_;
  std::vector<ReplicaSetting> settings_ AFI_GUARDED_BY(mutex_);
  std::vector<std::optional<std::vector<ModelsJson>>> parts_ AFI_GUARDED_BY(mutex_);
  std::vector<BackendCall> calls_ AFI_GUARDED_BY(mutex_);
  std::size_t missing_ AFI_GUARDED_BY(mutex_) = 0;
  bool over_ AFI_GUARDED_BY(mutex_) = false;
};

/// Hears one replica.
class FleetModels::Gathering::Part final : public BackendListener {
 public:
  Part(std::shared_ptr<Gathering> of, std::size_t index) : of_(std::move(of)), index_(index) {}
  ~Part() override { end({}); }
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;

  void on_head(unsigned status, HttpHeaders /*headers*/) override { is_good_ = status == 200; }
  void on_bytes(std::string_view bytes) override {
    if (body_.size() + bytes.size() > kMostBytes) is_good_ = false;
    if (is_good_) body_ += bytes;
  }
  void on_end() override { end(is_good_ ? entries_of(body_) : std::nullopt); }
  void on_error(const Error& /*error*/) override { end({}); }

 private:
  void end(std::optional<std::vector<ModelsJson>> entries) {
    if (const auto of = std::exchange(of_, nullptr)) of->came(index_, std::move(entries));
  }
  std::shared_ptr<Gathering> of_;
  const std::size_t index_;
  bool is_good_ = false;
  std::string body_;
};

void FleetModels::Gathering::start(
    const BackendRequest& request,
    const std::vector<std::pair<ReplicaSetting, std::shared_ptr<Backend>>>& servers) {
  {
    const MutexLock lock(mutex_);
    for (const auto& [setting, server] : servers) settings_.push_back(setting);
    parts_.resize(servers.size());
    missing_ = servers.size();
  }
  for (std::size_t i = 0; i < servers.size(); ++i) {
    BackendRequest one = request;
    one.target = kModels;
    BackendCall call = servers[i].second->ask(one, std::make_shared<Part>(shared_from_this(), i));
    const MutexLock lock(mutex_);
    if (!over_) calls_.push_back(std::move(call));
  }
  if (servers.empty()) finish();
}

void FleetModels::Gathering::came(std::size_t index,
                                  std::optional<std::vector<ModelsJson>> entries) {
  {
    const MutexLock lock(mutex_);
    parts_[index] = std::move(entries);
    if (--missing_ > 0) return;
  }
  finish();
}

void FleetModels::Gathering::stop_calls() {
  std::vector<BackendCall> calls;
  {
    const MutexLock lock(mutex_);
    calls.swap(calls_);
  }
  for (const BackendCall& call : calls) call.cancel();
}

void FleetModels::Gathering::finish() {
  auto list =
      std::make_shared<ModelsJson>(ModelsJson{{"object", "list"}, {"data", ModelsJson::array()}});
  bool any = false;
  bool all = true;
  {
    const MutexLock lock(mutex_);
    if (std::exchange(over_, true)) return;
    std::set<std::string> seen;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      any = any || parts_[i].has_value();
      all = all && parts_[i].has_value();
      if (!parts_[i].has_value()) continue;
      for (ModelsJson& entry : *parts_[i]) {
        const auto& id = entry["id"].get_ref<const std::string&>();
        if (!serves_model(settings_[i], id) || !seen.insert(id).second) continue;
        (*list)["data"].push_back(std::move(entry));
      }
    }
  }
  stop_calls();
  if (!any) {
    return reply(*options_.listener, 502,
                 api_error("no replica answered with a list of models; see upstream.replicas",
                           "server_error", "upstream_unavailable"));
  }
  // A list that lacks a replica's models is not kept: it may answer the next time.
  if (all) {
    const MutexLock lock(options_.kept->mutex);
    auto& by_key = options_.kept->by_key;
    if (by_key.size() >= kMostKept && !by_key.contains(options_.key)) by_key.clear();
    by_key[options_.key] = {.list = list, .since = options_.clock.now()};
  }
  reply_with(*options_.listener, *list, options_.path);
}

void FleetModels::Gathering::cancel() {
  {
    const MutexLock lock(mutex_);
    if (std::exchange(over_, true)) return;
  }
  stop_calls();
  options_.listener->on_error({ErrorCode::kCancelled, "the call was cancelled"});
}

FleetModels::FleetModels(Fleet& fleet, IoThreads& threads, const Clock& clock)
    : fleet_(fleet), threads_(threads), clock_(clock), kept_(std::make_shared<Kept>()) {}

bool FleetModels::answers(const BackendRequest& request) {
  const std::string_view path = path_of(request);
  return request.method == "GET" &&
         (path == kModels || (path.starts_with(kModels) && path.size() > kModels.size() + 1 &&
                              path[kModels.size()] == '/'));
}

BackendCall FleetModels::ask(const BackendRequest& request,
                             const std::shared_ptr<BackendListener>& listener) {
  const std::string client = request.headers.joined("Authorization").value_or("") + '\0' +
                             request.headers.joined("X-Api-Key").value_or("");
  const std::string key = to_hex(sha256(std::as_bytes(std::span(client))));
  std::string path(path_of(request));
  std::shared_ptr<const ModelsJson> known;
  {
    const MutexLock lock(kept_->mutex);
    const auto found = kept_->by_key.find(key);
    const bool fresh = found != kept_->by_key.end() && clock_.now() - found->second.since < kKept;
    if (fresh) known = found->second.list;
  }
  if (known != nullptr) {
    reply_with(*listener, *known, path);
    return {};
  }
  const auto gathering = std::make_shared<Gathering>(Gathering::Options{
      .path = std::move(path), .key = key, .clock = clock_, .kept = kept_, .listener = listener});
  gathering->start(request, fleet_.servers());
  threads_.post_after(threads_.here_or_next(), kTimeout, [weak = std::weak_ptr(gathering)] {
    if (const auto held = weak.lock()) held->finish();
  });
  return {.cancel = [weak = std::weak_ptr(gathering)] {
    if (const auto held = weak.lock()) held->cancel();
  }};
}

}  // namespace afterimage

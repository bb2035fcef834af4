// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/fleet/prompt_reader.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace afterimage {
namespace {

constexpr std::size_t kMostJobs = 64;
constexpr std::size_t kMostQueuedBytes = 32UL * 1024 * 1024;
constexpr std::size_t kLongestBody = 4UL * 1024 * 1024;
constexpr std::size_t kLongestResponse = 8UL * 1024 * 1024;
constexpr std::size_t kMostKnown = 32'768;
constexpr Duration kQueueTick = std::chrono::milliseconds(50);
constexpr Duration kLongestWait = std::chrono::seconds(30);
constexpr Duration kPatience = std::chrono::seconds(10);
/// A server that was updated may render: it is asked again after so long.
constexpr Duration kAskAgain = std::chrono::minutes(5);
constexpr std::string_view kRender = "/v1/chat/completions/render";
constexpr std::string_view kTokenize = "/tokenize";

/// The same request, of which only the layout of its tokens is wanted, not the pixels of its media.
std::shared_ptr<const std::string> without_payload(const std::string& body) {
  const std::size_t end = body.rfind('}');
  if (end == std::string::npos) return nullptr;
  return std::make_shared<const std::string>(body.substr(0, end) + R"(,"mm_payload":"none"})");
}

/// Media that are known by their address only would be fetched once more, and may be others by then.
bool has_every_media(const ContentChain& chain) {
  return std::ranges::all_of(chain.links, [](const ChainLink& link) {
    return !link.is_media || link.media != ContentDigest();
  });
}

}  // namespace

/// Keeps a short response until its end.
class PromptReader::Listener final : public BackendListener {
 public:
  Listener(std::shared_ptr<PromptReader> reader, Job job, bool rendered)
      : reader_(std::move(reader)), job_(std::move(job)), rendered_(rendered) {}
  void on_head(unsigned status, HttpHeaders /*headers*/) override { status_ = status; }
  void on_bytes(std::string_view bytes) override {
    if (is_too_long_) return;
    is_too_long_ = text_.size() + bytes.size() > kLongestResponse;
    if (is_too_long_) {
      text_ = {};
    } else {
      text_.append(bytes);
    }
  }
  void on_end() override { tell(is_too_long_ ? 0 : status_); }
  void on_error(const Error& /*error*/) override { tell(0); }

 private:
  void tell(unsigned status) {
    if (!std::exchange(told_, true)) {
      reader_->told(job_, rendered_, status, std::move(text_));
    }
  }
  const std::shared_ptr<PromptReader> reader_;
  const Job job_;
  const bool rendered_;
  unsigned status_ = 0;
  std::string text_;
  bool is_too_long_ = false;
  bool told_ = false;
};

/// Whether two links at least were not read before: one is a question of its own, which nobody asks
/// again until it is a part of a longer conversation.
bool PromptReader::is_new(const ContentChain& chain) {
  std::size_t fresh = 0;
  for (const ChainLink& link : chain.links) {
    const auto it = known_.find(link.key);
    if (it == known_.end()) {
      ++fresh;
    } else {
      known_order_.splice(known_order_.begin(), known_order_, it->second);
    }
  }
  if (fresh < 2) return false;
  const std::size_t count = std::min(chain.links.size(), kMostKnown);
  for (std::size_t i = 0; i < count; ++i) {
    if (known_.contains(chain.links[i].key)) continue;
    if (known_.size() >= kMostKnown) {
      known_.erase(known_order_.back());
      known_order_.pop_back();
    }
    known_order_.push_front(chain.links[i].key);
    known_.emplace(chain.links[i].key, known_order_.begin());
  }
  return true;
}

void PromptReader::offer(const BackendRequest& request, const FleetClaim& claim) {
  if (claim.tokenize == 0 || claim.chain == nullptr || request.body == nullptr ||
      request.request == nullptr) {
    return;
  }
  const std::string& replica = claim.route.replica;
  const bool is_chat = request.operation == ApiOperation::kChat;
  const bool has_media = !request.request->media.empty();
  if ((!is_chat && (request.operation != ApiOperation::kCompletion || has_media)) ||
      request.body->size() > kLongestBody || !has_every_media(*claim.chain)) {
    return;
  }
  const MutexLock lock(mutex_);
  if (stopped_ || (has_media && !servers_[replica].renders)) return;
  if (!is_new(*claim.chain)) return;
  queued_bytes_ += request.body->size();
  queue_.push_back({.server = claim.replica->server,
                    .replica = replica,
                    .rate = claim.tokenize,
                    .chain = claim.chain,
                    .model = request.request->model,
                    .is_chat = is_chat,
                    .has_media = has_media,
                    .authorization = request.headers.joined("authorization").value_or(""),
                    .salt = claim.replica->server->takes_salts() ? request.salt : "",
                    .body = request.body,
                    .offered = clock_.now()});
  while (queue_.size() > kMostJobs || queued_bytes_ > kMostQueuedBytes) drop(queue_.begin());
  schedule();
}

PromptReader::Jobs::iterator PromptReader::drop(Jobs::iterator job) {
  ++stats_.dropped;
  queued_bytes_ -= job->body->size();
  return queue_.erase(job);
}

void PromptReader::schedule() {
  if (stopped_ || std::exchange(ticks_, true)) return;
  threads_.post_after(threads_.here_or_next(), kQueueTick, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->run();
  });
}

void PromptReader::run() {
  std::vector<std::pair<Job, bool>> due;
  const auto sources = callbacks_.sources();
  {
    const MutexLock lock(mutex_);
    ticks_ = false;
    if (stopped_) return;
    const Duration now = clock_.now();
    for (auto it = queue_.begin(); it != queue_.end();) {
      const auto source = sources.find(it->replica);
      if (source != sources.end() && source->second.names_content) {
        queued_bytes_ -= it->body->size();
        it = queue_.erase(it);
        continue;
      }
      if (source == sources.end() || now - it->offered > kLongestWait) {
        it = drop(it);
        continue;
      }
      Server& server = servers_[it->replica];
      // Until its first events it is not known what they name.
      if (source->second.blocks == 0 || server.is_asked || now < server.next) {
        ++it;
        continue;
      }
      if (now >= server.asks_render_again) server.renders = true;
      server.is_asked = true;
      server.next = now + Duration(std::chrono::seconds(1)) / it->rate;
      queued_bytes_ -= it->body->size();
      due.emplace_back(std::move(*it), it->is_chat && server.renders);
      it = queue_.erase(it);
    }
    if (!queue_.empty()) schedule();
  }
  for (auto& [job, renders] : due) ask(std::move(job), renders);
}

void PromptReader::ask(Job job, bool renders) {
  const auto body = renders ? without_payload(*job.body) : job.body;
  if (body == nullptr) return told(job, renders, 0, {});
  HttpHeaders headers{{"Content-Type", "application/json"}};
  if (!job.authorization.empty()) headers.add("Authorization", job.authorization);
  BackendRequest request{.method = "POST",
                         .target = std::string(renders ? kRender : kTokenize),
                         .headers = std::move(headers),
                         .body = body,
                         .operation = std::nullopt,
                         .request = nullptr,
                         .tenant = {},
                         .salt = job.salt};
  const std::shared_ptr<Backend> server = job.server;
  const BackendCall call = server->ask(
      std::move(request), std::make_shared<Listener>(shared_from_this(), std::move(job), renders));
  threads_.post_after(threads_.here_or_next(), kPatience, call.cancel);
}

void PromptReader::told(const Job& job, bool rendered, unsigned status, std::string response) {
  const bool unknown_path = rendered && (status == 404 || status == 405 || status == 501);
  const bool tokenizes = unknown_path && !job.has_media;
  {
    const MutexLock lock(mutex_);
    Server& server = servers_[job.replica];
    if (unknown_path) {
      server.renders = false;
      server.asks_render_again = clock_.now() + kAskAgain;
    }
    if (stopped_) return;
    if (!tokenizes) {
      server.is_asked = false;
      ++(status == 200 ? stats_.read : stats_.failed);
    }
  }
  if (tokenizes) return ask(job, /*renders=*/false);
  if (status != 200) return;
  callbacks_.learned(
      {.chain = job.chain, .response = std::move(response), .model = job.model, .salt = job.salt});
}

void PromptReader::stop() {
  const MutexLock lock(mutex_);
  stopped_ = true;
  queue_.clear();
}

PromptReaderStats PromptReader::stats() const {
  const MutexLock lock(mutex_);
  return stats_;
}

}  // namespace afterimage

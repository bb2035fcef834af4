// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Tiers, archives and what other gateways share.
#include <chrono>
#include <string>
#include <utility>

#include "afterimage/encode_once.h"
#include "afterimage/prefill_once.h"
#include "afterimage/secret.h"
#include "afterimage/shared_store.h"
#include "caches/identity/fields.h"
#include "foundation/platform/environment.h"
#include "gateway/proxy/erasure.h"
#include "gateway/service/service_state.h"
#include "runtime/certificate/moved_certificate.h"
#include "storage/disk/segment_log.h"
#include "storage/encryption/encrypted_cell.h"
#include "storage/memory/file_cell.h"
#include "storage/remote/remote_cell.h"

namespace afterimage {
namespace {

/// How long a gateway holds the lease of a question. Shorter than answers.coalesce_timeout, so that
/// those who wait for a gateway that died take over.
constexpr Duration kAnswerLease = std::chrono::seconds(5);
constexpr Bytes kMaxCertificate = 64_KiB;

/// kInvalidArgument and others: what the operator has to change.
Result<MovedMediaOptions> moved_media_options(const MovedMediaSettings& settings,
                                              const Engine& engine, const Files& files) {
  const KvLayout* const layout = engine.kv_layout();
  if (layout == nullptr || engine.key_rotation() == nullptr) {
    const std::string why = engine.why_no_rotation();
    return fail(ErrorCode::kUnsupported,
                "moved_media.mode: KV of this model cannot be used at other positions" +
                    (why.empty() ? "" : ": " + why));
  }
  const auto named = [](const Error& error) {
    return fail(error.code, "moved_media.certificate: " + error.message);
  };
  const auto bytes = files.read(settings.certificate, kMaxCertificate);
  if (!bytes.has_value()) return named(bytes.error());
  const auto read =
      parse_certificate({reinterpret_cast<const char*>(bytes->data()), bytes->size()});
  if (!read.has_value()) return named(read.error());
  const KvOrigin origin = kv_origin(engine.identity(), *layout);
  const auto holds = check_certificate(*read, origin, settings.max_loss);
  if (!holds.has_value()) return named(holds.error());
  return MovedMediaOptions{.certified = origin,
                           .recomputed = read->recomputed,
                           .max_loss = settings.max_loss,
                           .sample_every = settings.sample_every,
                           .capacity = settings.capacity};
}

/// The password in an environment variable; empty if the variable with the default name is not set.
Result<std::string> password_in(const std::string& variable, const std::string& default_variable,
                                std::string_view setting) {
  auto password = environment(variable);
  if (password.has_value() || variable == default_variable) {
    return std::move(password).value_or("");
  }
  return fail(ErrorCode::kInvalidArgument,
              std::string(setting) + ": the environment variable '" + variable + "' is not set");
}

}  // namespace

/// nullptr afterwards: there is no GPU that can be used, which costs hits and nothing else.
void Service::State::open_device() {
  const MemorySettings& memory = options.settings.memory;
  auto opened = DeviceCache::open(
      {.capacity = memory.gpu_size, .device = {.device = memory.gpu}, .gauge = gauges.device},
      clock);
  if (opened.has_value()) {
    device = *std::move(opened);
  } else {
    log.error("gpu_not_used",
              {{"gpu", std::uint64_t{memory.gpu}}, {"why", opened.error().message}});
  }
}

/// A store that cannot be used costs hits and nothing else.
Result<void> Service::State::open_stores() {
  const MemorySettings& memory = options.settings.memory;
  const RemoteSettings& settings = options.settings.remote;
  if (!memory.encrypt_key_file.empty() && !memory.encrypt_key_env.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "memory.encrypt_key_file and memory.encrypt_key_env: only one of them");
  }
  if (memory.gpu_size > 0_B) open_device();
  StoresOptions wanted{.nearest = device == nullptr ? nullptr : &device->tier(),
                       .disk = memory.disk,
                       .disk_capacity = memory.disk_size,
                       .disk_flush_interval = memory.disk_flush_interval,
                       .secret_file = options.settings.secret_file,
                       .encrypt_key_file = memory.encrypt_key_file,
                       .encrypt_key_env = memory.encrypt_key_env};
  if (!settings.url.empty()) {
    AFI_TRY_VOID(check_shared_secret(settings.url, options.settings.secret_file));
    AFI_TRY(std::string password, password_in(settings.password_env, RemoteSettings().password_env,
                                              "remote.password_env"));
    AFI_TRY(std::string sentinel_password,
            password_in(settings.sentinel_password_env, RemoteSettings().sentinel_password_env,
                        "remote.sentinel_password_env"));
    wanted.remote = SharedStoreOptions{.url = settings.url,
                                       .password = std::move(password),
                                       .sentinel_password = std::move(sentinel_password),
                                       .tls_ca_file = settings.tls.ca_file,
                                       .tls_certificate_file = settings.tls.certificate_file,
                                       .tls_key_file = settings.tls.key_file,
                                       .tls_server_name = settings.tls.server_name,
                                       .ttl = settings.ttl,
                                       .in_flight = settings.in_flight,
                                       .timeout = settings.timeout};
  }
  wanted.on_degraded = [this](std::string_view store, const Error& error) {
    if (store == "disk") {
      log.error("disk_not_used",
                {{"folder", options.settings.memory.disk}, {"why", error.message}});
    } else {
      log.warn("remote_not_there", {{"why", error.message}});
    }
  };
  AFI_TRY(stores, Stores::open(wanted, clock));
  if (stores->disk_tier() == nullptr) return {};
  const DiskRecovery& found = stores->disk_tier()->log().recovery();
  if (found.foreign_files > 0 || found.dropped_segments > 0) {
    log.warn("disk_files_not_used", {{"folder", memory.disk},
                                     {"of_another_store", found.foreign_files},
                                     {"removed", found.dropped_segments}});
  }
  return {};
}

/// A value on the servers; `stored` is it as it lies there, and outlives it.
Result<std::unique_ptr<SharedCell>> Service::State::remote_cell(
    std::string_view domain, std::unique_ptr<SharedCell>& stored) const {
  AFI_TRY(auto keys, stores->keys());
  FieldWriter fields(domain);
  fields.number("sealed", keys.has_value() ? 1 : 0);
  const TierKey place{.entry_class = EntryClass::kAnswer,
                      .bytes = hmac_sha256(stores->secret(), fields.message())};
  // It outlives every answer that it is about.
  const Duration ttl = std::max<Duration>(2 * options.settings.remote.ttl, std::chrono::hours(1));
  auto cell = std::make_unique<RemoteCell>(stores->shared_store()->remote_tier(), place.bytes, ttl);
  if (!keys.has_value()) return cell;
  stored = std::move(cell);
  return std::make_unique<EncryptedCell>(*stored, place, *std::move(keys));
}

/// The invalidation log is on the servers, also where answers are kept on disk, too.
Result<void> Service::State::share_answers() {
  SharedStore* const remote = stores->shared_store();
  AFI_TRY(invalidations, remote_cell("afterimage/shared-erasures/1", remote_invalidations));
  invalidation_log = std::make_unique<InvalidationLog>(*invalidations, stores->secret());
  answer_leases = std::make_unique<RedisLeases>(remote->remote_tier(),
                                                RedisLeasesOptions{.lease = kAnswerLease});
  const std::string file =
      stores->disk() == nullptr ? "" : options.settings.memory.disk + "/answers-erased";
  AFI_TRY(archive,
          AnswerArchive::open({.tier = *stores->replaceable_tier(),
                               .transfer = transfer,
                               .cache = *reuse->answer_cache(),
                               .files = stores->files(),
                               .erasures = file,
                               .clock = clock,
                               .wall = ids.clock(),
                               .shared = invalidation_log.get(),
                               .wait = {},
                               .turns = answer_leases.get(),
                               .labels = EntryLabels(stores->secret()),
                               .on_invalidation = [this](const Invalidation& invalidation) {
                                 erase_what_others_erased(invalidation);
                               }}));
  const auto read = archive->refresh();
  if (!read.has_value()) log.warn("answers_not_shared_yet", {{"why", read.error().message}});
  return {};
}

/// Answers are erased already; encoder outputs and KV are here and on this gateway's disk, too.
void Service::State::erase_what_others_erased(const Invalidation& invalidation) {
  const bool unknown = invalidation == Invalidation();
  const auto target = announced(invalidation.tag);
  if (!unknown && !target.has_value()) return;
  const bool posted = gateway->erasers().post([this, unknown, target] {
    const Result<void> erased = unknown ? erase_own_copies() : [&]() -> Result<void> {
      archive->wait_for_puts();
      AFI_TRY_VOID(erase_here(*gateway, *target));
      return {};
    }();
    if (!erased.has_value()) return log.error("not_erased", {{"why", erased.error().message}});
    log.info("erased", {{"what", unknown ? "everything" : announcement(*target)},
                        {"because", "another gateway erased it"}});
  });
  if (!posted) log.error("not_erased", {{"why", "too many erasures are waiting; erase it again"}});
}

/// Others may have erased anything: nothing that only this gateway holds is kept. What the servers
/// hold, they have erased there.
Result<void> Service::State::erase_own_copies() {
  reuse->encoder().cache().clear();
  if (reuse->prefix() != nullptr) reuse->prefix()->cache().clear();
  reuse->clear_moved();
  if (device != nullptr) AFI_TRY_VOID(device->tier().erase_matching({}));
  if (stores->disk() != nullptr) AFI_TRY_VOID(stores->disk()->erase_matching({}));
  return {};
}

/// nullopt: no answer outlives the process.
std::optional<SimilarStorage> Service::State::similar_storage() {
  if (archive == nullptr) return std::nullopt;
  // Pages that other gateways write, too, are not copied to the disk: the copy would hide them.
  Tier* const pages = stores->remote() != nullptr ? stores->remote() : stores->disk();
  return SimilarStorage{.answers = *archive,
                        .tier = *pages,
                        .evidence = [this](const auto& name) { return evidence_cell(name); },
                        .transfer = transfer,
                        .secret = stores->secret()};
}

Result<SharedCell*> Service::State::evidence_cell(const std::string& name) {
  if (stores->shared_store() != nullptr) {
    AFI_TRY(evidence, remote_cell("afterimage/similarity-evidence/2/" + name, stored_evidence));
  } else {
    evidence = std::make_unique<FileCell>(
        stores->files(), options.settings.memory.disk + "/similarity-evidence-" + name);
  }
  return evidence.get();
}

/// Without it answers are lost with the process, and requests are served all the same.
void Service::State::open_archive() {
  if (stores->disk() == nullptr || reuse->answer_cache() == nullptr) return;
  auto opened = AnswerArchive::open({.tier = *stores->disk(),
                                     .transfer = transfer,
                                     .cache = *reuse->answer_cache(),
                                     .files = stores->files(),
                                     .erasures = options.settings.memory.disk + "/answers-erased",
                                     .clock = clock,
                                     .wall = ids.clock(),
                                     .labels = EntryLabels(stores->secret())});
  if (opened.has_value()) {
    archive = *std::move(opened);
  } else {
    log.error("answers_not_archived", {{"why", opened.error().message}});
  }
}

/// Without a certificate that holds, every answer is exact: the log says why.
void Service::State::open_moved_media(ReuseOptions& kept) {
  const MovedMediaSettings& settings = options.settings.moved_media;
  if (settings.mode == "off" || options.engine == nullptr) return;
  auto opened = moved_media_options(settings, *options.engine, files);
  if (!opened.has_value()) {
    log.error("moved_media_not_used", {{"why", opened.error().message}});
    return;
  }
  opened->on_disabled = [this](const std::string& why) {
    log.error("moved_media_off", {{"why", why}});
  };
  kept.moved = *std::move(opened);
}

}  // namespace afterimage

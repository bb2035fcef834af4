// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "afterimage/digest.h"
#include "afterimage/identity.h"
#include "afterimage/media.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "foundation/http/client.h"
#include "foundation/platform/environment.h"
#include "foundation/text/data_url.h"

namespace afterimage {
namespace {

using AdminJson = nlohmann::ordered_json;

constexpr const char* kTokenVariable = "AFTERIMAGE_ADMIN_TOKEN";
constexpr std::size_t kQuotedReply = 200;  // bytes of a reply that is not JSON
constexpr Bytes kMaxMedia = 4_GiB;
constexpr Bytes kMaxRequest = 1_GiB;

struct AdminArgs {
  std::string server = "http://127.0.0.1:8081";
  std::string request_id;
  std::string entry, tag, tenant, model, media;
  double older_than = 0;  // seconds
  std::string age;        // of an erasure: days
  bool all = false;
  bool yes = false;
  std::string key, group;
  std::vector<std::string> budgets;
  double grace = 0;  // seconds
  std::string file;  // of a recorded request
  std::string operation = "chat";
  std::vector<std::string> headers;
};

/// One call to a running gateway. Prints what it says, or why it refuses.
ExitCode call_with(const AdminArgs& args, const std::string& path,
                   const std::optional<std::string>& body) {
  auto url = parse_url(args.server);
  if (!url.has_value()) return report_error("admin", url.error(), ExitCode::kUsageError);
  url->target = path;
  HttpQuestion question{.url = *url};
  const std::string token = environment(kTokenVariable).value_or("");
  if (!token.empty()) question.headers["Authorization"] = "Bearer " + token;
  if (body.has_value()) question.body = *body;
  const auto reply = body.has_value() ? http_post(question) : http_get(question);
  if (!reply.has_value()) {
    return report_error(
        "admin",
        {reply.error().code, reply.error().message +
                                 ": is `afterimage serve` running there, and is this "
                                 "its admin port?"},
        ExitCode::kProblem);
  }
  const AdminJson said = AdminJson::parse(reply->body, nullptr, /*allow_exceptions=*/false);
  if (reply->status == 200 && !said.is_discarded()) {
    fmt::print("{}\n", said.dump(2, ' ', false, AdminJson::error_handler_t::replace));
    return ExitCode::kFine;
  }
  std::string why = reply->body.substr(0, kQuotedReply);
  if (said.is_object() && said.contains("error") && said["error"].is_object()) {
    why = said["error"].value("message", why);
  }
  if (reply->status == 401) why += fmt::format(" (from the variable {})", kTokenVariable);
  return report_error("admin", {ErrorCode::kUnavailable, fmt::format("{}: {}", reply->status, why)},
                      ExitCode::kProblem);
}

ExitCode call(const AdminArgs& args, const std::string& path, const AdminJson* body) {
  if (body == nullptr) return call_with(args, path, std::nullopt);
  return call_with(args, path, body->dump(-1, ' ', false, AdminJson::error_handler_t::replace));
}

/// A digest as it is, or that of a file.
Result<std::string> digest_of(const std::string& media, const Files& files) {
  const bool is_hex = media.size() == 2 * kDigestBytes &&
                      media.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (is_hex) return media;
  AFI_TRY(std::vector<std::byte> bytes, files.read(media, kMaxMedia));
  const MediaItem item{.files = {std::make_shared<const std::vector<std::byte>>(std::move(bytes))}};
  return to_hex(content_digest(item).bytes);
}

ExitCode invalidate(const AdminArgs& args, const World& world) {
  AdminJson filter = AdminJson::object();
  if (!args.entry.empty()) filter["entry"] = args.entry;
  if (!args.tag.empty()) filter["tag"] = args.tag;
  if (!args.tenant.empty()) filter["tenant"] = args.tenant;
  if (!args.model.empty()) filter["model"] = args.model;
  if (args.older_than > 0) filter["older_than_s"] = args.older_than;
  if (args.all) filter["all"] = true;
  if (!args.media.empty()) {
    const auto digest = digest_of(args.media, world.files);
    if (!digest.has_value()) return report_error("admin", digest.error(), ExitCode::kUsageError);
    filter["media"] = *digest;
  }
  filter["dry_run"] = !args.yes;
  const ExitCode code = call(args, "/admin/api/invalidate", &filter);
  if (code == ExitCode::kFine && !args.yes) {
    fmt::print(stderr, "nothing was removed; --yes removes these answers\n");
  }
  return code;
}

/// "30d" or "30". The text was checked.
int days_of(std::string text) {
  if (text.ends_with('d')) text.pop_back();
  int days = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), days);
  const bool fine = error == std::errc() && end == text.data() + text.size() && days >= 0 &&
                    days <= EntryLabels::kMaxDays;
  return fine ? days : -1;
}

ExitCode erase(const AdminArgs& args, const World& world) {
  if (!args.yes) {
    return report_error(
        "admin",
        {ErrorCode::kInvalidArgument, "nothing was erased: add --yes to erase it for good"},
        ExitCode::kUsageError);
  }
  AdminJson what = AdminJson::object();
  if (!args.tenant.empty()) what["tenant"] = args.tenant;
  if (!args.model.empty()) what["model"] = args.model;
  if (!args.tag.empty()) what["tag"] = args.tag;
  if (!args.age.empty()) what["older_than_days"] = days_of(args.age);
  if (args.all) what["all"] = true;
  if (!args.media.empty()) {
    const auto digest = digest_of(args.media, world.files);
    if (!digest.has_value()) return report_error("admin", digest.error(), ExitCode::kUsageError);
    what["media"] = *digest;
  }
  return call(args, "/admin/api/erase", &what);
}

/// The body is sent as it was recorded: another order of its members is another request.
ExitCode explain_recorded(const AdminArgs& args, const World& world) {
  const auto bytes = world.files.read(args.file, kMaxRequest);
  if (!bytes.has_value()) return report_error("admin", bytes.error(), ExitCode::kUsageError);
  const std::string body(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  const bool is_form = body.starts_with("--");  // the first boundary of multipart/form-data
  const AdminJson read = AdminJson::parse(body, nullptr, /*allow_exceptions=*/false);
  if (!read.is_object() && !is_form) {
    return report_error(
        "admin",
        {ErrorCode::kInvalidArgument,
         args.file + " is neither a JSON object nor a form: give the body of one request"},
        ExitCode::kUsageError);
  }
  AdminJson headers = AdminJson::object();
  for (const std::string& header : args.headers) {
    const std::size_t colon = header.find(':');
    const std::size_t value = header.find_first_not_of(' ', colon + 1);
    headers[header.substr(0, colon)] = value == std::string::npos ? "" : header.substr(value);
  }
  const std::string given =
      is_form ? "\"body_base64\":\"" + encode_base64(*bytes) + "\"," : "\"body\":" + body + ",";
  return call_with(
      args, "/admin/api/explain",
      AdminJson{{"operation", args.operation}, {"headers", headers}}.dump().insert(1, given));
}

using AdminCall = std::function<ExitCode()>;

CLI::App* add_call(CLI::App& verb, ExitCode& code, const char* name, const char* help,
                   AdminCall made) {
  CLI::App* sub = verb.add_subcommand(name, help);
  sub->callback([&code, made = std::move(made)] { code = made(); });
  return sub;
}

void add_invalidate(CLI::App& verb, World& world, ExitCode& code,
                    const std::shared_ptr<AdminArgs>& args) {
  CLI::App* sub = add_call(verb, code, "invalidate",
                           "Remove cached answers, by one of these filters; without --yes only\n"
                           "count them",
                           [args, &world] { return invalidate(*args, world); });
  CLI::Option_group* filter = sub->add_option_group("Filter");
  filter->add_option("--entry", args->entry, "One answer, by the id of the dashboard")
      ->type_name("ID");
  filter->add_option("--tag", args->tag, "Answers with this tag")->type_name("NAME");
  filter->add_option("--tenant", args->tenant, "Answers of a tenant")->type_name("NAME");
  filter->add_option("--model", args->model, "Answers of a model")->type_name("NAME");
  filter
      ->add_option("--media", args->media,
                   "Answers about a file: an image, sound, video or document")
      ->type_name("FILE|SHA256");
  filter
      ->add_option("--older-than", args->older_than,
                   "Answers that were stored longer ago, in seconds")
      ->check([](const std::string& text) {
        double seconds = 0;
        const bool fine = CLI::detail::lexical_cast(text, seconds) && seconds > 0;
        return fine ? std::string() : "'" + text + "' is not a number of seconds above 0";
      })
      ->type_name("SECONDS");
  filter->add_flag("--all", args->all, "All answers");
  filter->require_option(1);
  sub->add_flag("--yes", args->yes, "Remove them");
}

void add_erase(CLI::App& verb, World& world, ExitCode& code,
               const std::shared_ptr<AdminArgs>& args) {
  CLI::App* sub = add_call(verb, code, "erase",
                           "Erase encoder outputs, KV and answers from memory, the GPU, the disk\n"
                           "and the remote servers; wait for requests that are running",
                           [args, &world] { return erase(*args, world); });
  CLI::Option_group* what = sub->add_option_group("What");
  what->add_option("--media", args->media,
                   "What was made from a file: an image, sound, video or document")
      ->type_name("FILE|SHA256");
  what->add_option("--tenant", args->tenant, "What was made for a tenant")->type_name("NAME");
  what->add_option("--model", args->model, "What was made by a model")->type_name("NAME");
  what->add_option("--tag", args->tag, "What requests with this tag (X-Afterimage-Tags) made")
      ->type_name("NAME");
  what->add_option("--older-than", args->age, "What was made so many days ago, or longer")
      ->check([](const std::string& text) {
        return days_of(text) >= 0
                   ? std::string()
                   : fmt::format("'{}' is not a number of days like 30d, at most {}d", text,
                                 EntryLabels::kMaxDays);
      })
      ->type_name("DAYS");
  what->add_flag("--all", args->all, "Everything");
  what->require_option(1);
  sub->add_flag("--yes", args->yes, "Erase it");
}

void add_explain_recorded(CLI::App& verb, World& world, ExitCode& code,
                          const std::shared_ptr<AdminArgs>& args) {
  CLI::App* sub = add_call(verb, code, "explain",
                           "Say what would become of a recorded request, and where its prompt\n"
                           "differs from the closest earlier one; it is not sent to the model",
                           [args, &world] { return explain_recorded(*args, world); });
  sub->add_option("file", args->file,
                  "The body of the request: JSON, or a form, whose Content-Type is a --header")
      ->required()
      ->type_name("FILE");
  sub->add_option("--operation", args->operation,
                  "What is requested; messages and responses are other APIs' chats")
      ->capture_default_str()
      ->check(CLI::IsMember({"chat", "completion", "embedding", "messages", "responses",
                             "transcription", "translation", "rerank", "score", "image",
                             "image-edit", "speech"}))
      ->type_name("NAME");
  sub->add_option("--header", args->headers,
                  "A header of the request, such as 'Authorization: Bearer KEY': whose earlier\n"
                  "requests it is compared with; may be repeated")
      ->allow_extra_args(false)
      ->check([](const std::string& text) {
        const std::size_t colon = text.find(':');
        const bool fine = colon != std::string::npos && colon > 0;
        return fine ? std::string() : "'" + text + "' is not a header like 'Name: value'";
      })
      ->type_name("HEADER");
}

void add_key_name(CLI::App& sub, const std::shared_ptr<AdminArgs>& args) {
  sub.add_option("name", args->key, "The key's name, as `admin keys list` shows it")
      ->required()
      ->type_name("NAME");
}

void add_budgets(CLI::App& sub, const std::shared_ptr<AdminArgs>& args) {
  sub.add_option("--budget", args->budgets,
                 "\"1000 requests/day\": requests, tokens or money a minute, day or month; may be\n"
                 "repeated")
      ->allow_extra_args(false)
      ->type_name("BUDGET");
}

void add_keys(CLI::App& verb, ExitCode& code, const std::shared_ptr<AdminArgs>& args) {
  CLI::App* keys = verb.add_subcommand(
      "keys", "Make, list, rotate and disable API keys, with budgets (docs/keys.md)");
  keys->require_subcommand(1);
  keys->fallthrough();
  const auto send = [args](const char* action, const std::function<void(AdminJson&)>& fill = {}) {
    return [args, path = std::string("/admin/api/keys") + action, fill] {
      AdminJson body{{"name", args->key}};
      if (fill) fill(body);
      return call(*args, path, &body);
    };
  };
  add_call(*keys, code, "list", "Print all keys with their budgets and what they used",
           [args] { return call(*args, "/admin/api/keys", nullptr); });
  CLI::App* make = add_call(*keys, code, "make", "Make a key; its secret is printed this once",
                            send("", [args](AdminJson& body) {
                              if (!args->group.empty()) body["group"] = args->group;
                              body["budgets"] = args->budgets;
                            }));
  add_key_name(*make, args);
  make->add_option("--group", args->group, "Keys of a group share their cached content")
      ->type_name("NAME");
  add_budgets(*make, args);
  CLI::App* rotate =
      add_call(*keys, code, "rotate", "Replace a key's secret; the new one is printed this once",
               send("/rotate", [args](AdminJson& body) { body["grace_s"] = args->grace; }));
  add_key_name(*rotate, args);
  rotate->add_option("--grace", args->grace, "How long the old secret holds, in seconds")
      ->capture_default_str()
      ->type_name("SECONDS");
  add_key_name(*add_call(*keys, code, "disable", "Refuse a key from now on", send("/disable")),
               args);
  add_key_name(*add_call(*keys, code, "enable", "Accept it again", send("/enable")), args);
  CLI::App* budgets =
      add_call(*keys, code, "budgets", "Replace a key's budgets; without --budget it has none",
               send("/budgets", [args](AdminJson& body) { body["budgets"] = args->budgets; }));
  add_key_name(*budgets, args);
  add_budgets(*budgets, args);
}

}  // namespace

void add_admin(CLI::App& program, World& world, ExitCode& code) {
  auto args = std::make_shared<AdminArgs>();
  CLI::App* verb = program.add_subcommand("admin",
                                          "Ask a running gateway for its counters, explain a "
                                          "request, erase what it stores, manage API keys, reload");
  verb->add_option("--server", args->server, "The gateway's admin port")
      ->capture_default_str()
      ->type_name("URL");
  verb->require_subcommand(1);
  verb->fallthrough();
  add_call(*verb, code, "stats", "Print its counters",
           [args] { return call(*args, "/admin/api/stats", nullptr); });
  add_call(*verb, code, "media",
           "Print the media items whose encoder outputs are in memory, the most shared first",
           [args] { return call(*args, "/admin/api/media", nullptr); });
  add_explain_recorded(*verb, world, code, args);
  add_invalidate(*verb, world, code, args);
  add_erase(*verb, world, code, args);
  add_keys(*verb, code, args);
  CLI::App* wrong = add_call(
      *verb, code, "wrong",
      "Report an answer as wrong: it is erased, and similar questions are trusted less", [args] {
        const AdminJson body{{"request_id", args->request_id}};
        return call(*args, "/admin/api/wrong", &body);
      });
  wrong
      ->add_option("request", args->request_id,
                   "The X-Request-Id of the response with the answer, one of the last 1,000")
      ->required()
      ->type_name("ID");
  const auto command = [args](const char* path) {
    return [args, path] {
      const AdminJson body = AdminJson::object();
      return call(*args, path, &body);
    };
  };
  add_call(*verb, code, "reload", "Read the settings again; print which need a restart",
           command("/admin/api/reload"));
  add_call(*verb, code, "drain", "Finish the running requests and exit",
           command("/admin/api/drain"));
  verb->footer(
      "The variable AFTERIMAGE_ADMIN_TOKEN holds admin.token of the gateway's settings, if it has "
      "one.\n"
      "Prints JSON (docs/formats/admin.md). Exit code 1: the gateway refused, or is not there.\n"
      "\n"
      "Examples:\n"
      "  afterimage admin stats\n"
      "  afterimage admin explain request.json --header 'Authorization: Bearer KEY'\n"
      "  afterimage admin invalidate --media photo.jpg\n"
      "  afterimage admin invalidate --tag doc:42 --yes\n"
      "  afterimage admin erase --media photo.jpg --yes\n"
      "  afterimage admin erase --older-than 30d --yes\n"
      "  afterimage admin keys make acme --budget '1000 requests/day' --budget '20 money/month'\n"
      "  afterimage admin wrong req-8f2c --server http://10.0.0.5:8081");
}

}  // namespace afterimage

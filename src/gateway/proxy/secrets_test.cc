// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// What nobody is told: keys of clients and of the upstream, the operator's token, the
// installation's secret, the keys of what is encrypted. Everything that leaves the process is
// looked through.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "foundation/platform/wall_clocks.h"
#include "testing/running_gateway.h"
#include "testing/temporary_folder.h"

namespace afterimage {
namespace {

using testing::ask;
using testing::Model;
using testing::question;
using testing::Said;
using testing::TemporaryFolder;

const std::string kClient = "sk-the-clients-own-key-5d1f";
const std::string kUpstream = "sk-the-upstreams-key-77aa";
const std::string kToken = "the-operators-token-19c3";
const std::string kRoot = "this-installation's-secret-0123!";  // 32 bytes
const std::string kSeal(64, '7');
const std::string kPassword = "a-password-in-an-address";

/// A gateway that has every secret there is, and says all it has to say into `lines`.
class Told : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(kRoot.size(), 32U);
    ASSERT_EQ(::setenv("AFI_TEST_UPSTREAM_KEY", kUpstream.c_str(), 1), 0);
    ASSERT_EQ(::setenv("AFI_TEST_CLIENT_KEY", kClient.c_str(), 1), 0);
    const std::string text =
        "secret_file = \"" + folder.private_file("root", kRoot) +
        "\"\n[listen]\nport = 0\n[admin]\nport = 0\ntoken = \"" + kToken +
        "\"\n[log]\nlevel = \"debug\"\n[upstream]\nurl = \"" + model.url() +
        "\"\nkey_env = \"AFI_TEST_UPSTREAM_KEY\"\n[memory]\ndisk = \"" + folder.file("disk") +
        "\"\ndisk_size = \"64 MiB\"\nencrypt_key_file = \"" +
        folder.private_file("keys", kSeal + "\n") +
        "\"\n[media]\nhosts = [\"pictures.example\"]\n[[tenancy.tenants]]\nname = \"one\"\n"
        "key_env = [\"AFI_TEST_CLIENT_KEY\"]\n";
    const auto read = [text]() -> Result<Settings> { return parse_settings(text, "test"); };
    const auto settings = read();
    ASSERT_TRUE(settings.has_value()) << settings.error().message;
    printed += print_settings(*settings);
    auto started = Service::start({.settings = *settings,
                                   .read_settings = read,
                                   .engine = nullptr,
                                   .version = "test",
                                   .log =
                                       [this](std::string_view line) {
                                         const std::scoped_lock lock(mutex);
                                         printed += line;
                                         return true;
                                       }},
                                  clock, wall);
    ASSERT_TRUE(started.has_value()) << started.error().message;
    service = *std::move(started);
  }

  void chat(const std::string& body, const std::string& headers) {
    hear(ask(service->port(), "POST", "/v1/chat/completions", body, headers));
  }
  void admin(const std::string& method, const std::string& path, const std::string& body = "") {
    hear(ask(service->admin_port(), method, path, body,
             "Content-Type: application/json\r\nAuthorization: Bearer " + kToken + "\r\n"));
  }
  void hear(const Said& said) {
    const std::scoped_lock lock(mutex);
    printed += said.head + said.body;
  }
  void expect_nothing_told() {
    service.reset();  // and with it the log
    EXPECT_GT(printed.size(), 5'000U) << "somebody listened";
    for (const std::string& secret : {kClient, kUpstream, kToken, kRoot, kSeal, kPassword}) {
      EXPECT_FALSE(printed.contains(secret)) << secret;
    }
    std::string hex;
    for (const char c : kRoot)
      hex += "0123456789abcdef"[(c >> 4) & 15], hex += "0123456789abcdef"[c & 15];
    EXPECT_FALSE(printed.contains(hex));
  }

  TemporaryFolder folder;
  Model model;
  SystemClock clock;
  SystemWallClock wall;
  std::mutex mutex;
  std::string printed;
  std::unique_ptr<Service> service;
};

TEST_F(Told, NoSecretInLogsMetricsPagesAnswersOrErrors) {
  const std::string key = "Authorization: Bearer " + kClient + "\r\n";
  chat(question("Q"), key);
  chat(question("Q"), key);
  chat(question("Q"), "x-api-key: " + kClient + "\r\n");
  chat(question("Q"), key + "api-key: another\r\n");                    // two keys
  chat("{", key);                                                       // no JSON
  chat(question("Q"), key + "X-Afterimage-Namespace: not a name\r\n");  // a wrong directives
  chat(
      R"({"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://user:)" +
          kPassword + R"(@pictures.example/a.png"}}]}]})",
      key);
  // An upstream that fails, and one that repeats what it was sent.
  model.answers([](const HttpRequest& request, const Responder& responder) {
    responder.reply({.status = 401, .body = "no such key; you sent " + request.target});
  });
  chat(question("refused"), key);
  model.answers([](const HttpRequest&, const Responder& responder) {
    responder.reply({.headers = {{"Content-Type", "application/json"}}, .body = std::string("{")});
  });
  chat(question("nonsense"), key);
  for (const char* path : {"/metrics", "/admin/api/stats", "/admin/api/decisions",
                           "/admin/api/decisions/1", "/admin/api/entries", "/", "/nowhere"}) {
    admin("GET", path);
  }
  admin("POST", "/admin/api/reload", "{}");
  admin("POST", "/admin/api/explain", R"({"operation":"chat","body":)" + question("Q") + "}");
  admin("POST", "/admin/api/invalidate", R"({"all":true,"dry_run":true})");
  hear(
      ask(service->admin_port(), "GET", "/admin/api/stats", "", "Authorization: Bearer wrong\r\n"));
  expect_nothing_told();
}

TEST_F(Told, NoFileOfTheFolderIsReadableByOthersNorHoldsAKey) {
  chat(question("Q"), "Authorization: Bearer " + kClient + "\r\n");
  service.reset();
  const std::filesystem::path disk = folder.file("disk");
  using std::filesystem::perms;
  constexpr perms kOthers = perms::group_all | perms::others_all;
  EXPECT_EQ(std::filesystem::status(disk).permissions() & kOthers, perms::none);
  std::size_t files = 0;
  for (const auto& file : std::filesystem::recursive_directory_iterator(disk)) {
    ++files;
    EXPECT_EQ(file.status().permissions() & kOthers, perms::none) << file.path();
    std::ifstream in(file.path(), std::ios::binary);
    const std::string content((std::istreambuf_iterator<char>(in)), {});
    for (const std::string& secret : {kClient, kUpstream, kToken, kSeal, kRoot}) {
      EXPECT_FALSE(content.contains(secret)) << file.path();
    }
  }
  EXPECT_GE(files, 4U);
}

}  // namespace
}  // namespace afterimage

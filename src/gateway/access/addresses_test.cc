// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/access/addresses.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "gateway/config/host_pattern.h"
#include "testing/temporary_folder.h"

namespace afterimage {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;

MediaSettings hosts(std::vector<std::string> names) {
  MediaSettings settings;
  settings.hosts = std::move(names);
  return settings;
}

const MediaSettings kHosts =
    hosts({"images.example.org", "*.example.net", "alt.example.org:8080", "*.cdn.test:81",
           "93.184.215.14", "[2606:4700::1]:8080", "127.0.0.1", "2130706433.example", "my_box"});

TEST(AllowedUrl, AcceptsHostsListedInTheSettings) {
  const struct {
    const char* address;
    Url expected;
  } kCases[] = {
      {"http://images.example.org/a.png?b=c", {"images.example.org", "80", "/a.png?b=c"}},
      {"http://images.example.org:80/", {"images.example.org", "80", "/"}},
      {"http://images.example.org:0080/", {"images.example.org", "80", "/"}},
      {"http://IMAGES.Example.ORG/A", {"images.example.org", "80", "/A"}},
      {"http://images.example.org/a#part", {"images.example.org", "80", "/a"}},
      {"http://a.example.net", {"a.example.net", "80", "/"}},
      {"https://a.example.net/x", {"a.example.net", "443", "/x", true}},
      {"http://a.b.c.example.net", {"a.b.c.example.net", "80", "/"}},
      {"http://xn--bcher-kva.example.net/", {"xn--bcher-kva.example.net", "80", "/"}},
      {"http://alt.example.org:8080/", {"alt.example.org", "8080", "/"}},
      {"http://x.cdn.test:81/", {"x.cdn.test", "81", "/"}},
      {"http://93.184.215.14/", {"93.184.215.14", "80", "/"}},
      {"http://[2606:4700::1]:8080/", {"2606:4700::1", "8080", "/"}},
      {"http://[2606:4700:0:0:0:0:0:0001]:8080/", {"2606:4700::1", "8080", "/"}},
      {"http://my_box/", {"my_box", "80", "/"}},
  };
  for (const auto& c : kCases) {
    const auto url = allowed_url(c.address, kHosts);
    ASSERT_TRUE(url.has_value()) << c.address << ": " << url.error().message;
    EXPECT_EQ(*url, c.expected) << c.address;
  }
}

TEST(AllowedUrl, RefusesEverythingElse) {
  const struct {
    const char* why;
    std::string address;
  } kCases[] = {
      {"nothing", ""},
      {"another host", "http://example.org/"},
      {"the bare domain of a wildcard", "http://example.net/"},
      {"a wildcard matches whole labels only", "http://badexample.net/"},
      {"a listed host as a prefix", "http://images.example.org.evil.test/"},
      {"an empty label below a wildcard", "http://.example.net/"},
      {"another port", "http://images.example.org:8080/"},
      {"the default port where another one is listed", "http://alt.example.org/"},
      {"another port of a wildcard", "http://x.cdn.test/"},
      {"port 0", "http://images.example.org:0/"},
      {"port 0 with more digits", "http://images.example.org:000/"},
      {"a user", "http://user@images.example.org/"},
      {"the host as a user", "http://images.example.org@evil.test/"},
      {"the host as a user with a password", "http://images.example.org:80@evil.test/"},
      {"a backslash, which browsers read as a slash", "http://evil.test\\@images.example.org/"},
      {"a backslash in the path", "http://images.example.org/\\evil.test"},
      {"a line break", "http://images.example.org/\r\nHost: evil.test"},
      {"a tab", "http://images.example.org/\ta"},
      {"a space", "http://images.example.org/a b"},
      {"a NUL", std::string("http://images.example.org/\0a", 28)},
      {"DEL", "http://images.example.org/\x7f"},
      {"a percent sign in the host", "http://images%2Eexample.org/"},
      {"a dot at the end", "http://images.example.org./"},
      {"a full-width dot",
       "http://images\xEF\xBC\x8E"
       "example.org/"},
      {"letters that are not ASCII",
       "http://b\xC3\xBC"
       "cher.example.net/"},
      {"a hyphen at the end of a label", "http://a-.example.net/"},
      {"a label of 64", "http://" + std::string(64, 'a') + ".example.net/"},
      {"a name of more than 253", "http://" +
                                      [] {
                                        std::string name;
                                        for (int i = 0; i < 61; ++i) name += "abc.";
                                        return name;
                                      }() +
                                      "example.net/"},
      {"another scheme", "ftp://images.example.org/"},
      {"a scheme in capitals", "HTTP://images.example.org/"},
      {"no scheme", "//images.example.org/"},
      {"a file", "file:///etc/passwd"},
      {"a zone", "http://[fe80::1%25eth0]/"},
      {"brackets around a name", "http://[images.example.org]/"},
      {"brackets not closed", "http://[2606:4700::1:8080/"},
      {"8 KiB", "http://images.example.org/" + std::string(8192, 'a')},
  };
  for (const auto& c : kCases) {
    EXPECT_FALSE(allowed_url(c.address, kHosts).has_value()) << c.why << ": " << c.address;
  }
}

TEST(AllowedUrl, RefusesHostsThatResolversReadDifferently) {
  // Some resolver reads each of them as 127.0.0.1; they are refused even if listed.
  for (const char* host : {"2130706433", "0x7f000001", "0X7F000001", "017700000001", "127.1",
                           "127.0.1", "0177.0.0.1", "0x7f.0.0.1", "127.0.0.01", "127.0.0.1.",
                           "127.0.0.256", "0", "1.2.3.4.5", "a.0x7f", "example.1"}) {
    EXPECT_FALSE(canonical_host(host).has_value()) << host;
    EXPECT_FALSE(allowed_url("http://" + std::string(host) + "/", hosts({host})).has_value())
        << host;
  }
  EXPECT_EQ(canonical_host("0x7f.example").value(), "0x7f.example");
  EXPECT_EQ(canonical_host("3com.example").value(), "3com.example");
}

TEST(AllowedUrl, PrivateAddressesRequireTheirOwnSetting) {
  MediaSettings settings = kHosts;
  const auto refused = allowed_url("http://127.0.0.1/", settings);
  ASSERT_FALSE(refused.has_value());
  EXPECT_TRUE(refused.error().message.contains("media.private_addresses"));
  settings.private_addresses = true;
  EXPECT_TRUE(allowed_url("http://127.0.0.1/", settings).has_value());
  EXPECT_FALSE(allowed_url("http://127.0.0.2/", settings).has_value()) << "still not in the list";
}

TEST(AllowedUrl, RefusesEverythingByDefaultAndSaysWhatToDo) {
  const auto refused = allowed_url("http://images.example.org/", MediaSettings());
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(refused.error().message.contains("media.hosts")) << refused.error().message;
  EXPECT_TRUE(refused.error().message.contains("data URL")) << refused.error().message;
}

TEST(HostPattern, HasOneCanonicalForm) {
  const struct {
    const char* text;
    HostPattern expected;
  } kCases[] = {
      {"a.org", {false, "a.org", ""}},
      {"A.Org:080", {false, "a.org", "80"}},
      {"*.a.org:65535", {true, "a.org", "65535"}},
      {"10.0.0.7:8080", {false, "10.0.0.7", "8080"}},
      {"[0:0::1]", {false, "::1", ""}},
      {"[::1]:81", {false, "::1", "81"}},
  };
  for (const auto& c : kCases) EXPECT_EQ(parse_host_pattern(c.text).value(), c.expected) << c.text;
  for (const char* text :
       {"",           "*",           "*.",           "*a.org", "a*.org", "*.*.org", "a.org:",
        "a.org:0",    "a.org:65536", "a.org:1x",     "::1",    "[::1",   "[a.org]", "[::1]80",
        "*.10.0.0.7", "*.[::1]",     "http://a.org", "a.org/", "a.org.", "u@a.org"}) {
    EXPECT_FALSE(parse_host_pattern(text).has_value()) << text;
  }
}

// Every row of IANA's special-purpose address registries, and the borders of each range.
TEST(IsPublicAddress, KnowsSpecialPurposeRangesOfIPv4) {
  for (const char* address :
       {"0.0.0.0",         "0.255.255.255",  "10.0.0.0",        "10.255.255.255", "100.64.0.0",
        "100.127.255.255", "127.0.0.1",      "127.255.255.255", "169.254.0.0",    "169.254.169.254",
        "169.254.255.255", "172.16.0.0",     "172.31.255.255",  "192.0.0.0",      "192.0.0.8",
        "192.0.0.170",     "192.0.0.255",    "192.0.2.0",       "192.0.2.255",    "192.88.99.0",
        "192.88.99.255",   "192.168.0.0",    "192.168.255.255", "198.18.0.0",     "198.19.255.255",
        "198.51.100.0",    "198.51.100.255", "203.0.113.0",     "203.0.113.255",  "224.0.0.0",
        "239.255.255.255", "240.0.0.0",      "255.255.255.254", "255.255.255.255"}) {
    EXPECT_FALSE(is_public_address(address)) << address;
  }
  for (const char* address :
       {"1.0.0.0",         "9.255.255.255",   "11.0.0.0",       "100.63.255.255",
        "100.128.0.0",     "126.255.255.255", "128.0.0.0",      "169.253.255.255",
        "169.255.0.0",     "172.15.255.255",  "172.32.0.0",     "191.255.255.255",
        "192.0.1.0",       "192.0.3.0",       "192.88.98.255",  "192.88.100.0",
        "192.167.255.255", "192.169.0.0",     "198.17.255.255", "198.20.0.0",
        "198.51.99.255",   "198.51.101.0",    "203.0.112.255",  "203.0.114.0",
        "223.255.255.255", "8.8.8.8",         "192.31.196.1",   "192.52.193.1",
        "192.175.48.1"}) {
    EXPECT_TRUE(is_public_address(address)) << address;
  }
}

TEST(IsPublicAddress, KnowsSpecialPurposeRangesOfIPv6) {
  for (const char* address : {"::",
                              "::1",
                              "::2",
                              "100::1",
                              "100:0:0:1::1",
                              "64:ff9b:1::8.8.8.8",
                              "2001::1",
                              "2001:1::1",
                              "2001:2::1",
                              "2001:3::1",
                              "2001:4:112::1",
                              "2001:10::1",
                              "2001:20::1",
                              "2001:30::1",
                              "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff",
                              "2001:db8::",
                              "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff",
                              "3fff::",
                              "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff",
                              "4000::1",
                              "5f00::1",
                              "fc00::1",
                              "fd00:ec2::254",
                              "fdff::1",
                              "fe80::1",
                              "febf::1",
                              "fec0::1",
                              "ff02::1",
                              "ffff::1"}) {
    EXPECT_FALSE(is_public_address(address)) << address;
  }
  for (const char* address :
       {"2000::1", "2001:200::1", "2001:db7:ffff::1", "2001:db9::1", "2001:4860:4860::8888",
        "2606:4700::1", "2620:4f:8000::1", "3ffe:ffff::1", "3fff:1000::1"}) {
    EXPECT_TRUE(is_public_address(address)) << address;
  }
}

TEST(IsPublicAddress, ChecksEmbeddedIPv4Addresses) {
  const struct {
    const char* kind;
    const char* inside;
    const char* open;
  } kCases[] = {
      {"mapped", "::ffff:127.0.0.1", "::ffff:8.8.8.8"},
      {"mapped, in hex", "::ffff:a00:1", "::ffff:808:808"},
      {"NAT64", "64:ff9b::10.0.0.1", "64:ff9b::8.8.8.8"},
      {"NAT64 of metadata", "64:ff9b::a9fe:a9fe", "64:ff9b::808:808"},
      {"6to4", "2002:7f00:1::1", "2002:808:808::1"},
      {"6to4 of a private network", "2002:c0a8:101::", "2002:c0a7:101::"},
  };
  for (const auto& c : kCases) {
    EXPECT_FALSE(is_public_address(c.inside)) << c.kind;
    EXPECT_TRUE(is_public_address(c.open)) << c.kind;
  }
  EXPECT_FALSE(is_public_address("::127.0.0.1")) << "compatible";
  EXPECT_FALSE(is_public_address("::8.8.8.8")) << "compatible, which is not routed";
  EXPECT_FALSE(is_public_address("::ffff:0:8.8.8.8")) << "translated (RFC 2765)";
  EXPECT_FALSE(is_public_address("2001:0:808:808::f7f7:f7f7")) << "Teredo of 8.8.8.8";
}

TEST(IsPublicAddress, IsFalseForTextThatIsNotAnAddress) {
  for (const std::string& address : std::vector<std::string>{
           "", std::string("localhost"), std::string("8.8.8"), std::string("8.8.8.8 "),
           std::string(" 8.8.8.8"), std::string("8.8.8.8:80"), std::string("[2606:4700::1]"),
           std::string("2606:4700::1%eth0"), std::string("fe80::1%eth0"), std::string("010.8.8.8"),
           std::string("134744072"), std::string("8.8.8.8\0.evil", 13),
           std::string("2606:4700::1\0x", 14)}) {
    EXPECT_FALSE(is_public_address(address)) << address;
  }
}

/// Two folders: one is allowed, the other is not.
class AllowedFile : public ::testing::Test {
 protected:
  AllowedFile() {
    fs::create_directories(inside_ + "/deep");
    fs::create_directories(root_.path() + "/inside-but-not");
    fs::create_directories(outside_);
    for (const std::string& path : std::vector<std::string>{
             inside_ + "/cat.png", inside_ + "/a b%.png", inside_ + "/deep/dog.png",
             outside_ + "/secret", root_.path() + "/inside-but-not/secret"}) {
      std::ofstream(path) << "x";
    }
    settings_.folders = {root_.path() + "/no-such-folder", inside_};
  }

  [[nodiscard]] Result<std::string> allowed(const std::string& address) const {
    return allowed_file(address, settings_);
  }

  TemporaryFolder root_;
  std::string inside_ = fs::canonical(root_.path()).string() + "/inside";
  std::string outside_ = fs::canonical(root_.path()).string() + "/outside";
  MediaSettings settings_;
};

TEST_F(AllowedFile, AcceptsRegularFilesInTheFolders) {
  EXPECT_EQ(allowed("file://" + inside_ + "/cat.png").value(), inside_ + "/cat.png");
  EXPECT_EQ(allowed("file://localhost" + inside_ + "/cat.png").value(), inside_ + "/cat.png");
  EXPECT_EQ(allowed("file://LocalHost" + inside_ + "/cat.png").value(), inside_ + "/cat.png");
  EXPECT_EQ(allowed("file://" + inside_ + "/deep/dog.png").value(), inside_ + "/deep/dog.png");
  EXPECT_EQ(allowed("file://" + inside_ + "/a%20b%25.png").value(), inside_ + "/a b%.png");
  EXPECT_EQ(allowed("file://" + inside_ + "/%63at.png").value(), inside_ + "/cat.png");
  EXPECT_EQ(allowed("file://" + inside_ + "/deep/../cat.png").value(), inside_ + "/cat.png");
}

TEST_F(AllowedFile, RefusesFilesOutsideWithoutRevealingWhetherTheyExist) {
  const auto existing = allowed("file://" + outside_ + "/secret");
  const auto missing = allowed("file://" + outside_ + "/nothing");
  ASSERT_FALSE(existing.has_value());
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(existing.error().message, missing.error().message);
  const auto folder = allowed("file://" + outside_);
  EXPECT_EQ(folder.error().message, missing.error().message);
  for (const std::string& path : std::vector<std::string>{
           inside_ + "/../outside/secret", inside_ + "/%2e%2e/outside/secret",
           root_.path() + "/inside-but-not/secret", std::string("/etc/passwd"), std::string("/")}) {
    EXPECT_FALSE(allowed("file://" + path).has_value()) << path;
  }
}

TEST_F(AllowedFile, ResolvesLinksBeforeChecking) {
  fs::create_symlink(outside_ + "/secret", inside_ + "/link");
  fs::create_directory_symlink(outside_, inside_ + "/folder");
  fs::create_symlink(inside_ + "/cat.png", outside_ + "/back");
  fs::create_symlink(inside_ + "/loop", inside_ + "/loop");
  EXPECT_FALSE(allowed("file://" + inside_ + "/link").has_value());
  EXPECT_FALSE(allowed("file://" + inside_ + "/folder/secret").has_value());
  EXPECT_FALSE(allowed("file://" + inside_ + "/loop").has_value());
  EXPECT_EQ(allowed("file://" + outside_ + "/back").value(), inside_ + "/cat.png");
  fs::create_directory_symlink(inside_, root_.path() + "/alias");
  settings_.folders = {root_.path() + "/alias"};
  EXPECT_EQ(allowed("file://" + inside_ + "/cat.png").value(), inside_ + "/cat.png");
}

TEST_F(AllowedFile, RefusesAnythingButRegularFiles) {
  ASSERT_EQ(::mkfifo((inside_ + "/pipe").c_str(), 0600), 0);
  for (const std::string& name : std::vector<std::string>{"/pipe", "/deep", "", "/"}) {
    EXPECT_FALSE(allowed("file://" + inside_ + name).has_value()) << name;
  }
  EXPECT_FALSE(allowed("file://" + inside_ + "/cat.png/").has_value()) << "not a folder";
  settings_.folders = {"/dev"};
  EXPECT_FALSE(allowed("file:///dev/null").has_value());
}

TEST_F(AllowedFile, RefusesMalformedFileUrls) {
  const std::string good = "file://" + inside_ + "/cat.png";
  ASSERT_TRUE(allowed(good).has_value());
  for (const std::string& address :
       std::vector<std::string>{"",
                                inside_ + "/cat.png",
                                "file:" + inside_ + "/cat.png",
                                "FILE://" + inside_ + "/cat.png",
                                "file://example.org" + inside_ + "/cat.png",
                                "file://localhost.example.org" + inside_ + "/cat.png",
                                "file://localhost:80" + inside_ + "/cat.png",
                                "file://..",
                                "file://" + inside_ + "%2Fcat.png",
                                good + "?",
                                good + "#a",
                                good + "%00",
                                good + "%00.txt",
                                good + "%",
                                good + "%4",
                                good + "%zz",
                                good + std::string(1, '\0'),
                                good + "\n",
                                "file://" + inside_ + "/a b%.png",
                                "file://" + inside_ + "\\cat.png",
                                "file://" + std::string(9000, '/')}) {
    EXPECT_FALSE(allowed(address).has_value()) << address;
  }
  EXPECT_FALSE(allowed_file(good, MediaSettings()).has_value()) << "no folder is allowed";
}

}  // namespace
}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/redis/server_info.h"

#include <gtest/gtest.h>

namespace afterimage {
namespace {

TEST(ServerInfo, ReadsWhatTheTierNeeds) {
  const ServerInfo info = parse_server_info(
      "# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\nrun_id:ab12\r\n\r\n"
      "# Replication\r\nrole:master\r\nconnected_slaves:2\r\n"
      "slave0:ip=10.0.0.6,port=6380,state=online,offset=42,lag=0\r\n"
      "slave1:ip=::1,port=6381,state=wait_bgsave,offset=0,lag=0,type=main-thread\r\n"
      "slave_read_only:1\r\n");
  EXPECT_EQ(info.run_id, "ab12");
  EXPECT_EQ(info.mode, ServerMode::kStandalone);
  EXPECT_FALSE(info.is_replica);
  EXPECT_EQ(info.replicas, (std::vector<RemoteAddress>{{.host = "10.0.0.6", .port = 6380},
                                                       {.host = "::1", .port = 6381}}));
  EXPECT_EQ(info.online, 1U) << "the other one is still copying";
}

TEST(ServerInfo, TellsTheKindsOfServers) {
  EXPECT_EQ(parse_server_info("redis_mode:cluster").mode, ServerMode::kCluster);
  EXPECT_EQ(parse_server_info("redis_mode:sentinel\r\n").mode, ServerMode::kSentinel);
  EXPECT_TRUE(parse_server_info("role:slave\r\nmaster_host:10.0.0.5\r\n").is_replica);
}

// It would be connected to, with the password.
TEST(ServerInfo, APathIsNoAddressOfAReplica) {
  const ServerInfo info = parse_server_info("slave0:ip=/run/other.sock,port=0,state=online\r\n");
  ASSERT_EQ(info.replicas.size(), 1U) << "it counts";
  EXPECT_FALSE(info.replicas.front().is_socket());
}

TEST(ServerInfo, AnyTextIsRead) {
  for (const std::string_view text : {"", "\r\n", ":", "run_id", "slave0", "slave0:", "slave0:ip",
                                      "slave0:port=x,,=,", "slavex:ip=a", "run_id:\r\nrole:\r\n"}) {
    const ServerInfo info = parse_server_info(text);
    EXPECT_EQ(info.run_id, "") << text;
    EXPECT_EQ(info.mode, ServerMode::kUnknown) << text;
    EXPECT_EQ(info.online, 0U) << text;
  }
  std::string many;
  for (int i = 0; i < 1000; ++i) many += "slave" + std::to_string(i) + ":ip=a,port=1\n";
  EXPECT_EQ(parse_server_info(many).replicas.size(), 256U) << "a hostile server is bounded";
}

}  // namespace
}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/media/video_packets.h"

#include <gtest/gtest.h>

#include <string>

namespace afterimage {
namespace {

using Bytes8 = std::vector<std::byte>;

Bytes8 bytes(const std::vector<unsigned>& values) {
  Bytes8 all;
  for (const unsigned value : values) all.push_back(static_cast<std::byte>(value));
  return all;
}

/// avcC and hvcC whose lengths have four bytes.
const Bytes8 kH264Setup = bytes({1, 66, 0, 30, 0xff, 0xe1});
Bytes8 hevc_setup() {
  Bytes8 setup(23);
  setup[0] = std::byte{1};
  setup[21] = std::byte{0x0f};
  return setup;
}

/// "start", "pictures" or "other" of a packet of units of these first bytes.
std::string kind(AVCodecID codec, const std::vector<unsigned>& units, bool is_key = true) {
  Bytes8 packet;
  for (const unsigned unit : units) {
    for (const unsigned byte : {0U, 0U, 0U, 2U, unit, 1U}) {
      packet.push_back(static_cast<std::byte>(byte));
    }
  }
  const VideoPacketReader reader(codec, codec == AV_CODEC_ID_H264 ? kH264Setup : hevc_setup());
  const VideoPacket read = reader.read(packet, is_key);
  return std::string(read.is_start ? "start " : "") +
         (read.has_only_pictures ? "pictures" : "other");
}

TEST(VideoPackets, AnIdrPictureOfH264IsAStartAndAnOpenGroupIsNone) {
  const auto h264 = [](const std::vector<unsigned>& units, bool is_key = true) {
    return kind(AV_CODEC_ID_H264, units, is_key);
  };
  EXPECT_EQ(h264({0x65}), "start pictures");
  EXPECT_EQ(h264({0x09, 0x06, 0x65, 0x65}), "start pictures");
  EXPECT_EQ(h264({0x65}, false), "pictures");
  EXPECT_EQ(h264({0x06, 0x41}), "pictures");  // a recovery point: others before it are needed
  EXPECT_EQ(h264({0x41, 0x65}), "pictures");
  EXPECT_EQ(h264({0x67, 0x68, 0x65}), "start other");  // parameter sets, which later ones may use
  EXPECT_EQ(h264({0x68, 0x41}), "other");
}

TEST(VideoPackets, AnIdrPictureOfHevcIsAStartAndACleanRandomAccessIsNone) {
  const auto hevc = [](unsigned type) { return kind(AV_CODEC_ID_HEVC, {type << 1U}); };
  EXPECT_EQ(hevc(19), "start pictures");
  EXPECT_EQ(hevc(20), "start pictures");
  EXPECT_EQ(hevc(21), "pictures");
  EXPECT_EQ(hevc(1), "pictures");
  EXPECT_EQ(hevc(39), "pictures");
  EXPECT_EQ(hevc(33), "other");
}

TEST(VideoPackets, AKeyFrameOfVp9IsAStart) {
  const VideoPacketReader reader(AV_CODEC_ID_VP9, {});
  const auto is_start = [&](unsigned first, bool is_key = true) {
    const VideoPacket read = reader.read(bytes({first, 0x49}), is_key);
    EXPECT_TRUE(read.has_only_pictures);
    return read.is_start;
  };
  EXPECT_TRUE(is_start(0x82));
  EXPECT_TRUE(is_start(0xb0));  // profile 3, whose header has a bit more
  EXPECT_FALSE(is_start(0x82, false));
  EXPECT_FALSE(is_start(0x86));  // between two others
  EXPECT_FALSE(is_start(0x88));  // one is shown again
  EXPECT_FALSE(is_start(0xb4));
  EXPECT_FALSE(is_start(0x42));
  EXPECT_FALSE(reader.read({}, true).is_start);
}

TEST(VideoPackets, WhatCannotBeReadIsNeeded) {
  const auto needed = [](AVCodecID codec, const Bytes8& setup, const Bytes8& packet) {
    const VideoPacket read = VideoPacketReader(codec, setup).read(packet, true);
    return !read.has_only_pictures && !read.is_start;
  };
  const Bytes8 idr = bytes({0, 0, 0, 2, 0x65, 1});
  EXPECT_FALSE(needed(AV_CODEC_ID_H264, kH264Setup, idr));
  EXPECT_TRUE(needed(AV_CODEC_ID_H264, bytes({0, 0, 0, 1, 0x67, 66}), idr));
  EXPECT_TRUE(needed(AV_CODEC_ID_H264, {}, idr));
  EXPECT_TRUE(needed(AV_CODEC_ID_H264, kH264Setup, bytes({0, 0, 0, 9, 0x65, 1})));
  EXPECT_TRUE(needed(AV_CODEC_ID_H264, kH264Setup, bytes({0, 0, 0, 0, 0, 0, 0, 1, 0x65})));
  EXPECT_TRUE(needed(AV_CODEC_ID_H264, kH264Setup, bytes({0, 0, 0, 1, 0x65, 0, 0})));
  EXPECT_TRUE(needed(AV_CODEC_ID_VP8, {}, idr));
  EXPECT_TRUE(needed(AV_CODEC_ID_AV1, {}, idr));
}

/// "x" for each packet that is decoded. 'S': a start, 'o': it has more than pictures.
std::string decoded(const std::string& packets, const std::vector<std::int64_t>& times) {
  std::vector<VideoPacket> all;
  for (const char packet : packets) {
    all.push_back({.time = static_cast<std::int64_t>(all.size()),
                   .is_start = packet == 'S',
                   .has_only_pictures = packet != 'o'});
  }
  std::string marks;
  for (const bool is_needed : packets_to_decode(all, times)) marks += is_needed ? 'x' : '.';
  return marks;
}

TEST(VideoPackets, DecodedIsFromAStartToTheLastWantedFrameBeforeTheNext) {
  EXPECT_EQ(decoded("SpppSpppSppp", {0, 5}), "x...xx......");
  EXPECT_EQ(decoded("SpppSpppSppp", {9}), "x.......xx..");
  EXPECT_EQ(decoded("SpppSpppSppp", {3, 4}), "xxxxx.......");
  EXPECT_EQ(decoded("SpopSpppSppp", {8}), "xxx.....x...");
  EXPECT_EQ(decoded("pppppppp", {5}), "xxxxxx..");
  EXPECT_EQ(decoded("S", {}), "x");
  EXPECT_EQ(decoded("", {}), "");
}

}  // namespace
}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/telemetry/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <thread>

namespace afterimage {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Metrics, WritesCountedValues) {
  Metrics metrics;
  metrics.counter("asked_total", "Questions.", {{"outcome", "hit"}}).add();
  metrics.counter("asked_total", "Questions.", {{"outcome", "hit"}}).add(2);
  metrics.gauge("open", "Open.").set(4);
  metrics.gauge("open", "Open.").add(-1.5);
  metrics.histogram("took_seconds", "Time.", {}, {0.5, 1}).observe(0.5);
  metrics.histogram("took_seconds", "Time.", {}, {}).observe(7);
  EXPECT_EQ(metrics.text(),
            "# HELP afterimage_tenants_folded Tenants that are counted as tenant=\"other\".\n"
            "# TYPE afterimage_tenants_folded gauge\n"
            "afterimage_tenants_folded 0\n"
            "# HELP asked_total Questions.\n"
            "# TYPE asked_total counter\n"
            "asked_total{outcome=\"hit\"} 3\n"
            "# HELP open Open.\n"
            "# TYPE open gauge\n"
            "open 2.5\n"
            "# HELP took_seconds Time.\n"
            "# TYPE took_seconds histogram\n"
            "took_seconds_count 2\n"
            "took_seconds_sum 7.5\n"
            "took_seconds_bucket{le=\"0.5\"} 1\n"
            "took_seconds_bucket{le=\"1\"} 1\n"
            "took_seconds_bucket{le=\"+Inf\"} 2\n");
}

TEST(Metrics, ACounterNeverFalls) {
  Metrics metrics;
  const MetricCounter counter = metrics.counter("asked_total", "Questions.");
  MetricCounter(counter).add(3);
  MetricCounter(counter).add(-1);
  MetricCounter(counter).add(std::numeric_limits<double>::quiet_NaN());
  MetricCounter(counter).add(std::numeric_limits<double>::infinity());
  EXPECT_EQ(counter.value(), 3);
}

TEST(Metrics, AHistogramIgnoresNaN) {
  Metrics metrics;
  metrics.histogram("took_seconds", "Time.", {}, {1}).observe(std::nan(""));
  EXPECT_THAT(metrics.text(), HasSubstr("took_seconds_count 0"));
}

TEST(Metrics, SameNameAndLabelsAreTheSameSeries) {
  Metrics metrics;
  MetricCounter one = metrics.counter("asked_total", "Questions.", {{"a", "1"}, {"b", "2"}});
  MetricCounter same = metrics.counter("asked_total", "Questions.", {{"b", "2"}, {"a", "1"}});
  one.add();
  same.add();
  EXPECT_EQ(one.value(), 2);
}

TEST(Metrics, OneBadByteDoesNotSpoilTheScrape) {
  Metrics metrics;
  metrics.counter("asked_total", "Questions.", {{"model", "a\xFF\n\"\\b"}}).add();
  EXPECT_THAT(metrics.text(), HasSubstr("asked_total{model=\"a\uFFFD\\n\\\"\\\\b\"} 1\n"));
}

TEST(Metrics, LongValuesAreCut) {
  Metrics metrics({.label_bytes = 4});
  metrics.counter("asked_total", "Questions.", {{"model", "abcdefgh"}}).add();
  EXPECT_THAT(metrics.text(), HasSubstr("{model=\"abcd…\"}"));
}

TEST(Metrics, TenantsBeyondTheLimitAreOther) {
  Metrics metrics({.tenants = 2});
  for (const char* tenant : {"ann", "bob", "eve", "dan", "eve", "ann"}) {
    metrics.counter("asked_total", "Questions.", {{"tenant", tenant}}).add();
  }
  EXPECT_THAT(metrics.text(), HasSubstr("asked_total{tenant=\"ann\"} 2\n"));
  EXPECT_THAT(metrics.text(), HasSubstr("asked_total{tenant=\"bob\"} 1\n"));
  EXPECT_THAT(metrics.text(), HasSubstr("asked_total{tenant=\"other\"} 3\n"));
  EXPECT_THAT(metrics.text(), Not(HasSubstr("eve")));
  EXPECT_EQ(metrics.folded_tenants(), 2U);
  EXPECT_THAT(metrics.text(), HasSubstr("afterimage_tenants_folded 2\n"));
}

TEST(Metrics, TheTenantLimitSpansAllFamilies) {
  Metrics metrics({.tenants = 1});
  metrics.counter("asked_total", "Questions.", {{"tenant", "ann"}}).add();
  metrics.gauge("kept_bytes", "Bytes.", {{"tenant", "bob"}}).set(1);
  EXPECT_THAT(metrics.text(), HasSubstr("kept_bytes{tenant=\"other\"}"));
}

TEST(Metrics, ReadsAtEachScrape) {
  Metrics metrics;
  double kept = 1;
  metrics.on_scrape([&](MetricsWriter& out) {
    out.gauge("kept_entries", "Entries.", {}, kept);
    out.counter("evicted_total", "Evictions.", {{"kind", "kv"}}, 10 * kept);
    out.untyped("visual_cache_hits", "Hits.", {}, kept);
  });
  EXPECT_THAT(metrics.text(), HasSubstr("kept_entries 1\n"));
  kept = 2;
  const std::string text = metrics.text();
  EXPECT_THAT(text, HasSubstr("# TYPE kept_entries gauge\nkept_entries 2\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE evicted_total counter\nevicted_total{kind=\"kv\"} 20\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE visual_cache_hits untyped\nvisual_cache_hits 2\n"));
}

TEST(Metrics, ValuesWrittenTwiceAddUp) {
  Metrics metrics({.tenants = 1});
  metrics.on_scrape([](MetricsWriter& out) {
    for (const char* tenant : {"ann", "bob", "eve"}) {
      out.gauge("kept_bytes", "Bytes.", {{"tenant", tenant}}, 5);
      out.counter("asked_total", "Questions.", {{"tenant", tenant}}, 2);
      out.untyped("old_name", "Old.", {}, 1);
    }
  });
  EXPECT_THAT(metrics.text(), HasSubstr("kept_bytes{tenant=\"ann\"} 5\n"));
  EXPECT_THAT(metrics.text(), HasSubstr("kept_bytes{tenant=\"other\"} 10\n"));
  EXPECT_THAT(metrics.text(), HasSubstr("asked_total{tenant=\"other\"} 4\n"));
  EXPECT_THAT(metrics.text(), HasSubstr("old_name 3\n"));
}

TEST(Metrics, UnknownValuesAreAbsent) {
  Metrics metrics;
  metrics.on_scrape([](MetricsWriter& out) {
    out.gauge("rate", "Rate.", {}, std::numeric_limits<double>::quiet_NaN());
  });
  EXPECT_THAT(metrics.text(), Not(HasSubstr("rate")));
}

TEST(Metrics, ManyThreadsCountWhileOthersRead) {
  Metrics metrics;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&metrics, t] {
        for (int i = 0; i < 1000; ++i) {
          metrics.counter("asked_total", "Questions.", {{"thread", std::to_string(t % 2)}}).add();
          if (i % 250 == 0) (void)metrics.text();
        }
      });
    }
  }
  EXPECT_THAT(metrics.text(), HasSubstr("asked_total{thread=\"0\"} 2000\n"));
  EXPECT_THAT(metrics.text(), HasSubstr("asked_total{thread=\"1\"} 2000\n"));
}

TEST(MetricsDeathTest, OneNameIsOneKind) {
  Metrics metrics;
  metrics.counter("asked_total", "Questions.").add();
  EXPECT_DEATH(metrics.gauge("asked_total", "Questions."), "insert");
  metrics.on_scrape([](MetricsWriter& out) { out.counter("asked_total", "Questions.", {}, 1); });
  EXPECT_DEATH((void)metrics.text(), "contains");
}

TEST(MetricsDeathTest, InvalidNamesAreABrokenInvariant) {
  Metrics metrics;
  EXPECT_DEATH(metrics.counter("no name", "Help."), "CheckMetricName");
  EXPECT_DEATH(metrics.counter("asked_total", "Help.", {{"no label", "x"}}), "CheckLabelName");
}

TEST(LatencyBuckets, RiseFromHitsToLongAnswers) {
  EXPECT_TRUE(std::ranges::is_sorted(latency_buckets()));
  EXPECT_LE(latency_buckets().front(), 0.0005);
  EXPECT_GE(latency_buckets().back(), 60);
}

}  // namespace
}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <string>
#include <utility>

#include "foundation/telemetry/span_exporter.h"
#include "gateway/admin/admin.h"
#include "gateway/admin/published.h"
#include "gateway/keys/key_store.h"

namespace afterimage {
namespace {

constexpr double kNanoOfOne = 1e9;

void write_account(MetricsWriter& out, const std::string& name, const Account& account,
                   WallTime now) {
  const KeyUsage usage = account.state().total;
  count_by(out, "afterimage_tenant_tokens_total", "Tokens of a listed tenant's requests, by kind",
           "kind",
           {{"prompt", usage.prompt_tokens},
            {"output", usage.output_tokens},
            {"saved_prompt", usage.saved_prompt_tokens},
            {"saved_output", usage.saved_output_tokens}},
           {{"tenant", name}});
  out.counter("afterimage_tenant_cost_total",
              "What a listed tenant's requests cost by tenancy.prices, in its currency",
              {{"tenant", name}}, static_cast<double>(usage.cost_nano) / kNanoOfOne);
  out.counter("afterimage_tenant_estimated_requests_total",
              "Requests of a listed tenant whose tokens were estimated, because the model's server "
              "did not say",
              {{"tenant", name}}, static_cast<double>(usage.estimated));
  for (const BudgetStatus& one : account.budgets(now)) {
    const std::string what =
        std::string(to_string(one.budget.kind)) + "/" + std::string(to_string(one.budget.window));
    const MetricLabels labels{{"tenant", name}, {"budget", what}};
    out.counter("afterimage_tenant_refused_total", "Requests that a budget refused, by budget",
                labels, static_cast<double>(one.refused));
    out.gauge("afterimage_tenant_budget_used",
              "What was used of a budget in the current minute, day or month", labels, one.used);
    out.gauge("afterimage_tenant_budget_limit", "The limit of a budget", labels, one.budget.limit);
  }
}

}  // namespace

void publish_keys(Metrics& metrics, KeyStore& keys) {
  metrics.on_scrape([&keys](MetricsWriter& out) {
    const WallTime now = keys.now();
    for (const auto& [name, account] : keys.accounts()) write_account(out, name, *account, now);
  });
}

void publish_traces(Metrics& metrics, SpanExporter& traces) {
  metrics.on_scrape([&traces](MetricsWriter& out) {
    const SpanExporterStats stats = traces.stats();
    count_by(out, "afterimage_trace_spans_total", "Spans of requests, by what became of them",
             "result",
             {{"sent", stats.sent}, {"dropped", stats.dropped}, {"failed", stats.failed}});
  });
}

}  // namespace afterimage

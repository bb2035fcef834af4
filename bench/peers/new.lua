-- SPDX-License-Identifier: Apache-2.0
-- SPDX-FileCopyrightText: 2026 The Afterimage authors
-- Another question each time: wrk -s new.lua URL -- BODY_FILE SEED. The first sixteen @ of the body become a number. Says as
-- JSON what became of it, as post.lua does.
local before, after, seed
local asked = 0

function init(arguments)
  local file = assert(io.open(arguments[1], "rb"))
  local body = file:read("*a")
  file:close()
  local from, to = assert(body:find(string.rep("@", 16), 1, true))
  before, after, seed = body:sub(1, from - 1), body:sub(to + 1), arguments[2]
  wrk.method = "POST"
  wrk.headers["Content-Type"] = "application/json"
  wrk.headers["Authorization"] = "Bearer sk-bench"
end

function request()
  asked = asked + 1
  return wrk.format(nil, nil, nil, before .. seed .. string.format("%010d", asked) .. after)
end

function done(summary, latency, requests)
  local errors = summary.errors
  io.write(string.format('\n{"requests":%d,"us":%d,"p50_us":%d,"p99_us":%d,"errors":%d}\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end

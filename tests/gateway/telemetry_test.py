# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Traces to an OpenTelemetry collector: checked against the protocol's own messages (the package opentelemetry-proto), joined
to the caller's trace, passed on to the model's server, and never in a request's way."""
import base64
import contextlib
import http.server
import json
import re
import threading
import time
import unittest

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2

from gateway_process import CHAT, PATIENCE, GatewayProcess, GatewayTestCase, chat, merged
from mock_model import MockModel

TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
IDS = {"traceId": 16, "spanId": 8, "parentSpanId": 8}
SERVER, CLIENT, INTERNAL = 2, 3, 1


def with_base64_ids(value):
    """OTLP's JSON has ids in hex, where protobuf's own has bytes in base64."""
    if isinstance(value, list):
        return [with_base64_ids(item) for item in value]
    if not isinstance(value, dict):
        return value
    made = {}
    for name, item in value.items():
        if name in IDS:
            assert re.fullmatch(f"[0-9a-f]{{{2 * IDS[name]}}}", item), (name, item)
            made[name] = base64.b64encode(bytes.fromhex(item)).decode()
        else:
            made[name] = with_base64_ids(item)
    return made


def checked(body):
    """The request as the protocol's message: unknown fields, wrong types and 64-bit numbers that are no texts are errors."""
    raw = json.loads(body)
    for traced in raw["resourceSpans"]:
        for scoped in traced["scopeSpans"]:
            for span in scoped["spans"]:
                assert isinstance(span["kind"], int), "enums are numbers"
                assert isinstance(span["startTimeUnixNano"], str) and isinstance(span["endTimeUnixNano"], str), span
    return json_format.ParseDict(with_base64_ids(raw), trace_service_pb2.ExportTraceServiceRequest(), ignore_unknown_fields=False)


class Collector:
    """Takes traces until the context is left. `answers`: a function from the number of the POST to (status, body)."""

    def __init__(self, answers=lambda n: (200, b"{}")):
        self.posts, self.problems, self.changed = [], [], threading.Condition()
        self.released = threading.Event()
        self.released.set()
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.released.wait(PATIENCE)
                with collector.changed:
                    number = len(collector.posts)
                    status, said = answers(number)
                    try:
                        message = checked(body)
                    except Exception as problem:  # any: a test shows it
                        collector.problems.append(problem)
                        message = trace_service_pb2.ExportTraceServiceRequest()
                    collector.posts.append((self.path, dict(self.headers), status, message))
                    collector.changed.notify_all()
                with contextlib.suppress(OSError):
                    self.send_response(status)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(said)))
                    self.end_headers()
                    self.wfile.write(said)

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.block_on_close = False
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.released.set()
        self.server.shutdown()
        self.server.server_close()

    def spans(self):
        return [Step(span) for _, _, status, message in self.posts if status == 200 for traced in message.resource_spans
                for scoped in traced.scope_spans for span in scoped.spans]

    def trace(self, trace_id):
        return [span for span in self.spans() if span.trace == trace_id]

    def wait_for(self, holds, what):
        with self.changed:
            if not self.changed.wait_for(holds, PATIENCE):
                raise AssertionError(f"timed out waiting for {what}; spans: {[span.name for span in self.spans()]}, problems: {self.problems}")


class Step:
    def __init__(self, span):
        self.span, self.name, self.kind = span, span.name, span.kind
        self.trace, self.id, self.parent = span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex()
        self.attributes = {item.key: self.value(item.value) for item in span.attributes}

    @staticmethod
    def value(any_value):
        which = any_value.WhichOneof("value")
        return [Step.value(item) for item in any_value.array_value.values] if which == "array_value" else getattr(any_value, which)


class TelemetryTestCase(GatewayTestCase):
    SETTINGS = {}

    @classmethod
    def start(cls):
        cls.collector = cls.kept.enter_context(Collector())
        cls.mock = cls.kept.enter_context(MockModel())
        cls.gateway = cls.kept.enter_context(GatewayProcess(merged({"upstream": {"url": cls.mock.url}, "telemetry": {"otlp_endpoint": cls.collector.url}}, cls.SETTINGS)))

    def tearDown(self):
        super().tearDown()
        self.assertEqual(self.collector.problems, [])

    def traced(self, number=0):
        """A trace id of this test's own, and the traceparent that begins it."""
        trace = f"{abs(hash((self.id(), number))) + 1:032x}"
        return trace, f"00-{trace}-{CALLER}-01"

    def steps_of(self, trace, *kinds):
        self.collector.wait_for(lambda: {span.kind for span in self.collector.trace(trace)} >= {SERVER, *kinds}, "the request's spans")
        return self.collector.trace(trace)


class Traces(TelemetryTestCase):
    def test_join_the_callers_and_go_on_to_the_models_server(self):
        trace, parent = self.traced()
        said = self.gateway.ask(self.id(), traceparent=parent, tracestate="vendor=1")
        spans = self.steps_of(trace, CLIENT)
        request = next(span for span in spans if span.kind == SERVER)
        call = next(span for span in spans if span.kind == CLIENT)
        self.assertEqual((request.parent, call.parent), (CALLER, request.id))
        self.assertTrue(all(span.parent == request.id for span in spans if span is not request))
        sent = next(one for one in self.mock.calls if self.id() in one[3].decode())
        headers = {name.lower(): value for name, value in sent[2].items()}
        self.assertEqual(headers["traceparent"], f"00-{trace}-{call.id}-01")
        self.assertEqual(headers["tracestate"], "vendor=1")
        self.assertEqual(request.name, f"POST {CHAT}")
        usage = said.json["usage"]
        self.assertEqual({name: value for name, value in call.attributes.items() if name.startswith(("gen_ai", "http"))}, {
            "gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "mock-small", "gen_ai.request.temperature": 0.0,
            "gen_ai.response.model": "mock-small", "gen_ai.response.finish_reasons": ["stop"], "gen_ai.usage.input_tokens": usage["prompt_tokens"],
            "gen_ai.usage.output_tokens": usage["completion_tokens"], "http.response.status_code": 200})
        self.assertEqual(call.name, "chat mock-small")
        self.assertEqual((call.attributes["server.address"], call.attributes["server.port"]), ("127.0.0.1", self.mock.port))
        self.assertEqual(request.attributes["afterimage.outcome"], "miss")
        self.assertEqual(request.attributes["afterimage.miss"], "never_seen")
        self.assertEqual(request.attributes["afterimage.request_id"], said.headers["X-Request-Id"])
        self.assertEqual([span.attributes["afterimage.cache.hit"] for span in spans if span.name == "cache lookup"], [False])
        self.assertIn("identity", [span.name for span in spans])
        for span in spans:
            self.assertLessEqual(request.span.start_time_unix_nano, span.span.start_time_unix_nano, span.name)
            self.assertLessEqual(span.span.start_time_unix_nano, span.span.end_time_unix_nano, span.name)
        self.assertLess(abs(request.span.end_time_unix_nano / 1e9 - time.time()), PATIENCE)

    def test_of_a_hit_have_no_call(self):
        self.gateway.ask(self.id())
        trace, parent = self.traced()
        self.assertEqual(self.gateway.ask(self.id(), traceparent=parent).cache, "HIT")
        spans = self.steps_of(trace)
        request = next(span for span in spans if span.kind == SERVER)
        self.assertEqual((request.attributes["afterimage.outcome"], request.attributes["afterimage.match_level"]), ("hit", "text:exact"))
        self.assertGreater(request.attributes["afterimage.saved_output_tokens"], 0)
        self.assertEqual([span.name for span in spans if span.kind == CLIENT], [])
        self.assertEqual([span.attributes for span in spans if span.name == "cache lookup"], [{"afterimage.cache": "memory", "afterimage.cache.hit": True}])

    def test_of_streams_and_of_other_protocols(self):
        trace, parent = self.traced(1)
        self.gateway.ask(self.id(), stream=True, traceparent=parent)
        spans = self.steps_of(trace, CLIENT)
        self.assertEqual(next(span for span in spans if span.kind == CLIENT).attributes["gen_ai.response.finish_reasons"], ["stop"])
        trace, parent = self.traced(2)
        self.gateway.post({"model": "mock-small", "max_tokens": 20, "messages": [{"role": "user", "content": self.id()}]}, "/v1/messages", traceparent=parent,
                          **{"anthropic-version": "2023-06-01"})
        spans = self.steps_of(trace, CLIENT)
        self.assertEqual(next(span for span in spans if span.kind == SERVER).attributes["afterimage.protocol"], "messages")
        trace, parent = self.traced(3)
        self.gateway.post({"model": "mock-embed", "input": self.id()}, "/v1/embeddings", traceparent=parent)
        self.assertEqual(next(span for span in self.steps_of(trace, CLIENT) if span.kind == CLIENT).name, "embeddings mock-embed")

    def test_of_errors_say_so(self):
        trace, parent = self.traced(1)
        self.assertEqual(self.gateway.ask(f"{self.id()} #status=503", traceparent=parent).status, 503)
        spans = self.steps_of(trace, CLIENT)
        for span in (span for span in spans if span.kind != INTERNAL):
            self.assertEqual((span.attributes["error.type"], span.span.status.code), ("503", 2), span.name)
        trace, parent = self.traced(2)
        self.assertEqual(self.gateway.ask(f"{self.id()} #die=0", traceparent=parent).status, 502)
        call = next(span for span in self.steps_of(trace, CLIENT) if span.kind == CLIENT)
        self.assertEqual((call.attributes["error.type"], call.span.status.code), ("unavailable", 2))
        trace, parent = self.traced(3)
        self.assertEqual(self.gateway.post(b"{", traceparent=parent).status, 400)
        self.steps_of(trace)

    def test_hold_no_text_of_questions_and_answers(self):
        trace, parent = self.traced()
        answer = self.gateway.ask("A-very-secret-question", traceparent=parent).content
        self.steps_of(trace, CLIENT)
        everything = "".join(str(message) for _, _, _, message in self.collector.posts)
        self.assertNotIn("A-very-secret-question", everything)
        self.assertNotIn(answer.split()[1], everything)

    def test_begin_here_without_a_valid_caller(self):
        for number, bad in enumerate(("", "rubbish", f"00-{'0' * 32}-{CALLER}-01", f"ff-{TRACE}-{CALLER}-01", f"00-{TRACE.upper()}-{CALLER}-01", "x" * 8000)):
            said = self.gateway.ask(f"{self.id()} {number}", traceparent=bad, tracestate="vendor=1")
            self.assertEqual(said.status, 200)
            wanted = said.headers["X-Request-Id"]
            self.collector.wait_for(lambda wanted=wanted: any(span.attributes.get("afterimage.request_id") == wanted for span in self.collector.spans()), "a trace of its own")
            request = next(span for span in self.collector.spans() if span.attributes.get("afterimage.request_id") == wanted)
            self.assertEqual(request.parent, "")
            self.assertNotIn(request.trace, (TRACE, "0" * 32))
            call = next(one for one in self.mock.calls if f"{self.id()} {number}" in one[3].decode())
            headers = {name.lower(): value for name, value in call[2].items()}
            self.assertIn(request.trace, headers["traceparent"])
            self.assertNotIn("tracestate", headers)

    def test_that_the_caller_does_not_sample_are_passed_on_untouched(self):
        parent = f"00-{TRACE}-{CALLER}-00"
        self.gateway.ask(self.id(), traceparent=parent)
        call = next(one for one in self.mock.calls if self.id() in one[3].decode())
        self.assertEqual({name.lower(): value for name, value in call[2].items()}["traceparent"], parent)
        trace, sampled = self.traced()
        self.gateway.ask(self.id() + "?", traceparent=sampled)
        self.steps_of(trace)  # sent after it
        self.assertEqual(self.collector.trace(TRACE), [])

    def test_name_the_decision_and_are_counted(self):
        trace, parent = self.traced()
        self.gateway.ask(self.id(), traceparent=parent)
        self.steps_of(trace, CLIENT)
        self.gateway.wait_for(lambda: self.gateway.metric("afterimage_trace_spans_total", result="sent") > 0, "they are counted")
        path, headers, _, message = self.collector.posts[0]
        self.assertEqual((path, headers["Content-Type"]), ("/v1/traces", "application/json"))
        resource = {item.key: item.value.string_value for item in message.resource_spans[0].resource.attributes}
        self.assertEqual(resource["service.name"], "afterimage")


class Fleet(TelemetryTestCase):
    @classmethod
    def start(cls):
        super().start()
        cls.gateway = cls.kept.enter_context(GatewayProcess({"upstream": {"replicas": [f"{cls.mock.url} name=first"]}, "telemetry": {"otlp_endpoint": cls.collector.url}}))

    def test_says_which_replica(self):
        trace, parent = self.traced()
        self.gateway.ask(self.id(), traceparent=parent)
        spans = self.steps_of(trace, CLIENT)
        route = next(span for span in spans if span.name == "route")
        self.assertEqual((route.attributes["afterimage.replica"], route.attributes["afterimage.route"], route.attributes["afterimage.attempt"]), ("first", "only", 1))


class Settings(unittest.TestCase):
    def gateway(self, collector, environment=None, **telemetry):
        self.mock = self.enterContext(MockModel())
        return self.enterContext(GatewayProcess({"upstream": {"url": self.mock.url}, "telemetry": {"otlp_endpoint": collector.url, **telemetry}}, environment=environment))

    def test_headers_and_names(self):
        collector = self.enterContext(Collector())
        gateway = self.gateway(collector, {"OTLP_HEADERS": "api-key=s%2Cecret"}, headers_env="OTLP_HEADERS", service_name="front")
        gateway.ask("x")
        collector.wait_for(lambda: collector.posts, "a POST")
        self.assertEqual(collector.posts[0][1]["api-key"], "s,ecret")
        self.assertEqual(collector.posts[0][3].resource_spans[0].resource.attributes[0].value.string_value, "front")
        self.assertNotIn("ecret", "".join(gateway.said))

    def test_a_ratio_of_zero_traces_what_the_caller_wants_only(self):
        collector = self.enterContext(Collector())
        gateway = self.gateway(collector, sample_ratio=0)
        for n in range(20):
            gateway.ask(f"x{n}")
        gateway.ask("y", traceparent=f"00-{TRACE}-{CALLER}-01")
        collector.wait_for(lambda: any(span.kind == SERVER for span in collector.trace(TRACE)), "the trace")
        self.assertEqual({span.trace for span in collector.spans()}, {TRACE})

    def test_what_waits_is_sent_at_the_end(self):
        collector = self.enterContext(Collector())
        gateway = self.gateway(collector)
        gateway.ask("x", traceparent=f"00-{TRACE}-{CALLER}-01")
        gateway.terminate()
        self.assertTrue(any(span.kind == SERVER for span in collector.trace(TRACE)))
        self.assertEqual(collector.problems, [])

    def test_a_collector_that_hangs_delays_no_request(self):
        collector = self.enterContext(Collector())
        collector.released.clear()
        gateway = self.gateway(collector, queue=10)
        for n in range(30):
            began = time.monotonic()
            self.assertEqual(gateway.ask(f"x{n}").status, 200)
            self.assertLess(time.monotonic() - began, 5)
        gateway.wait_for(lambda: gateway.metric("afterimage_trace_spans_total", result="dropped") > 0, "spans are dropped and counted")
        collector.released.set()

    def test_a_collector_that_refuses_or_is_not_there_costs_spans_only(self):
        collector = self.enterContext(Collector(lambda n: (503 if n == 0 else 400 if n == 1 else 200, b"rubbish" * 1000)))
        gateway = self.gateway(collector)
        for n in range(3):
            self.assertEqual(gateway.ask(f"x{n}").status, 200)
            collector.wait_for(lambda n=n: len(collector.posts) > n, "a POST")
        gateway.wait_for(lambda: any("traces_not_sent" in line for line in gateway.said), "the log says so")
        gateway.wait_for(lambda: gateway.metric("afterimage_trace_spans_total", result="failed") > 0, "they are counted")
        nobody = self.enterContext(GatewayProcess({"upstream": {"url": self.mock.url}, "telemetry": {"otlp_endpoint": "http://127.0.0.1:1"}}))
        self.assertEqual(nobody.ask("x").status, 200)
        began = time.monotonic()
        nobody.terminate()
        self.assertLess(time.monotonic() - began, PATIENCE)

    def test_bad_headers_end_the_start(self):
        with self.assertRaisesRegex(AssertionError, "telemetry.headers_env") as ended:
            with Collector() as collector:
                self.gateway(collector, {"OTLP_HEADERS": "sesame"}, headers_env="OTLP_HEADERS")
        self.assertNotIn("sesame", str(ended.exception))


if __name__ == "__main__":
    unittest.main()

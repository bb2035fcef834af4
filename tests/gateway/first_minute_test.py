# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""What `serve` prints of the server behind it, and what `doctor` finds there and in a running gateway.

AFTERIMAGE_LLAMA_SERVER (a llama-server) and AFTERIMAGE_LLAMA_MODEL add a real server to those that only say what servers say."""
import contextlib
import http.server
import json
import os
import pathlib
import socket
import subprocess
import tempfile
import threading
import unittest

from gateway_process import GatewayProcess, GatewayTestCase, PROGRAM
from mock_model import MockModel


def models(owner, *ids, **more):
    return {"object": "list", "data": [{"id": one, "object": "model", "owned_by": owner, **more} for one in ids]}


# What servers of each kind answer, and the first line that is printed of it.
SERVERS = (
    ({"/v1/models": models("vllm", "Qwen/Qwen3-VL-2B-Instruct", "lora", max_model_len=32768), "/version": {"version": "0.32.0"},
      "/metrics": 'vllm:cache_config_info{block_size="16",enable_prefix_caching="True"} 1.0\n'},
     "behind it: vLLM 0.32.0, model Qwen/Qwen3-VL-2B-Instruct and 1 more, context of 32768 tokens"),
    ({"/v1/models": models("sglang", "m"), "/server_info": {"version": "0.5.6", "disable_radix_cache": False}}, "behind it: SGLang 0.5.6, model m"),
    ({"/v1/models": models("llamacpp", "m.gguf", meta={"n_ctx_train": 131072}), "/props": {"build_info": "b7100-abc", "default_generation_settings": {"n_ctx": 4096}}},
     "behind it: llama-server b7100-abc, model m.gguf, context of 4096 tokens"),
    ({"/v1/models": models("library", "gemma3:4b"), "/api/version": {"version": "0.13.1"}}, "behind it: Ollama 0.13.1, model gemma3:4b"),
    ({"/v1/models": {"object": "list", "data": None}, "/api/version": {"version": "0.13.1"}}, "behind it: Ollama 0.13.1, which lists no model"),
    ({"/v1/models": models("tensorrt_llm", "m"), "/version": {"version": "1.2.0"}}, "behind it: TensorRT-LLM 1.2.0, model m"),
    ({"/v1/models": models("organization_owner", "qwen2-vl")}, "behind it: LM Studio, model qwen2-vl"),
    ({"/v1/models": models("somebody", "m")}, "behind it: a server of an unknown kind, model m"),
    ({"/v1/models": 401}, "behind it: a server that wants a key"),
    ({}, "behind it: a server of an unknown kind, which lists no model"),
)


@contextlib.contextmanager
def server(answers):
    """A server that answers these paths; its port, and the headers of what it was asked."""
    seen = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            seen.append((self.path, dict(self.headers)))
            answer = answers.get(self.path, 404)
            body = b"" if isinstance(answer, int) else (answer if isinstance(answer, str) else json.dumps(answer)).encode()
            self.send_response(answer if isinstance(answer, int) else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    running = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=running.serve_forever)
    thread.start()
    try:
        yield running.server_address[1], seen
    finally:
        running.shutdown()
        thread.join()
        running.server_close()


def printed(arguments, settings=None, environment=None):
    """The four lines after the addresses."""
    with GatewayProcess(settings, arguments=arguments, environment=environment) as gateway:
        return [line_of(gateway, words) for words in ("behind it:", "answers:", "prompts:", "not here:")]


def line_of(gateway, words):
    while True:
        line = gateway.lines.get(timeout=60)
        if line is None or words in line:
            return (line or "").rstrip("\n")


def doctor(*arguments):
    done = subprocess.run([PROGRAM, "doctor", "--json", *arguments], capture_output=True, text=True, timeout=120)
    found = {}
    for one in json.loads(done.stdout):
        found.setdefault(one["what"], []).append(one)
    return done.returncode, found


class FirstMinute(GatewayTestCase):
    def test_the_server_behind_it_is_named(self):
        for answers, line in SERVERS:
            with self.subTest(line), server(answers) as (port, _):
                said = printed(["--upstream", f"http://127.0.0.1:{port}/v1"])
                self.assertTrue(said[0].startswith(line), said[0])
                self.assertIn("from memory (4 GiB)", said[1])

    def test_a_server_that_is_not_there_is_said_and_clients_are_served(self):
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            said = printed(["--upstream", f"http://127.0.0.1:{unused.getsockname()[1]}"])
        self.assertIn("nothing answers yet", said[0])
        self.assertIn("502", said[0])

    def test_the_servers_own_key_is_sent(self):
        with server({"/v1/models": models("vllm", "m")}) as (port, seen):
            printed([], {"upstream": {"url": f"http://127.0.0.1:{port}", "key_env": "MODEL_KEY"}}, {"MODEL_KEY": "secret"})
        self.assertEqual({path: headers.get("Authorization") for path, headers in seen}["/v1/models"], "Bearer secret")

    def test_prefix_caching_that_is_off_is_told_how(self):
        answers = {"/v1/models": models("vllm", "m"), "/metrics": 'vllm:cache_config_info{enable_prefix_caching="False"} 1.0'}
        with server(answers) as (port, _):
            self.assertIn("--enable-prefix-caching", printed(["--upstream", f"http://127.0.0.1:{port}"])[2])
            code, found = doctor("--upstream", f"http://127.0.0.1:{port}", "--server", "http://127.0.0.1:9")
        self.assertEqual((code, found["server"][0]["finding"]), (0, "note"))
        self.assertIn("--enable-prefix-caching", found["server"][0]["todo"])

    def test_doctor_says_why_repeated_requests_did_not_hit(self):
        body = {"model": "mock-small", "messages": [{"role": "user", "content": "Hi"}]}
        with MockModel() as model, GatewayProcess({"upstream": {"url": model.url}, "answers": {"sampled": "off"}}) as gateway:
            for _ in range(3):
                self.assertEqual(gateway.post(body).status, 200)
            for _ in range(2):
                gateway.post({**body, "temperature": 0})
            code, found = doctor("--upstream", model.url, "--server", f"http://127.0.0.1:{gateway.admin_port}")
        requests = found["requests"]
        self.assertEqual(requests[0]["seen"], "5 requests of the last hour (of the last 500), 1 answered from the cache")
        self.assertEqual((requests[1]["seen"], requests[1]["finding"]), ("2 requests that had been asked before did not hit: no-temperature", "note"))
        self.assertIn("answers.sampled", requests[1]["todo"])
        self.assertEqual(code, 0)

    def test_doctor_fails_where_something_is_wrong(self):
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            nowhere = f"http://127.0.0.1:{unused.getsockname()[1]}"
            code, found = doctor("--upstream", nowhere, "--server", nowhere)
        self.assertEqual((code, found["server"][0]["finding"], found["requests"][0]["finding"]), (1, "problem", "note"))
        for one in ("cpu", "memory", "disk", "io_uring", "gpu"):
            self.assertIn(one, found)

    def test_doctor_takes_nobody_else_for_a_gateway(self):
        for stats, decisions in (({"requests": 5}, {"decisions": []}), ({"requests": {"bypasses": [1]}}, {"decisions": [7]}),
                                 ({"tiers": {"a": 1}}, {"decisions": "none"}), ({"requests": {"prefix_causes": 5}}, {"decisions": []}), ([], {})):
            answers = {"/admin/api/stats": stats, "/admin/api/decisions?limit=500": decisions}
            with self.subTest(stats), server(answers) as (port, _):
                code, found = doctor("--server", f"http://127.0.0.1:{port}")
                self.assertEqual((code, found["requests"][0]["finding"]), (0, "note"), found["requests"])
                self.assertIn("no gateway told", found["requests"][0]["seen"])

    def test_doctor_looks_where_the_disk_would_be(self):
        with tempfile.TemporaryDirectory(prefix="afterimage-doctor-") as folder:
            os.symlink("loop", os.path.join(folder, "loop"))
            open(os.path.join(folder, "file"), "w").close()
            config = os.path.join(folder, "afterimage.toml")
            for disk, finding in ((folder, "fine"), (f"{folder}/a/b", "fine"), (f"{folder}/loop", "problem"), (f"{folder}/loop/a", "problem"),
                                  (f"{folder}/file", "problem"), (f"{folder}/file/a", "problem")):
                with self.subTest(disk):
                    pathlib.Path(config).write_text(f'[memory]\ndisk = "{disk}"\ndisk_size = "64 MiB"\n')
                    _, found = doctor("--config", config, "--server", "http://127.0.0.1:9")
                    self.assertEqual(found["disk"][0]["finding"], finding, found["disk"])

    def test_a_real_llama_server_is_known(self):
        program, model = os.environ.get("AFTERIMAGE_LLAMA_SERVER", ""), os.environ.get("AFTERIMAGE_LLAMA_MODEL", "")
        if not os.path.exists(program) or not os.path.exists(model):
            self.skipTest("name a llama-server in AFTERIMAGE_LLAMA_SERVER and its model in AFTERIMAGE_LLAMA_MODEL")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        started = subprocess.Popen([program, "-m", model, "-c", "512", "-np", "1", "--host", "127.0.0.1", "--port", str(port)],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            code = 1
            while code and started.poll() is None:
                code, found = doctor("--upstream", f"http://127.0.0.1:{port}", "--server", "http://127.0.0.1:9")
            self.assertTrue(found["server"][0]["seen"].startswith("llama-server "), found["server"])
            said = printed(["--upstream", f"http://127.0.0.1:{port}"])
            self.assertIn("context of 512 tokens", said[0])
            self.assertIn("--engine llama", said[3])
        finally:
            started.kill()
            started.wait()


if __name__ == "__main__":
    unittest.main()

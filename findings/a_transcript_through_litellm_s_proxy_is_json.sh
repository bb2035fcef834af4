#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# A transcript or a subtitle that is asked for through LiteLLM's proxy is JSON
#
# One would guess: a gateway that speaks OpenAI's API passes response_format on, and what the server makes of it
# back: text/plain for "text" and "srt", text/vtt for "vtt". So a client gets the same with the gateway as without.
#
# What happens: LiteLLM's proxy asks the server for verbose_json where its client asked for "json", for "text" or for
# nothing, and for srt and vtt as its client did. Its own answer is application/json in all six cases. openai-python
# returns the body as it came where a text was asked for, so its user gets {"text":"Hello.", …} as the transcript, and a subtitle whose
# line breaks are "\n" within a JSON string. Nothing fails.
#
# Why it matters for caches and gateways: behind this proxy a request without a response_format, one for "json" and one
# for "text" are the same question; before it they are three, and each has an answer of another content type. A cache that
# takes the content type of a transcript from the request, and not from the server's answer, is wrong for one of the two. So
# it has to be kept with the answer.
#
# Needs python3 with venv, and PyPI. Servers are on loopback. Exit code 0: it is still so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check 'litellm[proxy]==1.83.0' openai==3.54.0
cat > "$folder/ask.py" <<'PYTHON'
import http.server, importlib.metadata, json, os, pathlib, re, socket, subprocess, sys, threading, time, urllib.request

import openai

FOLDER = pathlib.Path(sys.argv[1])
SAID = "Hello."
ANSWERS = {"text": ("text/plain", SAID + "\n"), "srt": ("text/plain", f"1\n00:00:00,000 --> 00:00:01,000\n{SAID}\n"),
           "vtt": ("text/vtt", f"WEBVTT\n\n00:00.000 --> 00:01.000\n{SAID}\n"),
           "verbose_json": ("application/json", json.dumps({"task": "transcribe", "language": "english", "duration": 1.0, "text": SAID, "segments": []}))}
asked = []


class Server(http.server.BaseHTTPRequestHandler):
    """Answers as OpenAI's server does, in the form that it is asked for."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        form = re.search(rb'name="response_format"\r\n\r\n(\w+)', self.rfile.read(int(self.headers["Content-Length"])))
        asked.append(form[1].decode() if form else "nothing")
        kind, text = ANSWERS.get(asked[-1], ("application/json", json.dumps({"text": SAID})))
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
direct = f"http://127.0.0.1:{server.server_address[1]}"
with socket.socket() as unused:
    unused.bind(("127.0.0.1", 0))
    port = unused.getsockname()[1]
(FOLDER / "config.yaml").write_text(f"""model_list:
- model_name: whisper-1
  litellm_params: {{model: openai/whisper-1, api_base: "{direct}/v1", api_key: k}}
""")
proxy = subprocess.Popen([FOLDER / "venv/bin/litellm", "--config", FOLDER / "config.yaml", "--host", "127.0.0.1", "--port", str(port)],
                         env={**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def wait_for_proxy():
    for _ in range(240):
        try:
            return urllib.request.urlopen(f"http://127.0.0.1:{port}/health/liveliness", timeout=1)
        except OSError:
            time.sleep(0.5)
    raise SystemExit("the proxy does not start")


def ask(url, form):
    """What the server was asked for, the content type that came back, and what the user gets."""
    with openai.OpenAI(base_url=url + "/v1", api_key="k", max_retries=0) as client:
        more = {} if form is None else {"response_format": form}
        raw = client.audio.transcriptions.with_raw_response.create(model="whisper-1", file=("a.wav", b"RIFF"), **more)
        said = raw.parse()
        return asked[-1], raw.headers["Content-Type"].partition(";")[0], said if isinstance(said, str) else said.text


as_expected = True
try:
    wait_for_proxy()
    print("Python", sys.version.split()[0], *(f"{name} {importlib.metadata.version(name)}" for name in ("litellm", "openai")))
    for form in (None, "json", "text", "srt", "vtt", "verbose_json"):
        without, through = ask(direct, form), ask(f"http://127.0.0.1:{port}", form)
        print(f"response_format {form}:\n    without the proxy: server asked for {without[0]}; {without[1]}; the user gets {without[2]!r}\n"
              f"    through it:        server asked for {through[0]}; {through[1]}; the user gets {through[2][:60]!r}")
        is_text = form in ("text", "srt", "vtt")
        as_expected = (as_expected and without[0] == (form or "nothing") and without[1] == ANSWERS.get(form, ("application/json",))[0] and
                       through[0] == (form if form in ("srt", "vtt") else "verbose_json") and through[1] == "application/json" and
                       through[2].startswith('{"text":' if is_text else SAID))
finally:
    proxy.terminate()
    proxy.wait()
print("as found" if as_expected else "NOT as found")
sys.exit(not as_expected)
PYTHON
"$folder/venv/bin/python" "$folder/ask.py" "$folder"

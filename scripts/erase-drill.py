#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Erases what gateways store, lets the stores fail over or restart, and asks again: nothing that was erased may be served.

    scripts/erase-drill.py build/release/afterimage [--stores standalone,promoted] [--engines upstream] [--contents text,picture]

Each store holds a question about each kind of content, asked twice of two gateways (the disk: of one). One question is erased after the other,
then the store's accident happens, the gateways are killed and started again, and each question is asked once more. A cell of the table says

    gone    erased with 200, and neither its answer nor its KV nor its encoder output was served
    503     the call said that it could not promise it, as it has to in "cut off"
    SERVED  erased with 200, and served again: the drill fails
    n/a     this engine, or this machine, does not take such content

The column "kept" shows what was not erased: a hit, where the accident leaves entries in place; else the drill would prove nothing.
Needs redis-server; ffmpeg for videos; PDFium for PDF files of built-in engines (scripts/fetch-pdfium.py build/pdfium); `make llama` for llama.
Exit code 0: nothing was served. 1: something was, or a cell that has to be refused was not. 2: cannot run here.
"""
import argparse
import base64
import contextlib
import hashlib
import io
import json
import math
import os
import pathlib
import struct
import sys
import tempfile
import wave

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / "testing"), str(ROOT / "tests" / "gateway")]
import redis_cluster  # noqa: E402

MODELS = ROOT / "build" / "models"
REFUSED = {"cut off"}  # stores at which every erasure has to fail
EMPTIED = {"snapshot"}  # stores whose accident leaves nothing


# Stores: each has the settings of its gateways, what comes between storing and erasing, and an accident.

class Standalone:
    """One server. The gateways are killed and started again."""
    gateways = 2

    def __init__(self, folder):
        self.folder = folder
        self.kept = contextlib.ExitStack()
        self.settings = {"": {"secret_file": redis_cluster.secret_file(folder)}}

    def __enter__(self):
        self.servers = self.kept.enter_context(self.start())
        self.point_to(self.servers.url)
        return self

    def __exit__(self, *_):
        self.kept.close()

    def start(self):
        return redis_cluster.Servers()

    def point_to(self, url):
        self.settings["remote"] = {"url": url}

    def before_erasing(self):
        pass

    def accident(self):
        pass


class Snapshot(Standalone):
    """The server is killed, and starts from a snapshot that is older than the erasures."""

    def before_erasing(self):
        self.servers[0].ask("SAVE")

    def accident(self):
        self.servers[0].kill()
        self.servers[0].start()


class Promoted(Standalone):
    """A primary with a replica: the primary is killed, the replica promoted."""

    def __enter__(self):
        super().__enter__()
        primary = self.servers[0]
        self.replica = redis_cluster.Server(os.path.join(self.folder, "replica"), "--replicaof", f"{primary.host} {primary.port}",
                                            "--repl-diskless-sync-delay", "0")
        self.kept.callback(self.replica.kill)
        redis_cluster.wait_until(lambda: b"state=online" in primary.ask("INFO", "replication"), "the replica has caught up")
        return self

    def accident(self):
        self.servers[0].kill()
        self.replica.ask("REPLICAOF", "NO", "ONE")
        self.point_to(f"redis://{self.replica.host}:{self.replica.port}")


class CutOff(Promoted):
    """The same, and the replica receives nothing while entries are erased."""

    def before_erasing(self):
        self.replica.ask("REPLICAOF", "NO", "ONE")
        redis_cluster.wait_until(lambda: b"connected_slaves:0" in self.servers[0].ask("INFO", "replication"), "the replica is away")


class Cluster(Standalone):
    """Three masters with a replica each: one master is killed, and its replica takes over."""

    def start(self):
        return redis_cluster.Servers(masters=3, replicas=1)

    def accident(self):
        self.servers[0].kill()
        redis_cluster.wait_until(lambda: self.servers[3].ask("ROLE")[0] == b"master", "the replica takes over")
        redis_cluster.wait_until(lambda: all(b"cluster_state:ok" in self.servers[i].ask("CLUSTER", "INFO") for i in range(1, 6)), "it is healthy")


class Disk(Standalone):
    """A folder on disk, and no server."""
    gateways = 1

    def __enter__(self):
        self.settings["memory"] = {"disk": os.path.join(self.folder, "disk"), "disk_size": "1 GiB", "disk_all": True}
        return self


STORES = {"standalone": Standalone, "promoted": Promoted, "cut off": CutOff, "cluster": Cluster, "disk": Disk, "snapshot": Snapshot}


# Contents: parts of a message, and what is erased.

def chat_about(parts, words):
    return [*parts, {"type": "text", "text": words}]


def data_url(kind, data):
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def png(seed):
    import pdf_files
    with tempfile.NamedTemporaryFile(suffix=".png") as file:
        pdf_files.make_png(pathlib.Path(file.name), 160, 120, lambda x, y: ((x * seed) % 256, (y * 5) % 256, seed * 20 % 256))
        return pathlib.Path(file.name).read_bytes()


def sound():
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1), file.setsampwidth(2), file.setframerate(16_000)
        file.writeframes(b"".join(struct.pack("<h", int(9000 * math.sin(i * i / 90_000))) for i in range(32_000)))
    return out.getvalue()


def video():
    import video_files
    if video_files.missing():
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "film.mp4")
        video_files.make_film(path, 8)
        return path.read_bytes()


def pdf():
    import pdf_files
    with tempfile.NamedTemporaryFile(suffix=".pdf") as file:
        pdf_files.make_pdf(pathlib.Path(file.name), [pdf_files.text_page(1), pdf_files.text_page(2)])
        return pathlib.Path(file.name).read_bytes()


def upload(gateway, data):
    """The id of an uploaded file."""
    mark = "drill"
    body = (f'--{mark}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nvision\r\n--{mark}\r\nContent-Disposition: form-data; '
            f'name="file"; filename="a.png"\r\nContent-Type: image/png\r\n\r\n').encode() + data + f"\r\n--{mark}--\r\n".encode()
    return gateway.request("POST", "/v1/files", body, {"Content-Type": f"multipart/form-data; boundary={mark}"}).json["id"]


class Content:
    def __init__(self, data=None, part=None, headers=None):
        self.data, self.part, self.headers = data, part, headers or {}

    def parts(self, gateway):
        return [] if self.part is None else [self.part(gateway, self.data)]

    def target(self):
        return {"tag": "drill:text"} if self.data is None else {"media": hashlib.sha256(self.data).hexdigest()}


def contents():
    picture, film = png(7), video()
    found = {
        "picture": Content(picture, lambda _, data: {"type": "image_url", "image_url": {"url": data_url("image/png", data)}}),
        "sound": Content(sound(), lambda _, data: {"type": "input_audio", "input_audio": {"data": base64.b64encode(data).decode(), "format": "wav"}}),
        "video": Content(film, lambda _, data: {"type": "video_url", "video_url": {"url": data_url("video/mp4", data)}}) if film else None,
        "PDF": Content(pdf(), lambda _, data: {"type": "file", "file": {"filename": "a.pdf", "file_data": data_url("application/pdf", data)}}),
        "file id": Content(png(3), lambda gateway, data: {"type": "file", "file": {"file_id": upload(gateway, data)}}),
        "text": Content(headers={"X-Afterimage-Tags": "drill:text"}),
    }
    return found


# Engines: arguments and settings of a gateway.

@contextlib.contextmanager
def upstream(_):
    from mock_model import MockModel
    with MockModel() as mock:
        yield {"upstream": {"url": mock.url}}, []


@contextlib.contextmanager
def built_in(_):
    yield {}, []


@contextlib.contextmanager
def llama(content):
    model = MODELS / ("hearing.gguf" if content == "sound" else "dense.gguf")
    yield {}, ["--engine", "llama", "--model", str(model), "--mmproj", str(model.with_suffix(".mmproj.gguf")), "--context", "2048"]


ENGINES = {"upstream": upstream, "built-in": built_in, "llama": llama}


class Cell:
    """One store and one engine, with several questions."""

    def __init__(self, store, settings, arguments, asked):
        self.store, self.settings, self.arguments, self.asked = store, settings, arguments, asked
        self.gateways = []

    def start(self):
        from gateway_process import GatewayProcess, merged
        for _ in range(self.store.gateways):
            self.gateways.append(GatewayProcess(merged(self.store.settings, self.settings), arguments=self.arguments))
        for gateway in self.gateways if "remote" in self.store.settings else []:
            gateway.wait_for(lambda: gateway.metric("afterimage_shared_answers_known") == 1, "answers are shared")
        self.model = self.gateways[0].request("GET", "/v1/models").json["data"][0]["id"]

    def stop(self):
        while self.gateways:
            self.gateways.pop().kill()

    def ask(self, gateway, name, words=None):
        content = self.asked.get(name) or Content()
        body = {"model": self.model, "temperature": 0, "max_tokens": 4, "messages": [
            {"role": "user", "content": chat_about(content.parts(gateway), words or f"{name}: what do you say to it, and why?")}]}
        return gateway.request("POST", "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json", **content.headers})

    def hits(self, gateway):
        return gateway.metric("afterimage_tier_hits_total")

    def served(self, name):
        """Whether its answer, KV or encoder output comes from the store."""
        gateway = self.gateways[-1]
        before = self.hits(gateway)
        reply = self.ask(gateway, name)
        if reply.status != 200:
            raise AssertionError(f"{name}: {reply.status}: {reply.text}")
        return reply.cache == "HIT" or self.hits(gateway) > before

    def run(self):
        found = {}
        self.start()
        try:
            stored = []
            for name in [*self.asked, "kept"]:
                first = self.ask(self.gateways[0], name)
                if first.status != 200:
                    found[name] = "n/a"
                    continue
                stored.append(name)
            for name in stored:
                # Entries are sent in the background.
                self.gateways[-1].wait_for(lambda: self.ask(self.gateways[-1], name).cache == "HIT", f"the {name} is a hit")
            self.store.before_erasing()
            status = {name: self.gateways[0].admin("POST", "/admin/api/erase", self.asked[name].target()).status
                      for name in stored if name != "kept"}
            self.stop()
            self.store.accident()
            self.start()
            # KV of the words that all prompts begin with is in memory then, and no hit of the store.
            self.ask(self.gateways[-1], "kept", "Never asked before.")
            for name, code in status.items():
                found[name] = str(code) if code != 200 else "SERVED" if self.served(name) else "gone"
            found["kept"] = self.ask(self.gateways[-1], "kept").cache.lower()
        finally:
            self.stop()
        return found


def drill(stores, engines, names):
    every = contents()
    rows = []
    for engine in engines:
        for store in stores:
            row = {}
            # llama hears and sees with two models.
            groups = [[name for name in names if name != "sound"], ["sound"] if "sound" in names else []] if engine == "llama" else [names]
            for group in filter(None, groups):
                asked = {name: every[name] for name in group if every[name] is not None}
                with tempfile.TemporaryDirectory(prefix="afterimage-drill-") as folder, STORES[store](folder) as place, \
                        ENGINES[engine](group[0]) as (settings, arguments):
                    row |= Cell(place, settings, arguments, asked).run()
            row |= {name: "n/a" for name in names if name not in row}
            rows.append((store, engine, row))
            print_row(store, engine, [row[name] for name in [*names, "kept"]])
    return rows


def print_row(store, engine, cells):
    print("| " + " | ".join(f"{cell:10}" for cell in [store, engine, *cells]) + " |", flush=True)


def failures(rows, names):
    for store, engine, row in rows:
        for name in names:
            if row[name] == "SERVED":
                yield f"{store}, {engine}: the erased {name} was served"
            elif row[name] != "n/a" and (row[name] == "503") != (store in REFUSED):
                yield f"{store}, {engine}: erasing the {name} gave {row[name]}"
        if row["kept"] != "hit" and store not in EMPTIED:
            yield f"{store}, {engine}: what was not erased was a {row['kept']}, so nothing is proved"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--stores", default=",".join(STORES))
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--contents", default="picture,sound,video,PDF,file id,text")
    arguments = parser.parse_args()
    if not redis_cluster.installed():
        print("erase-drill: redis-server is not installed: run scripts/install-deps.sh test", file=sys.stderr)
        return 2
    os.environ["AFTERIMAGE_PROGRAM"] = str(arguments.program.resolve())
    pdfium = ROOT / "build" / "pdfium" / "libpdfium.so"
    if pdfium.exists():
        os.environ.setdefault("AFTERIMAGE_PDFIUM", str(pdfium))
    stores, engines, names = (text.split(",") for text in (arguments.stores, arguments.engines, arguments.contents))
    if "llama" in engines and not (MODELS / "dense.gguf").exists():
        print("erase-drill: without llama: run make llama", file=sys.stderr)
        engines.remove("llama")
    print_row("store", "engine", [*names, "kept"])
    print_row("---", "---", ["---"] * (len(names) + 1))
    failed = list(failures(drill(stores, engines, names), names))
    for failure in failed:
        print(failure)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

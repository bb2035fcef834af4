# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Publishes KV events as vLLM does: ZeroMQ's PUB and ROUTER sockets (ZMTP 3.0) and MessagePack, without their libraries."""
import socket
import struct
import threading

HELLO = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)


def packed(value):
    """MessagePack of what events contain."""
    if value is None:
        return b"\xc0"
    if isinstance(value, float):
        return b"\xcb" + struct.pack(">d", value)
    if isinstance(value, int):
        return (b"\xd3" if value < 0 else b"\xcf") + value.to_bytes(8, "big", signed=value < 0)
    if isinstance(value, str):
        return b"\xd9" + bytes([len(value)]) + value.encode()
    if isinstance(value, list):
        return b"\xdd" + len(value).to_bytes(4, "big") + b"".join(map(packed, value))
    return b"\xdf" + len(value).to_bytes(4, "big") + b"".join(packed(key) + packed(one) for key, one in value.items())


def stored(*blocks, block_size=16):
    return {"type": "BlockStored", "block_hashes": list(blocks), "parent_block_hash": None, "token_ids": [], "block_size": block_size,
            "lora_id": None, "medium": "GPU", "lora_name": None}


def removed(*blocks):
    return {"type": "BlockRemoved", "block_hashes": list(blocks), "medium": "GPU"}


def frame(body, flags):
    if len(body) > 255:
        return bytes([flags | 2]) + len(body).to_bytes(8, "big") + body
    return bytes([flags, len(body)]) + body


def message(*parts):
    return b"".join(frame(part, 1 if n + 1 < len(parts) else 0) for n, part in enumerate(parts))


class KvPublisher:
    """Serves until the context is left. Batches have numbers; those in `lost` are kept for replay only. `topics`: replayed batches
    have a topic before their number, as in vLLM 0.32."""

    def __init__(self, topics=False):
        self.topic = [b""] if topics else []
        self.sequence, self.batches, self.lock, self.subscribers = 0, {}, threading.Condition(), []
        self.sockets = []
        self.events, self.replay = self.listen(self.serve_events), self.listen(self.serve_replay)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for one in self.sockets:
            with self.lock:
                try:
                    one.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
            one.close()

    def listen(self, serve):
        server = socket.create_server(("127.0.0.1", 0))
        self.sockets.append(server)

        def accept():
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                self.sockets.append(connection)
                threading.Thread(target=self.guarded, args=(serve, connection), daemon=True).start()
        threading.Thread(target=accept, daemon=True).start()
        return f"127.0.0.1:{server.getsockname()[1]}"

    @staticmethod
    def guarded(serve, connection):
        try:
            serve(connection)
        except OSError:
            pass

    @staticmethod
    def handshake(connection, kind):
        ready = b"\x05READY\x0bSocket-Type" + len(kind).to_bytes(4, "big") + kind
        connection.sendall(HELLO + frame(ready, 4))
        stream = connection.makefile("rb")
        stream.read(64)
        KvPublisher.read_frame(stream)  # READY
        return stream

    @staticmethod
    def read_frame(stream):
        flags, size = stream.read(2)
        return flags, stream.read(size)

    def serve_events(self, connection):
        stream = self.handshake(connection, b"PUB")
        self.read_frame(stream)  # the subscription
        with self.lock:
            self.subscribers.append(connection)
            self.lock.notify_all()

    def serve_replay(self, connection):
        stream = self.handshake(connection, b"ROUTER")
        self.read_frame(stream)
        first = int.from_bytes(self.read_frame(stream)[1], "big")
        with self.lock:
            for sequence, payload in sorted(self.batches.items()):
                if sequence >= first:
                    connection.sendall(message(b"", *self.topic, sequence.to_bytes(8, "big"), payload))
            connection.sendall(message(b"", *self.topic, b"\xff" * 8, b""))

    def wait_for_subscriber(self, seconds=30):
        with self.lock:
            assert self.lock.wait_for(lambda: self.subscribers, seconds)

    def publish(self, *events, lose=False, forget=False):
        """`lose`: subscribers do not get it; `forget`: nor does a replay."""
        with self.lock:
            payload = packed({"ts": 1.5, "events": list(events), "data_parallel_rank": 0})
            if not forget:
                self.batches[self.sequence] = payload
            if not (lose or forget):
                for one in self.subscribers:
                    one.sendall(message(b"", self.sequence.to_bytes(8, "big"), payload))
            self.sequence += 1

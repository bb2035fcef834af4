# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""https to clients and to upstreams, with certificates that the openssl program makes: reload, refusals, attacks."""
import http.client
import json
import os
import pathlib
import signal
import socket
import ssl
import subprocess
import tempfile
import unittest
import warnings

from gateway_process import CHAT, PATIENCE, PROGRAM, GatewayProcess, GatewayTestCase, chat, merged
from mock_model import MockModel


class Authority:
    """Certificates of one authority, in a folder."""

    def __init__(self, folder, name):
        self.folder, self.name = pathlib.Path(folder), name
        self.run("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.pem")
        self.file = str(self.folder / f"{name}.pem")

    def run(self, *arguments):
        done = subprocess.run(["openssl", *arguments], cwd=self.folder, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise AssertionError(done.stderr)

    def sign(self, name, alternatives, dates=("-days", "30")):
        """(certificate, key)"""
        (self.folder / f"{name}.ext").write_text(f"subjectAltName={alternatives}\n")
        (self.folder / "index").write_text("")
        (self.folder / "ca.cnf").write_text("[ca]\ndefault_ca=a\n[a]\ndatabase=index\nnew_certs_dir=.\nrand_serial=yes\npolicy=p\ndefault_md=sha256\n"
                                            "unique_subject=no\n[p]\ncommonName=supplied\n")
        self.run("req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        self.run("ca", "-batch", "-config", "ca.cnf", "-notext", "-in", f"{name}.csr", "-cert", f"{self.name}.pem", "-keyfile", f"{self.name}.key",
                 "-extfile", f"{name}.ext", "-out", f"{name}.pem", *dates)
        return str(self.folder / f"{name}.pem"), str(self.folder / f"{name}.key")


EXPIRED = ("-startdate", "20200101000000Z", "-enddate", "20200201000000Z")


class TlsTestCase(GatewayTestCase):
    @classmethod
    def start(cls):
        cls.folder = cls.kept.enter_context(tempfile.TemporaryDirectory(prefix="afterimage-tls-"))
        cls.ours, cls.theirs = Authority(cls.folder, "ours"), Authority(cls.folder, "theirs")
        cls.good = cls.ours.sign("good", "DNS:localhost,IP:127.0.0.1")
        cls.mock = cls.kept.enter_context(MockModel())

    def tearDown(self):
        pass


class Clients(TlsTestCase):
    @classmethod
    def start(cls):
        super().start()
        cls.certificate, cls.key = f"{cls.folder}/served.pem", f"{cls.folder}/served.key"
        cls.serve(*cls.good)
        cls.gateway = cls.kept.enter_context(GatewayProcess({
            "upstream": {"url": cls.mock.url}, "limits": {"header_timeout": "2 s"}, "listen": {"tls_certificate": cls.certificate, "tls_key": cls.key},
            "admin": {"tls_certificate": cls.good[0], "tls_key": cls.good[1]}}))

    @classmethod
    def serve(cls, certificate, key):
        pathlib.Path(cls.certificate).write_text(pathlib.Path(certificate).read_text())
        pathlib.Path(cls.key).write_text(pathlib.Path(key).read_text())

    def trusting(self, authority=None):
        return ssl.create_default_context(cafile=(authority or self.ours).file)

    def ask(self, question, context=None, port=None):
        connection = http.client.HTTPSConnection("localhost", port or self.gateway.port, timeout=PATIENCE, context=context or self.trusting())
        try:
            connection.request("POST", CHAT, json.dumps(chat(question)), {"Content-Type": "application/json"})
            reply = connection.getresponse()
            return reply.status, reply.headers["X-Cache"], reply.read()
        finally:
            connection.close()

    def serial(self):
        with socket.create_connection(("127.0.0.1", self.gateway.port), PATIENCE) as plain:
            with self.trusting().wrap_socket(plain, server_hostname="localhost") as secure:
                return secure.getpeercert()["serialNumber"]

    def test_ask_over_https(self):
        self.assertEqual(self.ask(self.id())[:2], (200, "MISS"))
        self.assertEqual(self.ask(self.id())[:2], (200, "HIT"))
        self.assertEqual(self.ask(self.id(), port=self.gateway.admin_port)[0], 404)

    def test_stream_and_leave(self):
        connection = http.client.HTTPSConnection("localhost", self.gateway.port, timeout=PATIENCE, context=self.trusting())
        connection.request("POST", CHAT, json.dumps(chat(f"{self.id()} #pieces=4", True)), {"Content-Type": "application/json"})
        body = connection.getresponse().read()
        self.assertTrue(body.endswith(b"data: [DONE]\n\n"), body[-100:])
        connection.close()
        leaving = http.client.HTTPSConnection("localhost", self.gateway.port, timeout=PATIENCE, context=self.trusting())
        leaving.request("POST", CHAT, json.dumps(chat(f"{self.id()} #hang")), {"Content-Type": "application/json"})
        self.mock.wait_for(lambda: self.mock.count("#hang") == 1)
        left = self.mock.left
        leaving.close()
        self.mock.wait_for(lambda: self.mock.left > left)

    def test_one_connection_takes_many_requests(self):
        connection = http.client.HTTPSConnection("localhost", self.gateway.port, timeout=PATIENCE, context=self.trusting())
        for n in range(5):
            connection.request("POST", CHAT, json.dumps(chat(f"{self.id()} {n}")), {"Content-Type": "application/json"})
            reply = connection.getresponse()
            self.assertEqual(reply.status, 200)
            reply.read()
        connection.close()

    def test_a_large_body(self):
        self.assertEqual(self.ask("x" * 3_000_000)[0], 200)

    def test_refuse_another_authority(self):
        with self.assertRaises(ssl.SSLCertVerificationError):
            self.ask(self.id(), self.trusting(self.theirs))

    def test_get_a_new_certificate_without_a_restart(self):
        before = self.serial()
        self.serve(*self.ours.sign("renewed", "DNS:localhost"))
        self.gateway.process.send_signal(signal.SIGHUP)
        self.gateway.wait_for(lambda: self.serial() != before, "the new certificate")
        renewed = self.serial()
        pathlib.Path(self.key).write_text("rubbish")
        self.gateway.process.send_signal(signal.SIGHUP)
        self.gateway.wait_for(lambda: any("private key" in line for line in self.gateway.said), "the log says why it is not used")
        self.assertEqual(self.serial(), renewed, "the old one holds")
        self.serve(*self.good)
        self.gateway.process.send_signal(signal.SIGHUP)
        self.gateway.wait_for(lambda: self.serial() == before, "the first certificate")

    def test_plain_http_is_told_to_use_https(self):
        reply = self.gateway.request("GET", "/health")
        self.assertEqual(reply.status, 400)
        self.assertIn("https://", reply.json["error"]["message"])

    def test_old_versions_are_refused(self):
        old = self.trusting()
        self.enterContext(warnings.catch_warnings(action="ignore"))
        old.minimum_version = ssl.TLSVersion.TLSv1
        old.maximum_version = ssl.TLSVersion.TLSv1_1
        old.set_ciphers("ALL:@SECLEVEL=0")
        with self.assertRaises((ssl.SSLError, ConnectionError)):
            self.ask(self.id(), old)

    def test_handshakes_that_never_end_delay_nobody(self):
        idle = [self.gateway.connect() for _ in range(50)]
        for n, one in enumerate(idle):
            one.sendall(b"\x16\x03\x01\x02\x00"[:n % 6])
        self.assertEqual(self.ask(self.id())[0], 200)
        for one in idle:
            one.settimeout(PATIENCE)
            try:
                while one.recv(4096):
                    pass
            except ConnectionError:
                pass
            one.close()
        self.assertEqual(self.ask(self.id())[0], 200)

    def test_rubbish_and_torn_handshakes(self):
        for rubbish in (b"\x00" * 5000, b"\x16\x03\x01\xff\xff" + b"x" * 70_000, b"\x16\x03\x01\x00\x05hello", os.urandom(3000)):
            with self.gateway.connect() as client:
                try:
                    client.sendall(rubbish)
                    client.shutdown(socket.SHUT_WR)
                    while client.recv(65536):
                        pass
                except OSError:  # it has closed the connection
                    pass
        self.assertEqual(self.ask(self.id())[0], 200)

    def test_pipelined_requests_and_a_body_that_dribbles(self):
        with self.trusting().wrap_socket(self.gateway.connect(), server_hostname="localhost") as client:
            body = json.dumps(chat(self.id())).encode()
            one = b"POST %s HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (CHAT.encode(), len(body), body)
            client.sendall(one + one)
            client.sendall(one[:20])
            for byte in one[20:]:
                client.sendall(bytes([byte]))
            got = b""
            while got.count(b"HTTP/1.1 200 OK") < 3 or not got.endswith(b"}"):
                got += client.recv(65536)

    def test_the_program_asks_the_admin_port_over_https(self):
        seen = subprocess.run([PROGRAM, "admin", "--server", f"https://localhost:{self.gateway.admin_port}", "stats"], capture_output=True, text=True,
                              timeout=PATIENCE, check=False, env={**os.environ, "SSL_CERT_FILE": self.ours.file})
        self.assertEqual((seen.returncode, seen.stderr), (0, ""))
        other = subprocess.run([PROGRAM, "admin", "--server", f"https://localhost:{self.gateway.admin_port}", "stats"], capture_output=True, text=True,
                               timeout=PATIENCE, check=False, env={**os.environ, "SSL_CERT_FILE": self.theirs.file})
        self.assertEqual(other.returncode, 1)
        self.assertIn("its certificate is not accepted", other.stderr)


class Start(TlsTestCase):
    def fails(self, settings, *words):
        with self.assertRaises(AssertionError) as ended:
            GatewayProcess(merged({"upstream": {"url": self.mock.url}}, settings))
        for word in words:
            self.assertIn(word, str(ended.exception))

    def test_says_which_file_cannot_be_used(self):
        self.fails({"listen": {"tls_certificate": "/absent.pem"}}, "listen.tls_certificate: /absent.pem")
        self.fails({"listen": {"tls_key": self.good[1]}}, "listen.tls_key: without listen.tls_certificate")
        self.fails({"listen": {"tls_certificate": self.good[0], "tls_key": self.ours.file.replace(".pem", ".key")}}, "does not belong")
        self.fails({"upstream": {"ca_file": self.good[1]}}, "upstream.ca_file: ")


class SecureModel:
    """The mock model behind TLS."""

    def __init__(self, certificate, key):
        self.mock = MockModel()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self.mock.server.socket = context.wrap_socket(self.mock.server.socket, server_side=True, do_handshake_on_connect=False)
        self.port = self.mock.port

    def __enter__(self):
        self.mock.__enter__()
        return self

    def __exit__(self, *_):
        self.mock.stop()


class Upstreams(TlsTestCase):
    def asked(self, certificate, host="localhost", ca=None, fleet=False, environment=None):
        """The reply to a request behind an upstream with this certificate, and the upstream's calls."""
        with SecureModel(*certificate) as model:
            url = f"https://{host}:{model.port}"
            upstream = {"replicas": [url]} if fleet else {"url": url}
            if ca:
                upstream["ca_file"] = ca
            with GatewayProcess({"upstream": upstream}, environment=environment) as gateway:
                return gateway.ask(self.id()), [call for call in model.mock.calls if call[1] == CHAT]

    def test_are_verified(self):
        for fleet in (False, True):
            reply, calls = self.asked(self.good, ca=self.ours.file, fleet=fleet)
            self.assertEqual((reply.status, len(calls)), (200, 1), reply.body)
        reply, calls = self.asked(self.good, host="127.0.0.1", ca=self.ours.file)
        self.assertEqual((reply.status, len(calls)), (200, 1), reply.body)

    def test_the_systems_authorities_hold_without_a_file(self):
        reply, _ = self.asked(self.good, environment={"SSL_CERT_FILE": self.ours.file})
        self.assertEqual(reply.status, 200, reply.body)
        reply, _ = self.asked(self.good, ca=self.theirs.file, environment={"SSL_CERT_FILE": self.ours.file})
        self.assert_error(reply, 502, "upstream_failed")

    def test_with_a_wrong_name_an_expired_certificate_or_another_authority_get_no_request(self):
        cases = ((self.ours.sign("elsewhere", "DNS:elsewhere.example"), "hostname mismatch"), (self.ours.sign("expired", "DNS:localhost", EXPIRED), "certificate has expired"),
                 (self.theirs.sign("unknown", "DNS:localhost"), "unable to get local issuer certificate"))
        for certificate, why in cases:
            reply, calls = self.asked(certificate, ca=self.ours.file)
            error = self.assert_error(reply, 502, "upstream_failed")
            self.assertIn("its certificate is not accepted: " + why, error["message"])
            self.assertEqual(calls, [])

    def test_that_speak_plain_http_are_an_error(self):
        with GatewayProcess({"upstream": {"url": self.mock.url.replace("http://127.0.0.1", "https://localhost"), "ca_file": self.ours.file}}) as gateway:
            self.assertIn("TLS", self.assert_error(gateway.ask(self.id()), 502, "upstream_failed")["message"])


if __name__ == "__main__":
    unittest.main()

"""A real homeserver on loopback: Synapse on SQLite, without federation, ended by its own process id."""

import json
import secrets
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

SERVER_NAME = "hs.test"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Synapse:
    """Starts with the application service at `service_url`, and ends with the block."""

    def __init__(self, folder, service_url):
        self.folder, self.port = folder, free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.as_token, self.hs_token = f"as_{secrets.token_hex(16)}", f"hs_{secrets.token_hex(16)}"
        self._secret = secrets.token_hex(16)
        registration = {
            "id": "posthouse", "url": service_url, "as_token": self.as_token, "hs_token": self.hs_token,
            "sender_localpart": "posty", "rate_limited": False,
            "namespaces": {"users": [{"exclusive": True, "regex": "@posty:hs\\.test"}]},
        }
        config = {
            "server_name": SERVER_NAME, "public_baseurl": self.url, "report_stats": False,
            "pid_file": str(folder / "synapse.pid"), "signing_key_path": str(folder / "signing.key"),
            "media_store_path": str(folder / "media"), "macaroon_secret_key": secrets.token_hex(16),
            "registration_shared_secret": self._secret, "trusted_key_servers": [],
            "federation_domain_whitelist": [], "url_preview_enabled": False,
            "database": {"name": "sqlite3", "args": {"database": str(folder / "homeserver.db")}},
            "listeners": [{
                "port": self.port, "type": "http", "bind_addresses": ["127.0.0.1"],
                "resources": [{"names": ["client"]}],
            }],
            "app_service_config_files": [str(folder / "registration.yaml")],
            "log_config": str(folder / "log.yaml"),
        }
        log = {
            "version": 1, "disable_existing_loggers": False,
            "handlers": {"file": {"class": "logging.FileHandler", "filename": str(folder / "synapse.log")}},
            "root": {"level": "INFO", "handlers": ["file"]},
        }
        # JSON is YAML too.
        for name, content in [("registration", registration), ("homeserver", config), ("log", log)]:
            (folder / f"{name}.yaml").write_text(json.dumps(content))

    def __enter__(self):
        config = str(self.folder / "homeserver.yaml")
        command = [sys.executable, "-m", "synapse.app.homeserver", "-c", config]
        subprocess.run([*command, "--generate-keys"], check=True, capture_output=True, cwd=self.folder)
        self._output = (self.folder / "output.log").open("w")
        self._process = subprocess.Popen(command, stdout=self._output, stderr=self._output, cwd=self.folder)
        end = time.monotonic() + 120
        while True:
            try:
                self.call("GET", "/_matrix/client/versions")
                return self
            except (urllib.error.URLError, ConnectionError):
                if self._process.poll() is not None or time.monotonic() > end:
                    self.__exit__()
                    raise AssertionError((self.folder / "output.log").read_text()) from None
                time.sleep(0.1)

    def __exit__(self, *_):
        self._process.terminate()
        self._process.wait(60)
        self._output.close()

    def call(self, method, path, body=None, token=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, method=method)
        if token:
            request.add_header("Authorization", f"Bearer {token}")
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=60) as answer:
            return json.load(answer)

    def make_user(self, name):
        """Registers a person by the shared secret. Returns the user id and an access token."""
        import hashlib
        import hmac

        path = "/_synapse/admin/v1/register"
        nonce, password = self.call("GET", path)["nonce"], secrets.token_hex(8)
        text = "\0".join([nonce, name, password, "notadmin"])
        mac = hmac.new(self._secret.encode(), text.encode(), hashlib.sha1).hexdigest()
        made = self.call("POST", path, {
            "nonce": nonce, "username": name, "password": password, "admin": False, "mac": mac,
        })
        return made["user_id"], made["access_token"]

"""An identity provider whose token endpoint asks for no credential, as machines of some clouds have one on loopback."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any, Mapping

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from loopback import Answer, Loopback

AUDIENCE = "posthouse"


@dataclass
class TokenRequest:
    method: str
    headers: Mapping[str, str]
    body: bytes


class AmbientIssuer(Loopback):
    """Gives out tokens for `tenant`: the bare token, or JSON with `access_token` if `enveloped`."""

    def __init__(self) -> None:
        super().__init__()
        self.tenant = ""
        self.enveloped = False
        self.asked: list[TokenRequest] = []
        self._published = self._key()
        self.signs_with = self._published

    @staticmethod
    def _key() -> rsa.RSAPrivateKey:
        return rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def forge(self) -> None:
        """From now on it signs with a key that it does not publish."""
        self.signs_with = self._key()

    def be_honest(self) -> None:
        self.signs_with = self._published

    @property
    def token_url(self) -> str:
        return f"{self.url}/access-token"

    def settings(self) -> str:
        """Its table in `posthouse.toml`."""
        return "\n".join([
            "", "[[identity.issuers]]", 'issuer = "https://login.example"', f'audience = "{AUDIENCE}"',
            f'jwks_url = "{self.url}/keys"', ""])

    def token(self) -> str:
        now = int(time.time())
        claims = {"iss": "https://login.example", "aud": AUDIENCE, "iat": now, "exp": now + 600, "tid": self.tenant}
        return jwt.encode(claims, self.signs_with, algorithm="RS256", headers={"kid": "k1"})

    def answer(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        if path == "/keys":
            public: dict[str, Any] = json.loads(RSAAlgorithm.to_jwk(self._published.public_key()))
            return Answer(200, json.dumps({"keys": [public | {"kid": "k1", "use": "sig", "alg": "RS256"}]}))
        if path != "/access-token":
            return Answer(404)
        with self.changed:
            self.asked.append(TokenRequest(method, headers, body))
        if self.enveloped:
            return Answer(200, json.dumps({"access_token": self.token(), "token_type": "Bearer", "expires_in": 600}))
        return Answer(200, self.token(), kind="text/plain")

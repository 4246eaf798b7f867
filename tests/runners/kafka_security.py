"""A listener of a Kafka broker with TLS and a password, for tests."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

USER, PASSWORD = "weir", "correct-horse-battery"
LISTENER = "SECURED"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


def certificate(folder: Path) -> Path:
    """Makes a certificate of 127.0.0.1 that signs itself; returns the PEM that clients trust."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=2))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    public = signed.public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    trusted = folder / "ca.pem"
    trusted.write_bytes(public)
    (folder / "broker.pem").write_bytes(private + public)
    return trusted


def settings(folder: Path) -> dict[str, str]:
    """Of a broker, for the listener ``LISTENER`` of the protocol SASL_SSL."""
    certificate(folder)
    at = f"listener.name.{LISTENER.lower()}"
    return {
        f"{at}.ssl.keystore.type": "PEM",
        f"{at}.ssl.keystore.location": str(folder / "broker.pem"),
        f"{at}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        f"{at}.scram-sha-512.sasl.jaas.config": f"{SCRAM} required;",
        f"{at}.plain.sasl.jaas.config": f'{PLAIN} required user_{USER}="{PASSWORD}";',
    }


def add_user(address: str) -> None:
    """Gives the user the password for SCRAM, which a broker keeps with its records."""
    scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    user = UserScramCredentialUpsertion(USER, scram, PASSWORD.encode())
    admin = AdminClient({"bootstrap.servers": address})
    admin.alter_user_scram_credentials([user])[USER].result()

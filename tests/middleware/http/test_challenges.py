"""Challenges: every value of every header, raw and parsed."""

from __future__ import annotations

import pytest

from readmit.http._challenges import challenged, met

WWW, PROXY = b"WWW-Authenticate", b"Proxy-Authenticate"


def test_several_headers_and_several_in_one() -> None:
    found = met(
        401,
        [
            (WWW, b'Bearer realm="a, b", scope="read write", Basic realm="c"'),
            (b"Content-Type", b"text/plain"),
            (WWW.lower(), b"Negotiate a87421bff012e83c=="),
            (PROXY, b"Digest realm=x, nonce=y"),
        ],
    )
    assert [(c.scheme, c.header) for c in found] == [
        ("Bearer", "www-authenticate"),
        ("Basic", "www-authenticate"),
        ("Negotiate", "www-authenticate"),
        ("Digest", "proxy-authenticate"),
    ]
    assert dict(found[0].parameters) == {"realm": "a, b", "scope": "read write"}
    assert found[2].parameters == (("token68", "a87421bff012e83c=="),)
    assert found[0].raw == found[1].raw == 'Bearer realm="a, b", scope="read write", Basic realm="c"'


@pytest.mark.parametrize(
    ("raw", "schemes"),
    [
        ("Bearer", ["Bearer"]),
        ('bearer realm=a , scope = "x"', ["bearer"]),
        (', Basic realm="a", , Bearer', ["Basic", "Bearer"]),
        (r'Digest realm="a \"b\", c", nonce=n, Basic realm=d', ["Digest", "Basic"]),
        ('Negotiate, NTLM, Basic realm=""', ["Negotiate", "NTLM", "Basic"]),
        (
            'Bearer error="insufficient_scope", scope="a b", resource_metadata="https://r/.well-known/x?a=b,c"',
            ["Bearer"],
        ),
        ("Custom AbC==, Basic realm=x", ["Custom", "Basic"]),
    ],
)
@pytest.mark.parametrize("header", [WWW, PROXY])
def test_every_form_of_the_header(raw: str, schemes: list[str], header: bytes) -> None:
    found = met(407 if header == PROXY else 401, [(header, raw.encode())])
    assert [c.scheme.lower() for c in found] == [s.lower() for s in schemes]
    assert {c.raw for c in found} == {raw}, "whatever was read of it, what came is kept"
    assert {c.header for c in found} == {header.decode().lower()}


def test_where_to_sign_in_is_kept() -> None:
    raw = b'Bearer error="insufficient_scope", scope="a b", resource_metadata="https://r/.well-known/x?a=b,c"'
    (found,) = met(403, [(WWW, raw)])
    assert dict(found.parameters) == {
        "error": "insufficient_scope",
        "scope": "a b",
        "resource_metadata": "https://r/.well-known/x?a=b,c",
    }


@pytest.mark.parametrize("raw", [b"", b"===", b'"', b"\xff\xfe"])
def test_what_cannot_be_read_is_kept(raw: bytes) -> None:
    (found,) = met(401, [(WWW, raw)])
    assert (found.raw, found.scheme, found.parameters) == (raw.decode("latin-1"), "", ())


@pytest.mark.parametrize("status", [401, 403, 407])
def test_a_challenge_without_a_header(status: int) -> None:
    (found,) = met(status, [])
    assert (found.raw, found.scheme, found.header) == (f"HTTP {status}", "", "")
    assert challenged(status, [])


def test_what_is_none() -> None:
    assert met(200, [(WWW, b"Basic realm=a")]) == ()
    assert met(500, []) == ()
    assert not challenged(200, [(WWW, b"Basic realm=a")])
    assert not challenged(422, [])


def test_another_status_with_a_challenge() -> None:
    (found,) = met(400, [(WWW, b'Bearer error="invalid_request"')])
    assert found.scheme == "Bearer"
    assert challenged(400, [(WWW, b'Bearer error="invalid_request"')])

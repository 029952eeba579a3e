"""Signatures of S3 requests, against the example of their documentation."""

from __future__ import annotations

from app.protocols.aws_signature import S3Credentials, quote_path, sign_s3_request

CREDENTIALS = S3Credentials("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "us-east-1")
"""Those of "Authenticating Requests: Using the Authorization Header", example "GET Object"."""

HOST, MOMENT = "examplebucket.s3.amazonaws.com", "20130524T000000Z"


def signed(**headers: str) -> dict[str, str]:
    return sign_s3_request(CREDENTIALS, "GET", HOST, "/test.txt", b"", moment=MOMENT, headers=headers)


def test_the_documented_example_is_signed_as_documented() -> None:
    headers = signed(range="bytes=0-9")
    assert headers["authorization"] == (
        "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
        "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, "
        "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
    )
    assert headers["x-amz-date"] == MOMENT
    assert "host" not in headers, "the client adds it"


def test_blanks_within_a_header_are_signed_as_one() -> None:
    assert signed(range=" bytes=0-9  x ")["authorization"] == signed(range="bytes=0-9 x")["authorization"]


def test_a_secret_is_not_shown_with_its_credentials() -> None:
    assert "wJalrXUtnFEMI" not in repr(CREDENTIALS)
    assert "AKIAIOSFODNN7EXAMPLE" in repr(CREDENTIALS)


def test_a_path_is_quoted_part_by_part_with_its_slashes_kept() -> None:
    assert quote_path("bucket", "2013/05/a b+c~ä.json") == "/bucket/2013/05/a%20b%2Bc~%C3%A4.json"

"""What is concluded from obstore's exceptions, and what of them is printed."""

import pytest
from obstore.exceptions import (
    AlreadyExistsError,
    GenericError,
    NotSupportedError,
    PermissionDeniedError,
    PreconditionError,
)

from tensorlake.errors import (
    AccessError,
    StorageError,
    StorageTimeoutError,
    UnsupportedStoreError,
)
from tensorlake.storage.api.failures import Failure, FailureKind, translate, understand


def answered(status: int) -> str:
    return f"Generic S3 error: Error performing PUT http://h/b/k in 1ms - status code: {status} No"


def transport(kind: str) -> str:
    return f"Generic S3 error: error sending request\n\nDebug source:\nHttpError {{ kind: {kind} }}"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (FileNotFoundError(answered(404)), FailureKind.MISSING),
        (AlreadyExistsError(answered(412)), FailureKind.EXISTS),
        (AlreadyExistsError("already exists"), FailureKind.EXISTS),
        (PreconditionError("changed"), FailureKind.EXISTS),
        (AlreadyExistsError(answered(409)), FailureKind.TRANSIENT),
        (PermissionDeniedError(answered(403)), FailureKind.DENIED),
        (GenericError(answered(401)), FailureKind.DENIED),
        (GenericError(answered(416)), FailureKind.OUT_OF_RANGE),
        (GenericError(answered(400)), FailureKind.REFUSED),
        (GenericError(answered(429)), FailureKind.TRANSIENT),
        (GenericError(answered(500)), FailureKind.TRANSIENT),
        (GenericError(answered(503)), FailureKind.TRANSIENT),
        (GenericError(transport("Timeout")), FailureKind.TIMEOUT),
        (GenericError(transport("Connect")), FailureKind.UNREACHABLE),
        (GenericError(transport("Interrupted")), FailureKind.TRANSIENT),
        (NotSupportedError("ranges"), FailureKind.UNSUPPORTED),
        (NotImplementedError("create"), FailureKind.UNSUPPORTED),
        (ValueError("range"), FailureKind.REFUSED),
    ],
)
def test_exception_is_understood(error, kind):
    assert understand(error).kind is kind


def test_status_inside_the_debug_text_is_not_the_answers():
    error = GenericError("error sending request\n\nDebug source:\nstatus code: 404")

    assert understand(error).status is None


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        (FailureKind.DENIED, AccessError),
        (FailureKind.TIMEOUT, StorageTimeoutError),
        (FailureKind.UNREACHABLE, StorageError),
        (FailureKind.UNSUPPORTED, UnsupportedStoreError),
        (FailureKind.TRANSIENT, StorageError),
        (FailureKind.REFUSED, StorageError),
    ],
)
def test_failure_is_an_error_of_ours_that_says_what_and_where(kind, error):
    raised = translate(Failure(kind, "detail"), verb="read", path="a/b", url="s3://bucket/lake")

    assert type(raised) is error
    assert "read object 'a/b' of 's3://bucket/lake'" in str(raised)
    assert "\n" in str(raised)


@pytest.mark.parametrize("code", ["NoSuchBucket", "ContainerNotFound"])
def test_a_bucket_that_is_not_there_is_named(code):
    error = FileNotFoundError(f"Object at location a/b not found - status code: 404: <{code}>")

    raised = translate(understand(error), verb="write", path="a/b", url="s3://photos/lake")

    assert type(raised) is StorageError
    assert "no bucket 'photos'" in str(raised)


@pytest.mark.parametrize("user", ["ana:hunter2@", "hunter2@", "ana:hun@ter2@"])
def test_user_and_password_of_a_url_are_not_printed(user):
    error = GenericError(f"Error performing GET http://{user}host:1/x/y@z in 1 ms - HTTP")

    detail = understand(error).detail

    assert detail == "Error performing GET http://host:1/x/y@z in 1 ms - HTTP"


def test_secrets_and_query_strings_are_not_printed():
    error = GenericError(
        "Error performing GET https://h/b?sig=SIGNED&x=1 - status code: 400: key SECRET\n\n"
        "Debug source:\nSECRET"
    )

    detail = understand(error, secrets=["SECRET"]).detail

    assert "SECRET" not in detail
    assert "SIGNED" not in detail


def test_long_answers_are_cut():
    assert len(understand(GenericError("x" * 10_000)).detail) < 400

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""The library's closed list of error codes, as exceptions.

A cache miss is a normal result, not an error. `error.code` is the word that logs and JSON use.
"""

from __future__ import annotations

from typing import ClassVar


class Error(Exception):
    """Base class of all errors of this package."""

    code: ClassVar[str] = ""


class InvalidArgument(Error, ValueError):
    """The call or its input is wrong; the same call fails again."""

    code = "invalid_argument"


class NotFound(Error, LookupError):
    """The named file or id does not exist."""

    code = "not_found"


class LimitExceeded(Error, ValueError):
    """The input exceeds a limit that protects this process."""

    code = "limit_exceeded"


class NoSpace(Error):
    """The budget is full, and every entry in it is in use."""

    code = "no_space"


class Corruption(Error):
    """Data is damaged, or is not in the format it claims."""

    code = "corruption"


class Unavailable(Error, OSError):
    """A file, a device or a server cannot be used."""

    code = "unavailable"


class Timeout(Unavailable, TimeoutError):
    """A server did not answer in time."""

    code = "timeout"


class Cancelled(Error):
    """The caller, or the caller it was waiting for, cancelled."""

    code = "cancelled"


class Unsupported(Error, NotImplementedError):
    """Well-formed, but this build or engine does not support it."""

    code = "unsupported"


BY_CODE: dict[str, type[Error]] = {
    kind.code: kind
    for kind in (InvalidArgument, NotFound, LimitExceeded, NoSpace, Corruption, Unavailable, Timeout, Cancelled, Unsupported)
}

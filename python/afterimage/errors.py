# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Why a call could not do its work: the closed list of the C++ library, as exceptions.

A cache miss is a normal answer and never an error. `error.code` is the same word that logs and JSON use.
"""

from __future__ import annotations

from typing import ClassVar


class Error(Exception):
    """What all of them have in common."""

    code: ClassVar[str] = ""


class InvalidArgument(Error, ValueError):
    """The call or its input is wrong; the same call fails again."""

    code = "invalid_argument"


class NotFound(Error, LookupError):
    """A file or id that was named does not exist."""

    code = "not_found"


class LimitExceeded(Error, ValueError):
    """Larger than a limit that protects this process."""

    code = "limit_exceeded"


class NoSpace(Error):
    """The budget holds, and everything in it is in use."""

    code = "no_space"


class Corruption(Error):
    """Bytes are not what they were when they were written, or not what they claim."""

    code = "corruption"


class Unavailable(Error, OSError):
    """The outside world refused: a file that cannot be read or written, a device."""

    code = "unavailable"


class Cancelled(Error):
    """The caller, or whoever the caller was waiting for, gave up."""

    code = "cancelled"


class Unsupported(Error, NotImplementedError):
    """Well-formed, but this build or engine does not do it."""

    code = "unsupported"


BY_CODE: dict[str, type[Error]] = {
    kind.code: kind
    for kind in (InvalidArgument, NotFound, LimitExceeded, NoSpace, Corruption, Unavailable, Cancelled, Unsupported)
}

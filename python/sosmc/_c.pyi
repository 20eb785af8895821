"""The extension module: what cffi makes of the library's headers."""

from typing import Any

ffi: Any
lib: Any

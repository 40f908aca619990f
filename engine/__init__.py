"""Text in, PCM frames out. Knows no sockets and no HTTP."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("kokoro-live")
except PackageNotFoundError:  # run from a checkout: the packages are not installed
    __version__ = "0.1.0"

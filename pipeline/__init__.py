"""staract: small agents from a large teacher's trajectories."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("staract")
except PackageNotFoundError:  # a source tree that was never installed
    __version__ = "0.0.0"

"""The configuration file and the environment, validated as a whole."""

from app.config.loading import build_settings, load_settings
from app.config.settings import Settings

__all__ = ["Settings", "build_settings", "load_settings"]

"""Renderers by the name that a recipe gives."""

from __future__ import annotations

from pipeline.errors import RecipeError
from pipeline.rendering.base import Renderer
from pipeline.rendering.chat import ChatRenderer
from pipeline.rendering.text import TextRenderer
from pipeline.rendering.tools import ToolsRenderer

_RENDERERS: dict[str, type[TextRenderer] | type[ChatRenderer] | type[ToolsRenderer]] = {
    "text": TextRenderer,
    "chat": ChatRenderer,
    "tools": ToolsRenderer,
}


def load_renderer(name: str) -> Renderer:
    """The renderer of that name.

    Raises:
        RecipeError: there is none.
    """
    if name not in _RENDERERS:
        raise RecipeError(f"there is no renderer {name!r}; known are: {', '.join(sorted(_RENDERERS))}")
    return _RENDERERS[name]()

"""Nested containers of arrays: parameters are nested dicts, results may also contain lists and tuples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def map_leaves(function: Callable, tree: Any) -> Any:
    """``tree`` rebuilt with ``function`` applied to what is not a dict, list or tuple."""
    if isinstance(tree, dict):
        return {key: map_leaves(function, value) for key, value in tree.items()}
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(map_leaves(function, value) for value in tree))
    if isinstance(tree, (list, tuple)):
        return type(tree)(map_leaves(function, value) for value in tree)
    return function(tree)


def map_named_leaves(function: Callable, tree: Any, name: str) -> Any:
    """``function(name, leaf)`` for nested dicts only, with names such as ``params['ffn']['W_in']``."""
    if isinstance(tree, dict):
        return {k: map_named_leaves(function, v, f"{name}[{k!r}]") for k, v in tree.items()}
    return function(name, tree)

"""Counts that the suite prints when it ends: how much was checked, and how close it came."""

from __future__ import annotations

import json
from collections import defaultdict

gradient_checks: dict[str, list[float]] = defaultdict(list)  # op -> relative error of each check
scan_cases: set[str] = set()  # case and form: recurrences compared with the loop
notes: list[str] = []  # other figures worth a line


def as_json() -> str:
    return json.dumps([gradient_checks, sorted(scan_cases), notes])


def add(found: str) -> None:
    """What another process has counted."""
    checks, cases, lines = json.loads(found)
    for op, errors in checks.items():
        gradient_checks[op] += errors
    scan_cases.update(cases)
    notes.extend(lines)


def summary() -> list[str]:
    lines = list(notes)
    if scan_cases:
        lines.append(f"recurrences: {len(scan_cases)} distinct cases compared with the loop, values and all gradients")
    return lines + _gradient_summary()


def _gradient_summary() -> list[str]:
    if not gradient_checks:
        return []
    total = sum(len(errors) for errors in gradient_checks.values())
    fewest = min(gradient_checks, key=lambda op: len(gradient_checks[op]))
    worst = max(gradient_checks, key=lambda op: max(gradient_checks[op]))
    return [
        f"gradient checks: {total} over {len(gradient_checks)} ops; fewest {len(gradient_checks[fewest])} ({fewest}); "
        f"largest relative error {max(gradient_checks[worst]):.1e} ({worst})"
    ]

"""Groups on Mosquitto: each broker deals a shared subscription on its own, so its members belong at one broker."""

from __future__ import annotations

from collections.abc import Mapping

from overlace.errors import BadPlan
from overlace.live.adapter import Shown


def refuse_split(shown: Shown, homes: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Refused if the members of a group would be at more brokers than they are: each would deal the messages again."""
    members: dict[tuple[str, str], set[str]] = {}
    for name, seen in shown.clients.items():
        for topic, group in seen.filters:
            if group is not None:
                members.setdefault((group, topic), set()).add(name)
    for (group, topic), names in sorted(members.items()):
        now, then = (sorted({where[name] for name in names}) for where in (homes, after))
        if len(then) > len(now):
            first = min(name for name in names if after[name] != homes[name])
            raise BadPlan(
                f"group {group!r} of {topic!r} is at {', '.join(now)}, and the plan has it at {', '.join(then)}: every "
                f"Mosquitto deals a group on its own, so messages would come more than once. Plan again from a new "
                f"recording, which keeps groups where they are, or with --keep {first!r}."
            )

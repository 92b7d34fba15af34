"""The user of clients without the wrapper: in one account, and never in one that takes no clients (L5)."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlace.errors import BadNetwork
from overlace.live import nats_files
from overlace.live.deployment import check_deployment

ROLES = ("clients", "control", "links", "system", "plain")


def deployment_in(folder, monkeypatch, **more):
    for role in ROLES:
        monkeypatch.setenv(f"SECRET_{role}", f"secret of {role}")
    document = {
        "substrate": "nats",
        "credentials": {role: {"user": role, "password_env": f"SECRET_{role}"} for role in ROLES},
        "brokers": {name: {"client": "127.0.0.1:4222", "links": "127.0.0.1:7422"} for name in ("hub-1", "hub-2")},
    }
    return check_deployment({**document, **more}, folder / "network.toml")


def accounts_with(text, user):
    """The accounts that a configuration has this user in."""
    return [name for name, users in re.findall(r'"(\w+)" \{\s+users: \[(.*?)\n    \]', text, re.S)
            if f'user: "{user}"' in users]  # fmt: skip


@pytest.fixture
def deployment(tmp_path, monkeypatch):
    return deployment_in(tmp_path, monkeypatch)


def test_the_plain_user_is_in_one_account_that_takes_clients(deployment):
    @given(st.sets(st.integers(0, 1), min_size=1), st.none() | st.integers(0, 1), st.integers(0, 1))
    def law(takes, first, second):
        plain = {"hub-2": second} if first is None else {"hub-1": first, "hub-2": second}
        files = nats_files.broker_files(deployment, {}, takes, plain=plain)
        for broker in deployment.brokers:
            text = files[nats_files.names_of(broker)["accounts"]]
            (account,) = accounts_with(text, "plain")
            colour = deployment.colours.index(account)
            assert colour in takes
            if plain.get(broker) in takes:
                assert colour == plain[broker]
            taking = [deployment.colours[c] for c in sorted(takes)]
            assert [name for c in ("BLUE", "GREEN") for name in accounts_with(text, f"clients-{c}")] == taking

    law()


def test_it_has_no_colour_and_the_rights_of_clients(deployment):
    assert deployment.login("plain", 1) == deployment.login("plain", 0) == ("plain", "secret of plain", None, None)
    text = nats_files.accounts_text(deployment, {0})
    (line,) = [line for line in text.splitlines() if 'user: "plain"' in line]
    assert 'publish: { deny: "_OVERLACE.ctl.>" }' in line
    assert "plain" not in nats_files.accounts_text(
        deployment.model_copy(update={"credentials": deployment.credentials.model_copy(update={"plain": None})}), {0}
    )


@pytest.mark.parametrize(
    "wrong", [{"substrate": "mosquitto"}, {"credentials": {"plain": {"creds": "a.creds"}}}], ids=["mosquitto", "creds"]
)
def test_where_it_cannot_be_moved_it_is_refused(tmp_path, monkeypatch, wrong):
    with pytest.raises(BadNetwork, match="credentials.plain: expected on NATS only, with a password or an nkey"):
        deployment_in(tmp_path, monkeypatch, **wrong)

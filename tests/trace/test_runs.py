from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from overlace.errors import BadTrace
from overlace.model import Network, Observation, Offers, Overlay, Requests
from overlace.testing import small_observations
from overlace.trace.runs import read_json, read_observation, whole_folder, write_json, write_observation
from tests.strategies import observations


@pytest.mark.parametrize("name", small_observations())
def test_what_was_written_is_read_again(name, tmp_path):
    observation = small_observations()[name]
    names = {"broker": ["oslo", "rome"], "client": []}
    write_observation(tmp_path, observation, names)
    again, called = read_observation(tmp_path)
    assert again == observation
    assert called == {"broker": ["oslo", "rome"]}


@settings(max_examples=15)
@given(observations())
def test_any_observation_is_read_again(tmp_path_factory, observation):
    folder = tmp_path_factory.mktemp("run")
    write_observation(folder, observation)
    assert read_observation(folder)[0] == observation


def test_every_field_survives(tmp_path):
    observation = Observation(
        window=(5, 2**60),
        overlay=Overlay(placement=[[0, 1]], channels=[[2**62, 2**61]], mesh=[[0, 3]]),
        network=Network(
            region=[-1, 4], broker_cost=[0.1, 2], capacity=[1, np.inf], max_degree=[3, 4], links=[[0, 1]],
            link_cost=[0.3], latency_us=[7], client_region=[1, 0, 2, 1], access_cost=[[0.5, 1], [2, 3], [4, 5]],
            access_latency_us=[[1, 2], [3, 4], [5, 6]],
        ),
        offers=Offers([1], [5], [2], [9]),
        requests=Requests([2], [4]),
        topics=12,
        sent=[1, 2, 3, 4],
        sent_bytes=[5, 6, 7, 8],
    )  # fmt: skip
    write_observation(tmp_path, observation)
    assert read_observation(tmp_path)[0] == observation


def test_nothing_is_overwritten_unless_forced(tmp_path):
    first, second = small_observations()["square"], small_observations()["equal costs"]
    write_observation(tmp_path, first)
    with pytest.raises(BadTrace, match="is there already"):
        write_observation(tmp_path, second)
    assert read_observation(tmp_path)[0] == first
    write_observation(tmp_path, second, force=True)
    assert read_observation(tmp_path)[0] == second
    assert [p.name for p in tmp_path.iterdir()] == ["observation"]


def test_a_write_that_fails_leaves_what_was_there(tmp_path):
    write_observation(tmp_path, small_observations()["square"])
    with (
        pytest.raises(IsADirectoryError),
        whole_folder(tmp_path / "observation", "observation.json", force=True) as beside,
    ):
        beside.write_text("a folder is no file")
    assert read_observation(tmp_path)[0] == small_observations()["square"]
    assert [p.name for p in tmp_path.iterdir()] == ["observation"]


def test_force_replaces_only_what_is_of_its_kind(tmp_path):
    precious = tmp_path / "observation"
    precious.mkdir()
    (precious / "thesis.txt").write_text("years of work")
    with pytest.raises(BadTrace, match="holds no observation.json"):
        write_observation(tmp_path, small_observations()["square"], force=True)
    assert (precious / "thesis.txt").exists()


def test_a_run_that_is_not_whole_or_was_altered_is_refused(tmp_path):
    with pytest.raises(BadTrace, match="holds no observation"):
        read_observation(tmp_path)
    write_observation(tmp_path, small_observations()["square"])
    (tmp_path / "observation/classes.parquet").rename(tmp_path / "kept")
    with pytest.raises(BadTrace, match="is not whole: .*classes.parquet"):
        read_observation(tmp_path)
    (tmp_path / "kept").rename(tmp_path / "observation/classes.parquet")
    other = tmp_path / "other"
    write_observation(other, replace(small_observations()["square"], window=(0, 9)))
    for gone in ("names.parquet", "observation.json"):
        write_observation(tmp_path / gone, small_observations()["square"])
        (tmp_path / gone / "observation" / gone).unlink()
        with pytest.raises(BadTrace, match=gone):
            read_observation(tmp_path / gone)
    about = read_json(other / "observation/observation.json")
    write_json(tmp_path / "observation/observation.json", {**about, "schema_version": 1})
    with pytest.raises(BadTrace, match=f"overlace observe TRACE --out {tmp_path} --force"):
        read_observation(tmp_path)
    write_json(tmp_path / "observation/observation.json", {**about, "window": [0, 1]})
    with pytest.raises(BadTrace, match="was changed since"):
        read_observation(tmp_path)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "cannot be read as JSON"),
        ("[]", "expected a JSON object"),
        ('{"schema_version": 99}', "Update Overlace"),
        ('{"schema_version": 1}', "overlace observe TRACE --out .* --force"),
    ],
)
def test_json_that_cannot_be_used_is_told_why(tmp_path, text, says):
    path = tmp_path / "run.json"
    path.write_text(text)
    with pytest.raises(BadTrace, match=says):
        read_json(path)
    with pytest.raises(BadTrace, match="does not exist"):
        read_json(tmp_path / "none.json")

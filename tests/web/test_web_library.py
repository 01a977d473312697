"""The library: which weights are there, loaded once, and what is said of those that are not."""

from __future__ import annotations

import threading

import pytest
from fastapi.testclient import TestClient
from web_toys import SPEC, load_toy
from web_weights import import_cart, save_length, save_planner

import vhdiffuser
from vhdiffuser.envs.registry import environments, get_environment
from vhdiffuser.errors import UnknownNameError
from vhdiffuser.web import planning
from vhdiffuser.web.app import create_app
from vhdiffuser.web.library import Entry, Library, Missing
from vhdiffuser.web.limits import NotReady
from vhdiffuser.web.requests import PlanRequest
from vhdiffuser.web.scene import checked_instance


def test_weights_are_found_as_they_appear_and_used(vhd_home):
    library = Library.of_weights("trained")
    commands = {name: missing.to_plan for name, missing in library.listing()}
    assert list(commands) == list(environments())
    assert commands[SPEC.name] == ("vhd train planner maze2d-umaze", "vhd train length maze2d-umaze")
    with pytest.raises(NotReady, match="`vhd train planner maze2d-umaze` and `vhd train length"):
        library.get(SPEC.name)
    save_planner("vhd")
    save_planner("fh-64", horizon=64)
    save_length()
    assert dict(library.listing())[SPEC.name] == Missing()
    loaded = library.get(SPEC.name)
    assert sorted(loaded.fixed) == [64]
    assert loaded.fixed[64].config.horizon == 64
    assert library.if_loaded(SPEC.name) is loaded
    request = PlanRequest(environment=SPEC.name, start=[1, 1], goal=[3, 1])
    horizon = planning.horizon(loaded, request, checked_instance(loaded, [1, 1], [3, 1]))
    assert horizon.low <= horizon.length <= horizon.high
    assert horizon.quantile_spread is not None
    assert horizon.quantile_spread >= 0


def test_a_learned_controller_may_be_missing():
    missing = dict(Library.of_weights("trained").listing())["cube"]
    assert missing.to_execute == ("vhd train dynamics cube",)


def test_a_simulator_that_is_not_installed_is_named_with_its_command(monkeypatch):
    monkeypatch.setattr("vhdiffuser.envs.environment.find_spec", lambda name: None)
    library = Library.of_weights("shipped")
    lacking = {name: missing.to_plan for name, missing in library.listing() if missing.to_plan}
    command = "pip install 'vhdiffuser[ogbench]'"
    assert {name for name, commands in lacking.items() if command in commands} == {
        name for name, environment in environments().items() if environment.extra == "ogbench"
    }
    assert lacking["antmaze-medium"] == lacking["cube"] == (command,)
    with pytest.raises(NotReady, match=r"cube is not ready: run `pip install 'vhdiffuser\[ogbench\]'`"):
        library.get("cube")


def test_unknown_names_list_the_known():
    with pytest.raises(UnknownNameError, match="maze2d-umaze"):
        Library.of_weights("trained").get("maze3d")


def test_two_visitors_load_once():
    loads = []

    def load():
        loads.append(1)
        return load_toy()

    library = Library([Entry(SPEC.name, Missing, load)])
    threads = [threading.Thread(target=library.get, args=(SPEC.name,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(loads) == 1


def test_simulators_are_lent_to_one_at_a_time_and_reused():
    pool = load_toy().pool
    with pool.lent() as one, pool.lent() as two:
        assert one is not two
    with pool.lent() as again:
        assert again in (one, two)


def test_a_workspace_has_two_views_that_share_an_axis():
    from dataclasses import replace

    from vhdiffuser.envs.registry import get_environment
    from vhdiffuser.web.scene import views_of

    above, side = views_of(replace(load_toy(), environment=get_environment("cube")))
    assert (above.right, above.up, side.right, side.up) == (0, 1, 0, 2)
    assert above.right_range == side.right_range == [-1.75, 1.75]
    assert side.up_range == [0.2, 3.5]


@pytest.mark.filterwarnings("ignore::vhdiffuser.errors.VhdWarning")
def test_own_environments_and_imported_data_are_offered_and_plan(vhd_home, tmp_path):
    vhdiffuser.register(vhdiffuser.make_maze(["#####", "#OOO#", "#O#O#", "#####"], name="my-maze"))
    import_cart(tmp_path)
    for name in ("my-maze", "cart"):
        spec = get_environment(name).spec
        save_planner("vhd", spec=spec)
        save_length(spec)
    library = Library.of_weights()
    ready = [name for name, missing in library.listing() if not missing.to_plan]
    assert {"my-maze", "cart"} <= set(ready)
    with TestClient(create_app(library), base_url="http://127.0.0.1") as client:
        for name, executes in (("my-maze", True), ("cart", False)):
            scene = client.get(f"/api/environments/{name}").json()
            assert (scene["environment"], scene["executes"], scene["map"] is not None) == (name, executes, executes)
            pair = {"environment": name, "start": scene["start"], "goal": scene["goal"]}
            assert client.post("/api/plan", json=pair).status_code == 200
            assert client.post("/api/execute", json=pair).status_code == (200 if executes else 404)

"""What another tenant sees of a virtual cluster: nothing, by any verb of kubectl or the centre."""

import os
from typing import Any

import pytest

from dure.client.fleet import RefusedError, calls
from tests.virtual.beds import NAME, PATH_WITH_DURE, VirtualFleet

_THING = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"}}'
_VERBS = (
    ("get", "pods"),
    ("get", "pods", "--watch"),
    ("get", "nodes"),
    ("get", "events"),
    ("logs", "job/private"),
    ("create", "-f", "-"),
    ("apply", "-f", "-"),
    ("replace", "-f", "-"),
    ("label", "job", "private", "seen=yes"),
    ("delete", "job", "private"),
    ("delete", "pods", "--all"),
    ("auth", "whoami"),
)
_REFUSALS = ("nauthorized", "must be logged in", "provide credentials")


def sees_nothing(fleet: VirtualFleet, mine: str) -> None:
    """Of acme's Job "private", which runs as the job `mine` of the centre, globex sees nothing."""
    _by_kubectl(fleet)
    _at_the_centre(fleet, mine)


def _by_kubectl(fleet: VirtualFleet) -> None:
    """Whoever owns it shows a token of Dure; another tenant's is worth nothing there."""
    conf = fleet.folder / "person.kubeconfig"
    made = fleet.dure("acme", "vcluster", "kubeconfig", NAME, "--out", str(conf))
    assert made.returncode == 0, made.stderr
    env = {"PATH": f"{PATH_WITH_DURE}:{os.environ['PATH']}"}
    ours = fleet.run_kubectl("get", "pods", conf=conf, env=env | fleet.environment("acme"))
    assert "private" in ours.stdout, ours.stderr
    for words in _VERBS:
        theirs = fleet.run_kubectl(
            *words, conf=conf, env=env | fleet.environment("globex"), stdin=_THING
        )
        assert theirs.returncode != 0, words
        assert "private" not in theirs.stdout
        assert any(refusal in theirs.stderr for refusal in _REFUSALS), (words, theirs.stderr)


def _at_the_centre(fleet: VirtualFleet, mine: str) -> None:
    """Neither jobs, logs, events, pools nor the virtual cluster itself."""
    with fleet.as_tenant("globex") as globex:
        assert not [
            each
            for each in globex.each(lambda c: calls.list_jobs(cursor=c))
            if each.tenant != "globex"
        ]
        asks: tuple[Any, ...] = (
            calls.get_job(mine),
            calls.cancel_job(mine),
            calls.explain_job(mine),
            calls.get_virtual(NAME),
            calls.get_virtual_nodes(NAME),
            calls.get_pool("gpus"),
        )
        for refused in asks:
            with pytest.raises(RefusedError) as caught:
                globex.do(refused)
            assert caught.value.status == 404
        with pytest.raises(RefusedError):
            list(globex.logs(mine))
        events = globex.do(calls.list_events(limit=1000)).items
        assert not [each for each in events if each.subject.startswith(mine)]
        assert not [each for each in events if each.tenant == "acme"]

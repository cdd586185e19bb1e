import pytest

from dure.cli.wishes import checked_name, name_of, patch_of, spec_of
from dure.client.schema import LatencyPromise, TenantPatch, TenantSpec
from dure.domain.errors import InputError
from dure.domain.units import GIB, NS_PER_MS, NS_PER_S


def test_options_become_a_tenant_and_what_was_not_stated_keeps_its_default() -> None:
    spec = spec_of(
        {
            "memory-limit": "20GiB",
            "sm-share": "50%",
            "weight": None,
            "class": "guaranteed",
            "latency-slo": "p99=20ms",
            "throughput-slo": "100/s",
            "expect": "2h",
            "copy-limit": "2GB/s",
        },
        gpu="0",
        command=("python", "serve.py"),
    )
    assert spec.memory_limit_bytes == 20 * GIB
    assert spec.sm_share == 0.5
    assert spec.weight == TenantSpec().weight
    assert spec.tenant_class == "guaranteed"
    assert spec.latency_slo == LatencyPromise(target_ns=20 * NS_PER_MS)
    assert spec.throughput_slo is not None
    assert spec.throughput_slo.items_per_s == 100.0
    assert spec.expected_ns == 7200 * NS_PER_S
    assert spec.copy_bytes_per_s == 2e9
    assert (spec.gpu, spec.command) == ("0", ("python", "serve.py"))


@pytest.mark.parametrize(
    ("stated", "sentence"),
    [
        ({"memory-limit": "20"}, "--memory-limit: '20' is not a size; write a number and one of "),
        ({"memory-limit": "0GiB"}, "--memory-limit: a tenant without memory cannot run; "),
        ({"latency-slo": "10us"}, "--latency-slo: no GPU answers within 10 µs; promise 50 µs "),
        ({"weight": "heavy"}, "--weight: 'heavy' is not a weight; write a number above 0"),
        ({"weight": "-1"}, "--weight: '-1' is not a weight; "),
        ({"class": "vip"}, "--class: 'vip' is not a class; use one of guaranteed, standard, "),
        ({"goal": "win"}, "--goal: 'win' is not a goal; use one of finish, slo, goodput"),
        ({"expect": "0s"}, "--expect: must be longer than nothing; write '2h'"),
        ({"sm-share": "2"}, "--sm-share: '2' is more than the whole; "),
        (
            {"memory-limit": "1GiB", "memory-reserve": "2GiB"},
            "--memory-reserve: more memory is reserved than the tenant may take; ",
        ),
        (
            {"class": "best-effort", "latency-slo": "20ms"},
            "nothing can be promised to a best-effort tenant: it takes what is left; ",
        ),
        (
            {"expect": "2h", "deadline": "1h"},
            "--deadline: the deadline is sooner than the job takes alone; allow more time",
        ),
    ],
)
def test_what_cannot_be_meant_is_one_sentence(stated: dict[str, str], sentence: str) -> None:
    with pytest.raises(InputError) as refused:
        spec_of(stated)
    assert str(refused.value).startswith(sentence)


def test_changes_send_only_what_was_named_and_none_clears() -> None:
    patch = patch_of(["weight=2", "latency-slo=p95=5ms", "memory_limit=none", "class=standard"])
    assert patch == TenantPatch(
        weight=2.0,
        latency_slo=LatencyPromise(target_ns=5 * NS_PER_MS, percentile=95.0),
        memory_limit_bytes=None,
        tenant_class="standard",
    )
    assert patch.model_fields_set == {
        "weight",
        "latency_slo",
        "memory_limit_bytes",
        "tenant_class",
    }


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("weight", "'weight' changes nothing; write KEY=VALUE, as in 'weight=2'"),
        ("wieght=2", "a tenant has no setting 'wieght'; did you mean 'weight'?"),
        ("speed=2", "a tenant has no setting 'speed'; use one of weight, class, "),
        ("weight=0", "weight: '0' is not a weight; "),
    ],
)
def test_a_change_nobody_understands_says_what_to_write(change: str, sentence: str) -> None:
    with pytest.raises(InputError) as refused:
        patch_of([change])
    assert str(refused.value).startswith(sentence)


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["python", "train.py", "--epochs", "3"], "train"),
        (["python3", "-u", "work/serve model.py"], "serve-model"),
        (["/usr/bin/nvidia-smi"], "nvidia-smi"),
        (["torchrun", "--nproc-per-node", "2", "/data/main.py"], "main"),
        (["…"], "program"),
        (["x" * 80], "x" * 32),
    ],
)
def test_a_tenant_nobody_named_is_called_after_its_script(command: list[str], name: str) -> None:
    assert name_of(command) == name
    assert checked_name(name) == name


@pytest.mark.parametrize("name", ["", "-web", "a b", "ü", "x" * 33, "a/b", "web\n"])
def test_a_name_the_agent_would_not_take_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="cannot name a tenant"):
        checked_name(name)

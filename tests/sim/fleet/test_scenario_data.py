"""Scenarios that read traces, series and price lists, and what is said of broken ones."""

from pathlib import Path

import pytest

from dure.domain.errors import InputError
from dure.domain.fleet.workloads import WorkloadKind
from dure.domain.units import NS_PER_S
from tests.sim.fleet.scenarios import (
    Fields,
    cluster,
    read,
    scenario,
    service,
)

HOUR_NS = 3600 * NS_PER_S


DATA = {
    "sia/traces/philly.csv": "timestamp,duration,num_gpus,gpu_time,cluster\n"
    + "".join(f"2017-10-01 {hour:02}:00:00,600,1,600,vc{hour % 3}\n" for hour in range(12)),
    "azure-llm/AzureLLMInferenceTrace_code.csv": "TIMESTAMP,ContextTokens,GeneratedTokens\n"
    + "".join(f"2023-11-16 18:{minute:02}:00.0,10,10\n" for minute in range(60)),
    "carbon-electricitymaps/ci_direct_gco2_per_kwh_2023_hourly.csv": "datetime_utc,KR\n"
    + "".join(f"2023-10-01 {hour:02}:00:00,{400 + hour}\n" for hour in range(24)),
    "electricity-prices/price_usd_per_mwh_2023_hourly.csv": "datetime_utc,KR\n"
    + "".join(f"2023-10-01 {hour:02}:00:00,{100 + hour}\n" for hour in range(24)),
    "skypilot-catalog/v7_aws_accelerator_vms.csv": (
        "AcceleratorName,AcceleratorCount,Price,SpotPrice,Region\nA100-80GB,8,40,20,us-east-1\n"
    ),
    "network-cost/aws_transmission_cost_matrix.csv": (
        ",us-east-1,us-west-2\nus-east-1,0,0.02\nus-west-2,0.03,0\n"
    ),
    "openb/openb_node_list_gpu_node.csv": (
        "sn,cpu_milli,memory_mib,gpu,model\nn,64000,262144,2,P100\n"
    ),
    "openb/openb_pod_list_default.csv": (
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n"
        "a,4000,8192,1,500\nb,4000,8192,0,0\nc,8000,8192,1,1000\n"
    ),
}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    for name, text in DATA.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def with_data(**changes: object) -> Fields:
    """A scenario that reads everything there is."""
    kr = {"zone": "KR"}
    clusters = [
        cluster(tariff={"price_list": {}, "currency": "KRW"}, carbon=kr, electricity=kr),
        cluster(
            name="west",
            region="us-west-2",
            groups=[{"profile": "a100", "nodes": 2, "mode": "mps"}],
        ),
    ]
    fields = scenario(
        rates={"KRW": 0.001},
        clusters=clusters,
        network={"egress": {"providers": ["aws"], "default": 1}},
        workloads=[service(service=service()["service"] | {"load": "azure"})],  # type: ignore[operator]
        sources=[{"name": "jobs", "philly": {}, "jobs": {"shapes": "openb", "reference": "v100"}}],
    )
    return fields | changes


def test_data_is_read_where_the_scenario_says(tmp_path: Path, data: Path) -> None:
    setting = read(tmp_path, with_data(), data=data).setting
    east, west = setting.fleet.clusters
    assert east.tariff.device_hour["a100"] == pytest.approx(5000.0)
    assert east.carbon_g_per_kwh.at(setting.start_ns + 2 * HOUR_NS) == 402.0
    assert east.electricity_per_mwh.at(setting.start_ns) == pytest.approx(100_000.0)
    assert setting.fleet.egress(west.id, east.id) == 0.03
    jobs = [each for each in setting.workloads if each.kind is not WorkloadKind.SERVING]
    assert len(jobs) == 12
    assert {each.demand.cpu_milli for each in jobs} <= {4000, 8000}
    assert setting.loads.requests_per_s.shape == (1, 144)


@pytest.mark.parametrize(
    ("name", "text", "parts"),
    [
        ("sia/traces/philly.csv", "", ("philly.csv", "the file is empty")),
        (
            "sia/traces/philly.csv",
            "timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-01 01:00:00,x,1,1,a\n",
            ("philly.csv, line 2", "column 'duration'", "'x' is no number"),
        ),
        (
            "carbon-electricitymaps/ci_direct_gco2_per_kwh_2023_hourly.csv",
            "datetime_utc,KR\n2023-10-01 00:00:00,1\n",
            ("covers 2023-10-01 00:00 to 2023-10-01 01:00, not all of the scenario",),
        ),
        (
            "carbon-electricitymaps/ci_direct_gco2_per_kwh_2023_hourly.csv",
            "datetime_utc,KP\n2023-10-01 00:00:00,1\n",
            ("there is no zone 'KR'",),
        ),
        (
            "carbon-electricitymaps/ci_direct_gco2_per_kwh_2023_hourly.csv",
            DATA["carbon-electricitymaps/ci_direct_gco2_per_kwh_2023_hourly.csv"].replace(
                ":00,", ":00,-", 1
            ),
            ("line 2", "column 'KR'", "is no number of at least 0"),
        ),
        (
            "electricity-prices/price_usd_per_mwh_2023_hourly.csv",
            DATA["electricity-prices/price_usd_per_mwh_2023_hourly.csv"].replace("105", "NaN"),
            ("line 7", "column 'KR'", "'NaN' is no number"),
        ),
        (
            "electricity-prices/price_usd_per_mwh_2023_hourly.csv",
            "datetime_utc,KR\n2023-10-01 00:00:00,1\n2023-10-01 02:00:00,1\n",
            ("line 3", "there is a gap"),
        ),
        (
            "skypilot-catalog/v7_aws_accelerator_vms.csv",
            "AcceleratorName,AcceleratorCount,Price,SpotPrice,Region\nH100,8,40,20,us-east-1\n",
            ("'us-east-1' has no a100 with a price",),
        ),
        (
            "network-cost/aws_transmission_cost_matrix.csv",
            ",us-east-1\nus-east-1,0\n",
            ("there is no region 'us-west-2'",),
        ),
        (
            "openb/openb_pod_list_default.csv",
            "name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,4000,8192,1,half\n",
            ("line 2", "column 'gpu_milli'"),
        ),
    ],
)
def test_broken_data_is_refused_with_its_own_place(
    tmp_path: Path, data: Path, name: str, text: str, parts: tuple[str, ...]
) -> None:
    (data / name).write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as refused:
        read(tmp_path, with_data(), data=data)
    assert str(data / name) in str(refused.value)
    assert all(part in str(refused.value) for part in parts)


def test_a_missing_data_file_is_named(tmp_path: Path, data: Path) -> None:
    (data / "sia/traces/philly.csv").unlink()
    with pytest.raises(InputError, match=r"philly\.csv: there is no such file; check --data"):
        read(tmp_path, with_data(), data=data)


def test_a_data_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--data: there is no such folder"):
        read(tmp_path, scenario(), data=tmp_path / "nowhere")
    with pytest.raises(InputError, match="--data: is no folder"):
        read(tmp_path, scenario(), data=tmp_path / "scenario.yaml")


def test_a_data_folder_that_cannot_be_read_is_refused(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda path, _mode: Path(path) != data)
    with pytest.raises(InputError, match="--data: cannot be read; name a readable folder"):
        read(tmp_path, with_data(), data=data)

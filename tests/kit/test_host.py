import platform
from importlib import metadata

from dure.kit.host import describe_host


def test_a_host_is_described_with_python_and_the_packages_asked_for() -> None:
    said = describe_host("numpy")
    assert f"Python {platform.python_version()}" in said
    assert said.endswith(f"numpy {metadata.version('numpy')}")
    assert " cores, " in said

"""Fixtures of this folder; tests elsewhere import them from `tests.kube.fixtures`."""

from tests.kube.fixtures import kube, kube_ha, namespace

__all__ = ["kube", "kube_ha", "namespace"]

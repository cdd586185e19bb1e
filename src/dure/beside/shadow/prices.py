"""What devices, power and carbon cost in watched clusters: a file, since nobody there says it."""

from typing import Annotated

from pydantic import Field, model_validator

from dure.api.base import Currency, Document, LowerName, Positive
from dure.api.clusters import ClusterSpec
from dure.domain.fleet.clusters import ClusterClass


class ShadowPrices(Document):
    """The file of `dure shadow report --prices`."""

    currency: Currency = "USD"
    """Of what is reported."""
    rates: Annotated[dict[Currency, Positive], Field(max_length=100)] = Field(default_factory=dict)
    """What one unit of another currency is worth."""
    clusters: Annotated[dict[LowerName, ClusterSpec], Field(max_length=1000)] = Field(
        default_factory=dict
    )
    """As `dure clusters set` takes them, with numbers instead of feeds."""

    @model_validator(mode="after")
    def _numbers(self) -> "ShadowPrices":
        for name, spec in self.clusters.items():
            if spec.carbon.feed is not None or spec.electricity.feed is not None:
                raise ValueError(f"clusters.{name} names a feed; write a number")
        return self

    def of(self, cluster: str) -> ClusterSpec:
        """What is known of a cluster; all free of charge where nothing is."""
        return self.clusters.get(cluster, ClusterSpec(cluster_class=ClusterClass.ON_PREM))

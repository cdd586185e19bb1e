"""One series from beginning to end: where its usual value moved, and which values do not belong."""

from collections.abc import Iterable, Iterator, Mapping

from dure.domain.risks import Risk, RiskKind
from dure.telemetry.anomaly import AnomalyDetector
from dure.telemetry.change import ChangeDetector
from dure.telemetry.ports import Detector, Finding


def own_detectors() -> dict[RiskKind, Detector]:
    """Dure's own, new."""
    return {RiskKind.CHANGE: ChangeDetector(), RiskKind.ANOMALY: AnomalyDetector()}


def scan(
    series: str, values: Iterable[float], detectors: Mapping[RiskKind, Detector]
) -> Iterator[tuple[int, Risk]]:
    """Feed a series to detectors; what they say, with the number of the value they say it at."""
    for number, value in enumerate(values):
        for kind, detector in detectors.items():
            finding = detector.observe(value)
            if finding is not None:
                yield number, Risk(series, kind, finding.confidence, _reason(kind, finding))


def _reason(kind: RiskKind, finding: Finding) -> str:
    if kind is RiskKind.CHANGE:
        return f"what is usual moved from {finding.before:.4g} to {finding.after:.4g}"
    return f"{finding.after:.4g} where {finding.before:.4g} is usual"

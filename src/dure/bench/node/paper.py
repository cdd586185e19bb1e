"""What the paper measured on an RTX 3090 with Docker: its Table 1, and what its text states."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PaperPhases:
    """Seconds of one line of Table 1: 13,312 squared."""

    input_s: float
    kernel_s: float
    output_s: float

    @property
    def total_s(self) -> float:
        return self.input_s + self.kernel_s + self.output_s


TABLE_1 = {
    1: PaperPhases(0.188997, 10.79455, 0.318502),
    2: PaperPhases(0.235931, 23.27129, 0.332669),
    3: PaperPhases(0.333234, 34.78156, 0.340334),
    4: PaperPhases(0.471171, 46.41933, 0.348032),
    5: PaperPhases(0.588509, 58.01878, 0.361234),
    6: PaperPhases(0.698254, 69.37386, 0.362889),
    7: PaperPhases(0.808317, 81.16589, 0.364612),
    8: PaperPhases(0.933156, 92.69842, 0.382235),
    9: PaperPhases(1.042857, 104.0067, 0.42654),
    10: PaperPhases(1.142859, 115.4842, 0.462421),
}

MANAGED_BELOW_LINE_S = 0.2
"""Its managed runs end about so much before y = a·x, at 19,456 and 13,312 squared (section 5)."""


def line_s(count: int) -> float:
    """The paper's y = a·x for 13,312 squared: so many times one alone."""
    return count * TABLE_1[1].total_s


def plain_ratio_of_managed(count: int) -> float:
    """The paper's managed end over its plain one, from Table 1 and the 0.2 s of its text."""
    return (line_s(count) - MANAGED_BELOW_LINE_S) / TABLE_1[count].total_s

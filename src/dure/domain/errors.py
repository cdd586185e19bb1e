"""One root for every error Dure raises on purpose; messages say what happened and what to do."""


class DureError(Exception):
    """Something went wrong that a person can act on."""

    def __init__(self, what: str, remedy: str = "") -> None:
        self.what = what
        self.remedy = remedy
        super().__init__(what, remedy)

    def __str__(self) -> str:
        return f"{self.what}; {self.remedy}" if self.remedy else self.what


class InputError(DureError):
    """What a person wrote cannot be used; nothing was run."""

    def __init__(self, what: str, remedy: str = "", *, file: str = "", field: str = "") -> None:
        super().__init__(what, remedy)
        self.file = file
        self.field = field

    def __str__(self) -> str:
        where = ": ".join(part for part in (self.file, self.field) if part)
        said = super().__str__()
        return f"{where}: {said}" if where else said

    def located(self, *, file: str = "", field: str = "") -> "InputError":
        """The same complaint, with the place filled in where it was unknown."""
        return InputError(self.what, self.remedy, file=self.file or file, field=self.field or field)


class InvariantError(DureError):
    """A machine found its own state impossible; a bug, reported with its story."""

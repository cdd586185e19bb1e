from dure.domain.errors import InputError


def test_a_place_is_filled_in_only_where_it_is_unknown() -> None:
    error = InputError("is wrong", "mend it", field="weight")
    assert str(error.located(file="a.yaml", field="other")) == "a.yaml: weight: is wrong; mend it"

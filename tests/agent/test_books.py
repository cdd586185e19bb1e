"""What is kept of a tenant's last seconds."""

import pytest

from dure.agent.books import Book, Deeds


def test_the_error_of_predicted_squads_is_a_median_over_entries_with_timed_launches() -> None:
    book = Book()
    assert book.squad_error() is None
    for predicted_ns in (90, 100, 140):
        book.add(Deeds(elapsed_ns=20_000_000, timed_ns=100, predicted_ns=predicted_ns))
    book.add(Deeds(elapsed_ns=20_000_000))
    assert book.squad_error() == pytest.approx(0.1)


def test_errors_of_single_launches_cancel_within_a_squad() -> None:
    book = Book()
    squad = Deeds(elapsed_ns=20_000_000)
    for predicted_ns in (80, 120):
        squad.add(Deeds(timed_ns=100, predicted_ns=predicted_ns))
    book.add(squad)
    assert book.squad_error() == 0.0

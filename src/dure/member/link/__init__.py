"""The link to the centre: dialled out, kept alive, taken up again where it was cut."""

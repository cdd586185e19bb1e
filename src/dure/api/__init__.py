"""Documents of the centre's REST interface, `/v1`: what the server, its client and people exchange.

Documents keep what was written (`20GiB`, `+6h`); `dure.server.specs` makes domain values of them.
"""

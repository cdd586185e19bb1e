"""The centre's REST interface, `/v1`: one file for each kind of resource."""

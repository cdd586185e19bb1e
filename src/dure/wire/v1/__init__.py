"""Generated from `proto/dure/v1` by `tools/make_proto`; nothing here is written by hand."""

"""The `dure` command: one file per group of commands, each a thin face over the packages below."""

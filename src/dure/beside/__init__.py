"""Dure beside schedulers that stay: ranks clusters for MultiKueue, watches others as a shadow."""

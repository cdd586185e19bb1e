#!/usr/bin/env python3
"""Writes the custom resources of a member cluster, one file for each, from the API's documents.

tools/make_crds.py [FOLDER ...]    FOLDERs instead of deploy/crds and the chart's crds
"""

import sys
from pathlib import Path

import yaml

from dure.api.crds import KINDS, definition

ROOT = Path(__file__).resolve().parent.parent
HOMES = (ROOT / "deploy" / "crds", ROOT / "deploy" / "helm" / "dure-member" / "crds")
HEAD = "# Made by tools/make_crds.py from the documents of dure.api.\n"


def main() -> None:
    """Write them all."""
    for home in [Path(each) for each in sys.argv[1:]] or HOMES:
        home.mkdir(parents=True, exist_ok=True)
        for kind in KINDS:
            text = yaml.safe_dump(definition(kind), sort_keys=False, width=110, allow_unicode=True)
            (home / f"{kind.plural}.yaml").write_text(HEAD + text, encoding="utf-8")


if __name__ == "__main__":
    main()

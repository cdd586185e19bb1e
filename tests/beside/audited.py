"""A cluster whose API server writes down every request: who asked for what."""

import json
from pathlib import Path
from typing import Any

from tests.kube.cluster import KubeCluster
from tests.kube.programs import Program

ACCOUNTS = "system:serviceaccount:dure-system:"


class AuditedCluster(KubeCluster):
    """As any, with an audit log."""

    @property
    def audit_file(self) -> Path:
        """Where requests are written, a line each."""
        return self.folder / "audit.log"

    def _api_server(self, number: int) -> Program:
        policy = self.folder / "audit.yaml"
        mine = {"level": "Metadata", "userGroups": [ACCOUNTS.replace("account:", "accounts:")[:-1]]}
        rules = {"rules": [mine, {"level": "None"}], "omitStages": ["RequestReceived"]}
        plain = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy"} | rules
        policy.write_text(json.dumps(plain), encoding="utf-8")
        program = super()._api_server(number)
        program.command += [
            f"--audit-policy-file={policy}",
            f"--audit-log-path={self.audit_file}",
        ]
        return program

    def requests_of(self, account: str) -> list[dict[str, Any]]:
        """What a service account of ours asked for."""
        lines = self.audit_file.read_text(encoding="utf-8").splitlines()
        found = [json.loads(line) for line in lines if line.endswith("}")]
        return [each for each in found if each["user"]["username"] == f"{ACCOUNTS}{account}"]
